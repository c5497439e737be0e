package realtime

import (
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/engine"
)

// KindName is the name of the kind.
const KindName = "realtime"

// Kind returns the kind without its functions.
func Kind() hub.Kind {
	return hub.Kind{
		Name:  KindName,
		Model: func(settings any) string { return settings.(*Settings).Model },
		Text: hub.KindText{
			Name:  i18n.Message("Realtime voice model"),
			About: i18n.Message("A model that hears and speaks itself, such as gpt-realtime or Qwen-Omni. Voice boards talk with it directly, without other speech engines."),
			Needs: i18n.Message("Needs the address of a realtime service, a key, and the name of a model."),
			Settings: map[string]settings.FieldText{
				"url": {Label: i18n.Message("Address"), Hint: i18n.Message("Of the realtime service"),
					Example: "wss://api.openai.com/v1/realtime"},
				"api_key": {Label: i18n.Message("Key"), Hint: i18n.Message("Sent to that address only")},
				"model":   {Label: i18n.Message("Model"), Example: "gpt-realtime"},
				"voice": {Label: i18n.Message("Voice"), Hint: i18n.Message("As the service calls it; empty means its usual voice"),
					Example: "marin"},
				"speed": {Label: i18n.Message("Speed"), Hint: i18n.Message("0.25 to 1.5, if the service can; empty is normal")},
				"instructions": {Label: i18n.Message("Instructions"),
					Hint: i18n.Message("Who the bot is and how it speaks, in addition to our own")},
				"turn_detection": {Label: i18n.Message("End of speech"),
					Hint: i18n.Message("Empty: Patchbay finds it. server: the service does, by pauses. semantic: by what was said")},
				"transcription_model": {Label: i18n.Message("Transcription model"),
					Hint: i18n.Message("Writes down what people say, for the display and the history")},
				"spelling": {Label: i18n.Message("Dialect"),
					Hint: i18n.Message("openai or qwen; empty means that of the address")},
				"tools": {Label: i18n.Message("Tools"), Hint: i18n.Message("Whether the model may call the tools that you allow")},
				"headers": {Label: i18n.Message("Headers"),
					Hint: i18n.Message("Sent with the request that opens the connection")},
				"price_per_minute":             engine.PriceTexts["price_per_minute"],
				"price_per_million_characters": engine.PriceTexts["price_per_million_characters"],
			},
		},
		Settings: func() any { return new(Settings) },
		// A session costs money while it answers.
		Limits: hub.Limits{Concurrent: 16, Waiting: 64},
	}
}
