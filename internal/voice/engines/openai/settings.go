package openai

import (
	"net/url"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

// Default values of settings (OpenAI API reference, Audio).
const (
	DefaultListenModel = "gpt-4o-mini-transcribe"
	DefaultSpeakModel  = "gpt-4o-mini-tts"
	DefaultVoice       = "alloy"
	DefaultFormat      = "opus"
)

// maxInstructions limits how much a speaker is told about its manner, in bytes.
const maxInstructions = 4 << 10

// Settings define an engine. BaseURL is required.
type Settings struct {
	// BaseURL is the address of the API, such as https://api.openai.com/v1. An address that ends
	// with /inference is that of whisper.cpp, which only listens.
	BaseURL string `json:"base_url"`
	// APIKey is sent as a bearer token. Local engines need none.
	APIKey string `json:"api_key,omitempty" secret:"true" to:"base_url"`
	// ListenModel and SpeakModel are the names of the models.
	ListenModel string `json:"listen_model,omitempty"`
	SpeakModel  string `json:"speak_model,omitempty"`
	// Voice is the name of the voice; an answer may choose another.
	Voice string `json:"voice,omitempty"`
	// Speed is the speed of speech, 0.25 to 4; 0 means that of the engine.
	Speed float64 `json:"speed,omitempty"`
	// Instructions describe how the voice speaks. Few models take them.
	Instructions string `json:"instructions,omitempty"`
	// Format is what speech is asked for in: opus, wav or pcm, which is 24 kHz.
	Format string `json:"format,omitempty"`
	// Prompt are words that the listener should expect.
	Prompt string `json:"prompt,omitempty"`
}

const (
	msgNoBase       = i18n.Message("base_url is missing: give the address of the API, for example https://api.openai.com/v1")
	msgSpeed        = i18n.Message("speed is %v; choose between 0.25 and 4, or leave it out")
	msgFormat       = i18n.Message("format is %q; choose opus, wav or pcm, or leave it out")
	msgInstructions = i18n.Message("instructions has %d bytes; %d are the most")
)

// Validate returns an error that explains what is invalid and how to fix it.
func (s *Settings) Validate() error {
	if _, err := s.address(); err != nil {
		return err
	}
	switch {
	case s.Speed != 0 && !(s.Speed >= 0.25 && s.Speed <= 4):
		return msgSpeed.Errorf(s.Speed)
	case len(s.Instructions) > maxInstructions:
		return msgInstructions.Errorf(len(s.Instructions), maxInstructions)
	}
	switch s.Format {
	case "", "opus", "wav", "pcm":
	default:
		return msgFormat.Errorf(s.Format)
	}
	return settings.CheckCredential("api_key", s.APIKey)
}

// inferencePath is the path of whisper.cpp's server (examples/server/server.cpp, inference_path).
const inferencePath = "/inference"

// address returns the base address without a slash at the end of its path.
func (s *Settings) address() (*url.URL, error) {
	base := strings.TrimSpace(s.BaseURL)
	if base == "" {
		return nil, msgNoBase.Errorf()
	}
	u, err := settings.ParseAddress("base_url", base, "https://api.openai.com/v1", "api_key")
	if err != nil {
		return nil, err
	}
	u.Fragment, u.RawFragment, u.RawPath = "", "", ""
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}

func orDefault(v, otherwise string) string {
	if v == "" {
		return otherwise
	}
	return v
}
