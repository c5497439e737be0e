package realtime

import (
	"cmp"
	"net/url"
	"time"

	"golang.org/x/text/language"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/realtime"
)

// Default values of settings (OpenAI guide "Realtime transcription"; Model Studio, models of
// Qwen-ASR-Realtime and Qwen-TTS-Realtime and their voices).
const (
	DefaultListenModel     = "gpt-4o-transcribe"
	DefaultQwenListenModel = "qwen3-asr-flash-realtime"
	DefaultSpeakModel      = "qwen3-tts-flash-realtime"
	DefaultVoice           = "Cherry"
)

// Modes: who decides what is spoken at once (Qwen-TTS-Realtime, client events, session.mode).
const (
	ModeCommit       = "commit"        // each sentence
	ModeServerCommit = "server_commit" // the service
)

// maxResultTimeout is longer than anybody waits for an answer.
const maxResultTimeout = time.Minute

// Settings define an engine. URL is required.
type Settings struct {
	// URL is the address of the service, wss://api.openai.com/v1/realtime or
	// wss://dashscope.aliyuncs.com/api-ws/v1/realtime.
	URL string `json:"url"`
	// APIKey is sent as a bearer token.
	APIKey string `json:"api_key,omitempty" secret:"true" to:"url"`
	// Spelling is openai or qwen. Empty means that of the address.
	Spelling string `json:"spelling,omitempty"`
	// ListenModel and SpeakModel are the names of the models.
	ListenModel string `json:"listen_model,omitempty"`
	SpeakModel  string `json:"speak_model,omitempty"`
	// Language is what is spoken, BCP 47, unless a board has one of its own.
	Language string `json:"language,omitempty"`
	// Voice is the name of the voice; an answer may choose another.
	Voice string `json:"voice,omitempty"`
	// Mode is commit or server_commit. Empty means commit.
	Mode string `json:"mode,omitempty"`
	// Headers are sent with the WebSocket request. They override our own.
	Headers map[string]string `json:"headers,omitempty" secret:"true" to:"url"`
	// ResultTimeout limits the time without a result. 0 means 5 s; the maximum is 1 min.
	ResultTimeout settings.Duration `json:"result_timeout,omitempty"`
}

// Texts about invalid settings.
const (
	msgSpelling      = i18n.Message("spelling is %q; choose openai or qwen, or leave it out")
	msgMode          = i18n.Message("mode is %q; choose commit or server_commit, or leave it out")
	msgLanguage      = i18n.Message("language is %q; give a code such as zh or en-US, or leave it out")
	msgResultTimeout = i18n.Message(`result_timeout is %s; choose something like "5s", %s at most`)
)

// Validate returns an error that explains what is invalid and how to fix it. It quotes neither the
// address nor a secret.
func (s *Settings) Validate() error {
	if _, err := realtime.ParseURL(s.URL); err != nil {
		return err
	}
	switch {
	case s.Spelling != "" && s.Spelling != string(realtime.OpenAI) && s.Spelling != string(realtime.Qwen):
		return msgSpelling.Errorf(s.Spelling)
	case s.Mode != "" && s.Mode != ModeCommit && s.Mode != ModeServerCommit:
		return msgMode.Errorf(s.Mode)
	case time.Duration(s.ResultTimeout) > maxResultTimeout:
		return msgResultTimeout.Errorf(time.Duration(s.ResultTimeout), maxResultTimeout)
	}
	if s.Language != "" {
		if _, err := language.Parse(s.Language); err != nil {
			return msgLanguage.Errorf(s.Language)
		}
	}
	return realtime.CheckCredentials(s.APIKey, s.Headers)
}

func (s *Settings) spelling(u *url.URL) realtime.Spelling {
	return cmp.Or(realtime.Spelling(s.Spelling), realtime.SpellingOf(u, cmp.Or(s.ListenModel, s.SpeakModel)))
}
