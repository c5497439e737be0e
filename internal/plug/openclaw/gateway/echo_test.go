package gateway_test

import (
	"context"
	"slices"
	"testing"

	"github.com/coder/websocket"

	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// A run begins when its asker has read the response, which the pong tells; for an asker without
// pongs, it begins later.
func TestRunAwaitsAsker(t *testing.T) {
	r := newRig(t, nil)
	r.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		return emit(talk.Text("quick"))
	})
	for name, answers := range map[string]bool{"pong": true, "no pong": false} {
		t.Run(name, func(t *testing.T) {
			var order []string
			c, _, err := websocket.Dial(limited(t), r.url, &websocket.DialOptions{
				OnPingReceived: func(context.Context, []byte) bool {
					order = append(order, "ping")
					return answers
				}})
			must(t, err)
			defer c.CloseNow()
			must(t, c.Write(limited(t), websocket.MessageText, wire.AppendRequest(nil, "1", wire.MethodConnect,
				encode(t, sim.Operator(r.token, allScopes...)))))
			must(t, c.Write(limited(t), websocket.MessageText, wire.AppendRequest(nil, "2", wire.MethodChatSend,
				encode(t, m{"sessionKey": "main", "message": "hi", "idempotencyKey": name}))))
			for !slices.Contains(order, wire.ChatFinal) {
				_, data, err := c.Read(limited(t))
				must(t, err)
				f, err := wire.Parse(data)
				must(t, err)
				if f.ID == "2" {
					order = append(order, "response")
				}
				if f.Event == wire.EventChat {
					order = append(order, decoded[wire.ChatEvent](t, f.Payload).State)
				}
			}
			want := []string{"response", "ping", wire.ChatStatus, wire.ChatDelta, wire.ChatFinal}
			if !slices.Equal(order, want) {
				t.Errorf("%q, want %q", order, want)
			}
		})
	}
}
