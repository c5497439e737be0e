package app

import (
	"context"
	"slices"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/realtime"
	"patchbay/internal/store"
	"patchbay/internal/voice/engine"
)

const (
	msgCheckTalk  = i18n.Message("talking with boards")
	msgBoardsMute = i18n.Message("the bot of %s cannot talk: no speech engine hears, or none speaks")

	adviceMute = i18n.Message("Set up voice: patchbay voice setup%s, or open Settings, Voice")
)

// mute returns why bots of a kind cannot talk through boards: see [control.VoiceActions]. Realtime
// models hear and speak by themselves.
func (s *speech) mute(kind string) string {
	links := *s.links.Load()
	switch {
	case s.base.Config.XiaoZhi.Voice != "answer":
		return control.MuteSetting
	case kind == realtime.KindName,
		slices.ContainsFunc(links, func(l engine.Link) bool { return l.Listener != nil }) &&
			slices.ContainsFunc(links, func(l engine.Link) bool { return l.Speaker != nil }):
		return ""
	}
	return control.MuteEngines
}

// checkTalk warns of boards whose bot cannot talk, because speech engines are missing.
func (e *examination) checkTalk(ctx context.Context, s *speech) {
	for after := int64(0); ; {
		page, err := e.base.Store.Devices.Page(ctx, after, devicesAtOnce)
		if err != nil || len(page) == 0 {
			return // the check of boards tells of the error
		}
		for _, d := range page {
			if after = d.Number; e.needsEngines(ctx, s, d) {
				e.Warn(msgCheckTalk.With(), msgBoardsMute.With(d.Name), adviceMute.With(e.Flags))
				return
			}
		}
	}
}

// devicesAtOnce is how many devices are read at once.
const devicesAtOnce = 1000

// needsEngines reports whether a device has a bot that cannot talk without speech engines.
func (e *examination) needsEngines(ctx context.Context, s *speech, d store.Device) bool {
	if d.Owner == "" || d.Bot == 0 {
		return false
	}
	b, err := e.base.Store.Bots.ByNumber(ctx, d.Bot)
	return err == nil && s.mute(b.Kind) == control.MuteEngines
}
