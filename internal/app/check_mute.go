package app

import (
	"context"
	"slices"

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

// checkTalk warns of boards whose bot cannot talk, because speech engines are missing.
func (e *examination) checkTalk(ctx context.Context, links []engine.Link) {
	hears := slices.ContainsFunc(links, func(l engine.Link) bool { return l.Listener != nil })
	speaks := slices.ContainsFunc(links, func(l engine.Link) bool { return l.Speaker != nil })
	if hears && speaks || e.settings.XiaoZhi.Voice != "answer" {
		return
	}
	for after := int64(0); ; {
		page, err := e.base.Store.Devices.Page(ctx, after, devicesAtOnce)
		if err != nil || len(page) == 0 {
			return // the check of boards tells of the error
		}
		for _, d := range page {
			if after = d.Number; e.needsEngines(ctx, d) {
				e.Warn(msgCheckTalk.With(), msgBoardsMute.With(d.Name), adviceMute.With(e.Flags))
				return
			}
		}
	}
}

// devicesAtOnce is how many devices are read at once.
const devicesAtOnce = 1000

// needsEngines reports whether a device has a bot that talks by speech engines. Bots that hear and
// speak by themselves do not.
func (e *examination) needsEngines(ctx context.Context, d store.Device) bool {
	if d.Owner == "" || d.Bot == 0 {
		return false
	}
	b, err := e.base.Store.Bots.ByNumber(ctx, d.Bot)
	return err == nil && b.Kind != realtime.KindName
}
