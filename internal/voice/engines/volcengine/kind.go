package volcengine

import (
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/engine"
)

// Kind returns the kind of engines "volcengine".
func Kind() engine.Kind {
	return engine.Kind{
		Name:    "volcengine",
		Title:   i18n.Message("Volcengine (Doubao)"),
		About:   i18n.Message("Doubao's models listen while you speak, and speak while the bot writes."),
		Listens: true, Speaks: true,
		Settings: func() any { return new(Settings) },
		Texts: map[string]settings.FieldText{
			"url": {Label: i18n.Message("Address"), Hint: i18n.Message("Of the service; the usual one if empty"),
				Example: DefaultURL},
			"app_key":    {Label: i18n.Message("App key"), Hint: i18n.Message("App ID, or the key of the new console")},
			"access_key": {Label: i18n.Message("Access token"), Hint: i18n.Message("Not with a key of the new console")},
			"listen_model": {Label: i18n.Message("Resource that listens"),
				Hint: i18n.Message("volc.bigasr.sauc.duration if empty"), Example: "volc.seedasr.sauc.duration"},
			"speak_model": {Label: i18n.Message("Resource that speaks"), Hint: i18n.Message("seed-tts-2.0 if empty"),
				Example: "seed-tts-1.0"},
			"voice": {Label: i18n.Message("Voice"),
				Hint:    i18n.Message("A voice of that resource; zh_female_xiaohe_uranus_bigtts if empty"),
				Example: "zh_female_shuangkuaisisi_moon_bigtts"},
			"speed":  {Label: i18n.Message("Speed"), Hint: i18n.Message("0.5 to 2; 1 if empty"), Example: "1.1"},
			"format": {Label: i18n.Message("Format of sound"), Hint: i18n.Message("pcm or opus; pcm if empty"), Example: "opus"},
		},
		Open: func(s any, o engine.Options) (engine.Engine, error) { return New(*s.(*Settings), o) },

		Schemes: []string{"volcengine+wss", "volcengine+ws"},
		// The key is the app id and the access token with a colon between them, or that of the new
		// console.
		FromAddress: func(address, key string) any {
			app, access, _ := strings.Cut(key, ":")
			return &Settings{URL: strings.TrimPrefix(address, "volcengine+"), AppKey: app, AccessKey: access}
		},
	}
}
