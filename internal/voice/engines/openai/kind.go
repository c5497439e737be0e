package openai

import (
	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/engine"
)

// Kind returns the kind of engines "openai".
func Kind() engine.Kind {
	return engine.Kind{
		Name:    "openai",
		Title:   i18n.Message("OpenAI's interface"),
		About:   i18n.Message("OpenAI, Groq, SiliconFlow, speaches, Kokoro-FastAPI and others; whisper.cpp only listens."),
		Listens: true, Speaks: true,
		Settings: func() any { return new(Settings) },
		Texts: map[string]settings.FieldText{
			"base_url": {Label: i18n.Message("Address"), Hint: i18n.Message("Where the API begins"),
				Example: "https://api.openai.com/v1"},
			"api_key": {Label: i18n.Message("Key"), Hint: i18n.Message("Engines on this machine need none"),
				Example: "sk-..."},
			"listen_model": {Label: i18n.Message("Model that listens"), Hint: i18n.Message("gpt-4o-mini-transcribe if empty"),
				Example: "whisper-1"},
			"speak_model": {Label: i18n.Message("Model that speaks"), Hint: i18n.Message("gpt-4o-mini-tts if empty"),
				Example: "kokoro"},
			"voice": {Label: i18n.Message("Voice"), Hint: i18n.Message("alloy if empty"), Example: "alloy"},
			"speed": {Label: i18n.Message("Speed"), Hint: i18n.Message("0.25 to 4; that of the engine if empty"),
				Example: "1.1"},
			"instructions": {Label: i18n.Message("Manner of speaking"), Hint: i18n.Message("Few models follow it"),
				Example: "Speak calmly, like a good teacher."},
			"format": {Label: i18n.Message("Format of sound"), Hint: i18n.Message("opus, wav or pcm; opus if empty"),
				Example: "wav"},
			"prompt": {Label: i18n.Message("Words to expect"), Hint: i18n.Message("Names that are hard to understand"),
				Example: "Patchbay, Mia"},
		},
		Open: func(s any, o engine.Options) (engine.Engine, error) { return New(*s.(*Settings), o) },

		Schemes:     []string{"https", "http"},
		FromAddress: func(address, key string) any { return &Settings{BaseURL: address, APIKey: key} },
	}
}
