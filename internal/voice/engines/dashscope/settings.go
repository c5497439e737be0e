package dashscope

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/text/language"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

// Default values of settings (Model Studio, lists of models and voices).
const (
	DefaultURL         = "wss://dashscope.aliyuncs.com" + path
	DefaultListenModel = "paraformer-realtime-v2"
	DefaultSpeakModel  = "cosyvoice-v3-flash"
	DefaultVoice       = "longanyang"
)

// path is where the service is, on every host.
const path = "/api-ws/v1/inference"

// Formats of speech.
const (
	PCM  = "pcm"  // 24 kHz
	Opus = "opus" // in Ogg
)

const (
	// minSpeed and maxSpeed are those of CosyVoice (Model Studio, CosyVoice WebSocket API, rate).
	minSpeed, maxSpeed = 0.5, 2.0
	// maxLanguages is more than any model takes.
	maxLanguages = 10
)

// Settings define an engine. APIKey is required.
type Settings struct {
	// URL is the address of the region's service, or of a workspace. Empty means DefaultURL. The
	// usual path may be left out.
	URL string `json:"url,omitempty"`
	// APIKey is a key of Model Studio, of the same region.
	APIKey string `json:"api_key" secret:"true" to:"url"`
	// ListenModel and SpeakModel are the names of the models.
	ListenModel string `json:"listen_model,omitempty"`
	SpeakModel  string `json:"speak_model,omitempty"`
	// Voice is the name of a voice of the model; a conversation may choose another.
	Voice string `json:"voice,omitempty"`
	// Speed is the speed of speech, 0.5 to 2; 0 means the normal one.
	Speed float64 `json:"speed,omitempty"`
	// Format is what speech is sent in: pcm or opus. Empty means pcm.
	Format string `json:"format,omitempty"`
	// Vocabulary is the id of a list of hot words that was made before.
	Vocabulary string `json:"vocabulary_id,omitempty"`
	// Languages are those that may be spoken; a conversation may name another. Empty means all that
	// the model knows.
	Languages []string `json:"languages,omitempty"`
}

// Texts about invalid settings.
const (
	msgNoKey     = i18n.Message("api_key is missing: give a key of Alibaba Cloud Model Studio")
	msgURL       = i18n.Message("url is not an address of Model Studio; it has to look like %s")
	msgSpeed     = i18n.Message("speed is %v; choose between 0.5 and 2, or leave it out")
	msgFormat    = i18n.Message("format is %q; choose pcm or opus, or leave it out")
	msgLanguage  = i18n.Message("languages: %q is no code such as zh or en")
	msgLanguages = i18n.Message("languages has %d codes; %d are the most")
)

// Validate returns an error that explains what is invalid and how to fix it. It quotes no secret.
func (s *Settings) Validate() error {
	if _, err := s.address(); err != nil {
		return err
	}
	switch {
	case s.APIKey == "":
		return msgNoKey.Errorf()
	case s.Speed != 0 && !(s.Speed >= minSpeed && s.Speed <= maxSpeed):
		return msgSpeed.Errorf(s.Speed)
	case !slices.Contains([]string{"", PCM, Opus}, s.Format):
		return msgFormat.Errorf(s.Format)
	case len(s.Languages) > maxLanguages:
		return msgLanguages.Errorf(len(s.Languages), maxLanguages)
	}
	for _, l := range s.Languages {
		if _, err := language.Parse(l); err != nil {
			return msgLanguage.Errorf(l)
		}
	}
	return settings.CheckCredential("api_key", s.APIKey)
}

// address parses the address. Errors do not quote it.
func (s *Settings) address() (*url.URL, error) {
	u, err := url.Parse(orDefault(strings.TrimSpace(s.URL), DefaultURL))
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" || u.User != nil {
		return nil, msgURL.Errorf(DefaultURL)
	}
	u.Fragment, u.RawFragment = "", ""
	if strings.Trim(u.Path, "/") == "" {
		u.Path = path
	}
	return u, nil
}

func orDefault(v, otherwise string) string {
	if v == "" {
		return otherwise
	}
	return v
}
