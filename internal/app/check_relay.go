package app

import (
	"context"
	"fmt"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/check"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgCheckRelay  = i18n.Message("relay")
	msgRelayLinked = i18n.Message("%s is connected; it leads %s here and is %s away")
	msgRelayDown   = i18n.Message("%s is not connected: %s")
	msgRelayAway   = i18n.Message("whether the relay is connected is known while the server runs")
	adviceRelay    = i18n.Message("Whoever runs the relay sees in its log why; patchbay relay status shows the connection.")
)

// checkRelays checks the connections of the running server to its relays.
func (e *examination) checkRelays(ctx context.Context) {
	if len(e.settings.Relay.Servers) == 0 {
		return
	}
	if e.server == nil {
		e.Warn(msgCheckRelay.With(), msgRelayAway.With(), check.AdviceServe.With(e.Flags))
		return
	}
	s, err := api.Status.Call(ctx, e.server, control.Empty{})
	if err != nil {
		e.Error(msgCheckRelay.With(), err, adviceRelay.With())
		return
	}
	for _, l := range s.Links {
		if !l.Connected {
			e.Fail(msgCheckRelay.With(), msgRelayDown.With(l.Relay, l.Problem), adviceRelay.With())
			continue
		}
		e.OK(msgCheckRelay.With(), msgRelayLinked.With(l.Relay, strings.Join(l.Names, ", "),
			fmt.Sprintf("%.1f ms", l.RoundTrip)))
	}
}
