package stream

import (
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/engine"
)

// Kind returns the kind of engines "stream".
func Kind() engine.Kind {
	return engine.Kind{
		Name:     "stream",
		Title:    i18n.Message("Recogniser over a WebSocket"),
		About:    i18n.Message("FunASR, Vosk and sherpa-onnx, on a machine of yours. They listen while you speak."),
		Listens:  true,
		Settings: func() any { return new(Settings) },
		Texts: map[string]settings.FieldText{
			"url": {Label: i18n.Message("Address"), Hint: i18n.Message("Of the server"),
				Example: "ws://localhost:2700"},
			"dialect": {Label: i18n.Message("Server"), Hint: i18n.Message("funasr, vosk or sherpa"),
				Example: "vosk"},
			"mode":    {Label: i18n.Message("Mode"), Hint: i18n.Message("Of FunASR: 2pass, online or offline; 2pass if empty")},
			"api_key": {Label: i18n.Message("Key"), Hint: i18n.Message("Only if a proxy before the server asks for one")},
			"language": {Label: i18n.Message("Language"), Hint: i18n.Message("Of the server's model"),
				Example: "zh"},
			"hotwords": {Label: i18n.Message("Words to expect"), Hint: i18n.Message("For FunASR"),
				Example: "Patchbay, Mia"},
			"headers": {Label: i18n.Message("Headers"), Hint: i18n.Message("Of the request, in JSON"),
				Example: `{"X-Team": "home"}`},
			"skip_tls_verify": {Label: i18n.Message("Accept every certificate"), Hint: i18n.Message("That of FunASR is its own")},
			"result_timeout": {Label: i18n.Message("Longest wait for a text"), Hint: i18n.Message("5s if empty"),
				Example: "5s"},
		},
		Open: func(s any, o engine.Options) (engine.Engine, error) { return New(*s.(*Settings), o) },

		Schemes: []string{"funasr+wss", "funasr+ws", "vosk+ws", "vosk+wss", "sherpa+ws", "sherpa+wss"},
		FromAddress: func(address, key string) any {
			dialect, url, _ := strings.Cut(address, "+")
			return &Settings{URL: url, Dialect: dialect, APIKey: key}
		},
	}
}
