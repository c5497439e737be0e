package wyoming

import (
	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/engine"
)

// Kind returns the kind of engines "wyoming".
func Kind() engine.Kind {
	return engine.Kind{
		Name:    "wyoming",
		Title:   i18n.Message("Wyoming (Home Assistant)"),
		About:   i18n.Message("faster-whisper, Piper and other servers of Home Assistant's voice assistants. The protocol has no encryption and no keys: only for your own network."),
		Listens: true, Speaks: true,
		Settings: func() any { return new(Settings) },
		Texts: map[string]settings.FieldText{
			"address": {Label: i18n.Message("Address"), Hint: i18n.Message("Of the server, with its port"),
				Example: "wyoming://localhost:10300"},
			"listen_model": {Label: i18n.Message("Model that listens"), Hint: i18n.Message("That of the server if empty")},
			"voice": {Label: i18n.Message("Voice"), Hint: i18n.Message("One of the language if empty"),
				Example: "en_US-lessac-medium"},
			"speaker": {Label: i18n.Message("Speaker"), Hint: i18n.Message("Few voices have several")},
		},
		Open: func(s any, o engine.Options) (engine.Engine, error) { return New(*s.(*Settings), o) },

		Schemes:     []string{scheme},
		FromAddress: func(address, _ string) any { return &Settings{Address: address} },
	}
}
