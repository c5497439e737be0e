package client

import (
	"strings"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

// Whatever a gateway answers to connect, there is a message for it, the command for its owner
// contains nothing that a shell would execute, and the delay is limited.
func FuzzAnswer(f *testing.F) {
	for _, e := range []*wire.Error{
		wire.PairingRequired(wire.PairNew, "c6159fb2-77", "device", wire.RoleOperator, true),
		wire.PairingRequired(wire.PairScopes, "$(reboot)", "device", wire.RoleNode, false),
		wire.TokenMissing, wire.IdentityRequired, wire.Starting, wire.RateLimited(time.Minute),
		wire.ProtocolMismatch(3, 3),
	} {
		f.Add(wire.AppendFailure(nil, connectID, e))
	}
	f.Add(wire.AppendResult(nil, connectID, wire.Hello{}.JSON()))
	f.Add([]byte(`{"type":"res","id":"connect","ok":true,"payload":{"policy":{"attachments":{"maxBytes":-1},"tickIntervalMs":1},"auth":{"scopes":["x"]}}}`))
	o := Options{URL: "ws://127.0.0.1", Connect: wire.Connect{Scopes: []string{wire.ScopeRead}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := wire.Parse(data)
		if err != nil {
			err = asConnectionError(err)
		} else if frame.Error != nil {
			err = asConnectionError(frame.Error)
		} else {
			var h Hello
			if h, err = parseHello(frame.Payload); err == nil {
				if h.MaxAttachment < 0 || h.MaxImage < 0 || h.Policy.TickIntervalMS <= 0 {
					t.Errorf("%+v", h)
				}
				err = o.checkScopes(&h)
			}
		}
		if err == nil {
			return
		}
		tr := asConnectionError(err)
		if tr.Message.In(i18n.English) == "" || tr.Message.In(i18n.Chinese) == "" ||
			len([]rune(tr.Cause)) > maxCause+1 ||
			strings.ContainsAny(tr.Error(), "\r\n") {
			t.Errorf("%+v", tr)
		}
		if rest, ok := strings.CutPrefix(tr.Command, "openclaw devices approve "); ok && !isShellSafe(rest) {
			t.Errorf("%q", tr.Command)
		}
		if d := retryDelay(tr, wire.MinBackoff); d <= 0 || d > time.Hour {
			t.Errorf("it waits for %v", d)
		}
	})
}
