package control

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
)

// VoiceService is a service of which one key is enough: it listens and speaks, and one of its
// models can answer.
type VoiceService struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Keys is the page where people make a key, and KeyVariable the environment variable in which
	// programs of the service expect it.
	Keys        string `json:"keys"`
	KeyVariable string `json:"key_variable"`
	// Kind and Engine are the kind of its speech engine and its settings, Bot those of a bot of the
	// kind openai. The key is missing.
	Kind   string       `json:"kind"`
	Engine SettingTexts `json:"engine"`
	Bot    SettingTexts `json:"bot"`

	title i18n.Message
}

// voiceServices are the services, in the order in which people are shown them. Models and voices
// are those that the services recommend for conversations; they are settings of what is made.
//
// Sources: OpenAI API reference, Audio; Groq documentation, Speech to Text and Text to Speech,
// whose models take response_format wav alone; SiliconFlow API reference, Create speech;
// Alibaba Cloud Model Studio, Real-time speech recognition and OpenAI compatibility.
var voiceServices = []VoiceService{
	{Name: "openai", title: i18n.Message("OpenAI"), Kind: "openai",
		Keys: "https://platform.openai.com/api-keys", KeyVariable: "OPENAI_API_KEY",
		Engine: SettingTexts{"base_url": "https://api.openai.com/v1", "listen_model": "gpt-4o-mini-transcribe",
			"speak_model": "gpt-4o-mini-tts", "voice": "alloy"},
		Bot: SettingTexts{"base_url": "https://api.openai.com/v1", "model": "gpt-4.1-mini"}},
	{Name: "groq", title: i18n.Message("Groq (speaks English)"), Kind: "openai",
		Keys: "https://console.groq.com/keys", KeyVariable: "GROQ_API_KEY",
		Engine: SettingTexts{"base_url": "https://api.groq.com/openai/v1", "listen_model": "whisper-large-v3-turbo",
			"speak_model": "canopylabs/orpheus-v1-english", "voice": "austin", "format": "wav"},
		Bot: SettingTexts{"base_url": "https://api.groq.com/openai/v1", "model": "llama-3.3-70b-versatile"}},
	{Name: "siliconflow", title: i18n.Message("SiliconFlow"), Kind: "openai",
		Keys: "https://cloud.siliconflow.cn/account/ak", KeyVariable: "SILICONFLOW_API_KEY",
		Engine: SettingTexts{"base_url": "https://api.siliconflow.cn/v1",
			"listen_model": "FunAudioLLM/SenseVoiceSmall", "speak_model": "FunAudioLLM/CosyVoice2-0.5B",
			"voice": "FunAudioLLM/CosyVoice2-0.5B:anna"},
		Bot: SettingTexts{"base_url": "https://api.siliconflow.cn/v1", "model": "Qwen/Qwen3-30B-A3B-Instruct-2507"}},
	{Name: "dashscope", title: i18n.Message("Alibaba Cloud Model Studio"), Kind: "dashscope",
		Keys: "https://bailian.console.aliyun.com/?tab=model#/api-key", KeyVariable: "DASHSCOPE_API_KEY",
		Engine: SettingTexts{"url": "wss://dashscope.aliyuncs.com", "listen_model": "paraformer-realtime-v2",
			"speak_model": "cosyvoice-v3-flash", "voice": "longanyang"},
		Bot: SettingTexts{"base_url": "https://dashscope.aliyuncs.com/compatible-mode/v1", "model": "qwen-flash"}},
	{Name: "dashscope-intl", title: i18n.Message("Alibaba Cloud Model Studio, Singapore"), Kind: "dashscope",
		Keys: "https://modelstudio.console.alibabacloud.com/?tab=model#/api-key", KeyVariable: "DASHSCOPE_API_KEY",
		Engine: SettingTexts{"url": "wss://dashscope-intl.aliyuncs.com", "listen_model": "fun-asr-realtime",
			"speak_model": "cosyvoice-v3-flash", "voice": "longanyang"},
		Bot: SettingTexts{"base_url": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
			"model": "qwen-flash"}},
}

// VoiceServiceList is the list of services.
type VoiceServiceList struct {
	Services []VoiceService `json:"services"`
}

const msgNoService = i18n.Message("no service is called %q; there are %s")

// VoiceServices lists the services of which one key is enough for a conversation.
func (s *Service) VoiceServices(_ context.Context, c Caller, _ Empty) (VoiceServiceList, error) {
	if err := admin(c); err != nil {
		return VoiceServiceList{}, err
	}
	out := VoiceServiceList{slices.Clone(voiceServices)}
	for i := range out.Services {
		out.Services[i].Title = out.Services[i].title.In(c.Lang)
	}
	return out, nil
}

func voiceServiceNamed(name string) (VoiceService, error) {
	var names []string
	for _, v := range voiceServices {
		if v.Name == name {
			return v, nil
		}
		names = append(names, v.Name)
	}
	return VoiceService{}, problem.New(problem.Invalid, msgNoService, name, strings.Join(names, ", "))
}

// speechPath is where Model Studio has its speech engines, on every host (Model Studio, CosyVoice
// WebSocket API).
const speechPath = "/api-ws/v1/inference"

// moved returns a service at another address, that of a workspace or a proxy, and its host. Without
// a path, its paths stay. With one, it is the base address of OpenAI's interface; at Model Studio,
// it is the address of either interface, or what precedes both.
func (v VoiceService) moved(to string) (_ VoiceService, host string, err error) {
	bot, err := url.Parse(v.Bot["base_url"])
	if err != nil {
		return v, "", err
	}
	u, err := url.Parse(strings.TrimSpace(to))
	if err != nil || u.Hostname() == "" || u.User != nil || !slices.Contains(movedSchemes, u.Scheme) {
		return v, "", problem.New(problem.Invalid, msgSetupURL, bot)
	}
	secure, path := "", strings.TrimRight(u.Path, "/")
	if u.Scheme == "https" || u.Scheme == "wss" {
		secure = "s"
	}
	at := func(scheme, path string) string { return scheme + secure + "://" + u.Host + path }
	v.Engine, v.Bot = maps.Clone(v.Engine), maps.Clone(v.Bot)
	if v.Engine["url"] == "" { // both have one address
		path = cmp.Or(path, bot.Path)
		v.Engine["base_url"], v.Bot["base_url"] = at("http", path), at("http", path)
		return v, shortName(u.Host), nil
	}
	path = strings.TrimSuffix(strings.TrimSuffix(path, bot.Path), speechPath)
	v.Engine["url"], v.Bot["base_url"] = at("ws", ""), at("http", path+bot.Path)
	if path != "" {
		v.Engine["url"] += path + speechPath
	}
	return v, shortName(u.Host), nil
}

var movedSchemes = []string{"https", "http", "wss", "ws"}
