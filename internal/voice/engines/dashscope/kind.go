package dashscope

import (
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/engine"
)

// Kind returns the kind of engines "dashscope".
func Kind() engine.Kind {
	return engine.Kind{
		Name:    "dashscope",
		Title:   i18n.Message("Alibaba Cloud Model Studio"),
		About:   i18n.Message("Paraformer, Fun-ASR and Gummy listen while you speak; CosyVoice speaks while the bot writes."),
		Listens: true, Speaks: true,
		Settings: func() any { return new(Settings) },
		Texts: map[string]settings.FieldText{
			"url": {Label: i18n.Message("Address"), Hint: i18n.Message("Of the region or workspace; Beijing if empty"),
				Example: "wss://dashscope-intl.aliyuncs.com"},
			"api_key": {Label: i18n.Message("Key"), Hint: i18n.Message("Of the same region"), Example: "sk-..."},
			"listen_model": {Label: i18n.Message("Model that listens"), Hint: i18n.Message("paraformer-realtime-v2 if empty"),
				Example: "fun-asr-realtime"},
			"speak_model": {Label: i18n.Message("Model that speaks"), Hint: i18n.Message("cosyvoice-v3-flash if empty"),
				Example: "cosyvoice-v2"},
			"voice": {Label: i18n.Message("Voice"), Hint: i18n.Message("A voice of that model; longanyang if empty"),
				Example: "longxiaochun_v2"},
			"speed":  {Label: i18n.Message("Speed"), Hint: i18n.Message("0.5 to 2; 1 if empty"), Example: "1.1"},
			"format": {Label: i18n.Message("Format of sound"), Hint: i18n.Message("pcm or opus; pcm if empty"), Example: "opus"},
			"vocabulary_id": {Label: i18n.Message("List of words to expect"),
				Hint: i18n.Message("The id of a list that you made at the service"), Example: "vocab-..."},
			"languages": {Label: i18n.Message("Languages"), Hint: i18n.Message("Those that may be spoken; all if empty"),
				Example: "zh, en"},
		},
		Open: func(s any, o engine.Options) (engine.Engine, error) { return New(*s.(*Settings), o) },

		Schemes: []string{"dashscope+wss", "dashscope+ws"},
		FromAddress: func(address, key string) any {
			return &Settings{URL: strings.TrimPrefix(address, "dashscope+"), APIKey: key}
		},
	}
}
