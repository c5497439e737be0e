package app

import (
	"context"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/check"
	"patchbay/internal/hub"
	"patchbay/internal/plug/realtime"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	events "patchbay/internal/voice/realtime"
)

// realtimeBots is what bots of realtime models share.
type realtimeBots struct {
	log    *slog.Logger
	tokens *prometheus.CounterVec
}

func newRealtimeBots(log *slog.Logger) *realtimeBots {
	return &realtimeBots{log, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_realtime_tokens_total",
		Help: "Tokens that realtime models have counted, by what they are."}, []string{"tokens"})}
}

// kind returns the kind of bots that a realtime model answers.
func (r *realtimeBots) kind(base *Base) hub.Kind {
	k := realtime.Kind()
	k.Build = func(b store.Bot, settings any) (talk.Bot, error) {
		o := r.options(base, b)
		o.Toolbox = botToolbox{base.tools, b}
		return realtime.New(*settings.(*realtime.Settings), o)
	}
	k.Check = func(ctx context.Context, report *check.Report, b store.Bot, settings any, _ hub.BotState) {
		realtime.CheckBot(ctx, report, hub.CheckName(b), b.Number, *settings.(*realtime.Settings),
			realtime.Options{Dial: r.options(base, b).Dial})
	}
	return k
}

// options returns the dependencies of a bot, which may reach the addresses that its owner may.
func (r *realtimeBots) options(base *Base, b store.Bot) realtime.Options {
	anywhere := new(net.Dialer).DialContext
	return realtime.Options{Logger: r.log.With("bot", b.Number), OnUsage: r.count,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if base.trusts(ctx, b.Owner) {
				return anywhere(ctx, network, address)
			}
			return base.dialGuarded(ctx, network, address)
		}}
}

// count adds the usage of a response.
func (r *realtimeBots) count(u events.Usage) {
	for what, n := range map[string]int64{"input_text": u.InputText, "input_audio": u.InputAudio,
		"input_cached": u.InputCached, "output_text": u.OutputText, "output_audio": u.OutputAudio} {
		r.tokens.WithLabelValues(what).Add(float64(n))
	}
}
