package app

import (
	"context"

	"patchbay/internal/control"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/store"
)

// voiceOptions describe how boards hear and speak.
func (b *Base) voiceOptions() control.VoiceOptions {
	return control.VoiceOptions{
		Settings: func() any { return new(xiaozhi.VoiceSettings) },
		Texts:    xiaozhi.VoiceTexts(),
		Effective: func(ctx context.Context, d store.Device) any {
			var voice xiaozhi.BotVoice
			if bot, err := b.Store.Bots.ByNumber(ctx, d.Bot); err == nil {
				_ = b.Registry.Settings(bot, &voice) // unreadable settings count as none
			}
			s := xiaozhi.EffectiveVoice(d, voice)
			return &s
		},
		Engines: b.speechEngineNames,
	}
}

// speechEngineNames returns the names of the speech engines, in their order: those that
// administrators added, and those of the configuration.
func (b *Base) speechEngineNames(ctx context.Context) (names []string, err error) {
	list, err := b.Store.SpeechEngines.All(ctx)
	for _, e := range list {
		names = append(names, e.Name)
	}
	if b.Config.Speech.URL != "" {
		names = append(names, "speech.url")
	}
	if b.Config.Speech.SpeakURL != "" {
		names = append(names, "speech.speak_url")
	}
	return names, err
}
