package realtime

import (
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/realtime"
)

// Kind returns the kind of engines "realtime".
func Kind() engine.Kind {
	return engine.Kind{
		Name:     "realtime",
		Title:    i18n.Message("Realtime service"),
		About:    i18n.Message("OpenAI's live transcription, and Qwen-ASR and Qwen-TTS of Alibaba. They listen while you speak."),
		Listens:  true,
		Speaks:   true,
		Settings: func() any { return new(Settings) },
		Texts: map[string]settings.FieldText{
			"url": {Label: i18n.Message("Address"), Hint: i18n.Message("Of the realtime service"),
				Example: "wss://api.openai.com/v1/realtime"},
			"api_key":      {Label: i18n.Message("Key"), Hint: i18n.Message("Sent to that address only")},
			"spelling":     {Label: i18n.Message("Dialect"), Hint: i18n.Message("openai or qwen; empty means that of the address")},
			"listen_model": {Label: i18n.Message("Model that listens"), Example: DefaultListenModel},
			"speak_model":  {Label: i18n.Message("Model that speaks"), Example: DefaultSpeakModel},
			"language": {Label: i18n.Message("Language"), Hint: i18n.Message("What is spoken, unless a board has one of its own"),
				Example: "zh"},
			"voice": {Label: i18n.Message("Voice"), Hint: i18n.Message("As the service calls it; empty means its usual voice"),
				Example: DefaultVoice},
			"mode": {Label: i18n.Message("Mode"),
				Hint: i18n.Message("commit has each sentence spoken at once; server_commit lets the service decide; commit if empty")},
			"headers": {Label: i18n.Message("Headers"), Hint: i18n.Message("Of the request, in JSON"),
				Example: `{"X-Team": "home"}`},
			"result_timeout": {Label: i18n.Message("Longest wait for a text"), Hint: i18n.Message("5s if empty"), Example: "5s"},
		},
		Open: func(s any, o engine.Options) (engine.Engine, error) { return New(*s.(*Settings), o) },

		Schemes: []string{"realtime+wss", "realtime+ws", "qwen+wss", "qwen+ws"},
		FromAddress: func(address, key string) any {
			scheme, url, _ := strings.Cut(address, "+")
			spelling := realtime.OpenAI
			if scheme == "qwen" {
				spelling = realtime.Qwen
			}
			return &Settings{URL: url, Spelling: string(spelling), APIKey: key}
		},
	}
}
