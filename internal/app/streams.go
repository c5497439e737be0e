package app

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/bus"
	"patchbay/internal/config"
	"patchbay/internal/hub"
)

// accessSubject is the subject on which instances announce changes of rights.
const accessSubject = "access"

// newStreams returns the table of streams. A change of rights ends streams on this instance at
// once, and on the other instances when they get the announcement.
func newStreams(ctx context.Context, b *Base, c *config.Config, messages *bus.Bus, log *slog.Logger,
	reg prometheus.Registerer) (*account.Streams, error) {
	s := account.NewStreams(b.Accounts, account.StreamLimits{Key: c.Limits.StreamsOfKey, Person: c.Limits.Streams,
		Widens: hub.Widens})
	if err := s.Begin(ctx); err != nil {
		return nil, err
	}
	b.Store.OnAccess(func() {
		s.Changed()
		if err := messages.Publish(accessSubject, []byte(messages.Instance)); err != nil {
			log.Warn("other instances were not told that rights have changed; they look by themselves", "error", err)
		}
	})
	reg.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "patchbay_streams", Help: "Requests that last, with a key or from a browser."},
		func() float64 { return float64(s.Open()) },
	))
	_, err := messages.Subscribe(accessSubject, func(m *nats.Msg) { // ends with the bus
		if string(m.Data) != messages.Instance {
			s.Changed()
		}
	})
	return s, err
}
