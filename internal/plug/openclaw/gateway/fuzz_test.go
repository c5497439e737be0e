package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// FuzzFrames sends lines as frames, as an operator, as a node, and before the handshake. The
// gateway keeps running, serves others, and sends valid frames.
func FuzzFrames(f *testing.F) {
	for _, s := range []string{
		`{"type":"req","id":"1","method":"health"}`,
		`{"type":"req","id":"1","method":"node.list","params":{}}` + "\n" +
			`{"type":"req","id":"1","method":"node.describe","params":{"nodeId":"x"}}`,
		`{"type":"req","id":"1","method":"node.invoke","params":{"nodeId":"NODE","command":"kitchen.echo","params":[1,{"a":"\u0000"}],"idempotencyKey":"k","timeoutMs":1}}`,
		`{"type":"req","id":"1","method":"node.invoke","params":{"nodeId":"NODE","command":"mcp.tools.call.v1","params":{"server":"a","tool":"b"},"idempotencyKey":"l","timeoutMs":1}}`,
		`{"type":"req","id":"1","method":"chat.send","params":{"sessionKey":"agent:main:a","message":"hi","idempotencyKey":"m","timeoutMs":1,"attachments":[{"mimeType":"image/png","content":"iVBORw0KGgo="}]}}`,
		`{"type":"req","id":"1","method":"chat.history","params":{"sessionKey":"agent:1:a","limit":3}}` + "\n" +
			`{"type":"req","id":"2","method":"chat.abort","params":{"sessionKey":"a"}}`,
		`{"type":"req","id":"1","method":"sessions.messages.subscribe","params":{"key":"a"}}` + "\n" +
			`{"type":"req","id":"1","method":"notices.subscribe"}`,
		`{"type":"req","id":"1","method":"agents.list"}` + "\n" +
			`{"type":"req","id":"1","method":"agent.wait","params":{"runId":"m","timeoutMs":0}}`,
		`{"type":"req","id":"1","method":"node.invoke.result","params":{"id":"x","nodeId":"NODE","ok":true,"payloadJSON":"{"}}`,
		`{"type":"req","id":"1","method":"node.event","params":{"event":"node.host.stats","payloadJSON":"{}"}}` + "\n" +
			`{"type":"req","id":"1","method":"node.event","params":{"event":"chat.subscribe","payload":{"sessionKey":"a"}}}`,
		`{"type":"req","id":"1","method":"node.event","params":{"event":"voice.transcript","payloadJSON":"{\"text\":\"hi\"}"}}` + "\n" + `{"type":"req","id":"1","method":"node.event","params":{"event":"notifications.changed","payloadJSON":"{\"key\":\"k\"}"}}`,
		`{"type":"req","id":"1","method":"node.pluginTools.update","params":{"tools":[{"pluginId":"p","name":"n","description":"d","parameters":{"type":["string"]},"command":"kitchen.echo","mcp":{"server":"s","tool":"t"}}]}}`,
		`{"type":"req","id":"1","method":"node.pair.approve","params":{"requestId":"x"}}` + "\n" +
			`{"type":"req","id":"1","method":"node.rename","params":{"nodeId":"NODE","displayName":"\u0001"}}`,
		`{"type":"req","id":5}` + "\nno JSON\n" + `{"type":"res","id":"1","ok":true}`,
		`{"type":"req","id":"1","method":"connect","params":{"minProtocol":4,"maxProtocol":4,"client":{"id":"cli","version":"1","platform":"l","mode":"cli"},"auth":{"token":"x"}}}`,
	} {
		for who := range byte(3) {
			f.Add(who, []byte(s))
		}
	}
	r := newRig(f, func(o *gateway.Options) {
		o.Logger, o.Timings.RefusalDelay, o.Guard = slog.New(slog.DiscardHandler), time.Microsecond, nil
	})
	r.AddScript(f, nil, func(_ context.Context, turn *talk.Turn,
		emit talk.Emit) error {
		return emit(talk.Text(turn.Text()))
	})
	node := r.node(sim.Options{Serial: true}, true)
	steady, err := sim.Dial(context.Background(), r.url, sim.Operator(r.token, allScopes...), nil, nil)
	must(f, err)
	f.Cleanup(steady.Cut)
	f.Fuzz(func(t *testing.T, who byte, data []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		heard := func(f wire.Frame) {
			if len(f.Payload) > 0 && !json.Valid(f.Payload) {
				t.Errorf("%s: %s", f.Event, f.Payload)
			}
		}
		data = bytes.ReplaceAll(data, []byte("NODE"), []byte(node.ID()))
		var write func([]byte) error
		switch who % 3 {
		case 0:
			c, err := sim.Dial(ctx, r.url, sim.Operator(r.token, allScopes...), nil, heard)
			must(t, err)
			defer c.Cut()
			write = func(b []byte) error { return c.Write(ctx, b) }
		case 1:
			me := wire.NewIdentity()
			hello := sim.Operator(r.token)
			hello.Role, hello.Commands = wire.RoleNode, []string{"kitchen.echo"}
			hello.Client = wire.Client{ID: wire.ClientNode, Mode: wire.ModeNode, Version: "1", Platform: "linux"}
			c, err := sim.Dial(ctx, r.url, hello, &me, heard)
			must(t, err)
			defer r.Store.Peers.Remove(ctx, me.ID())
			defer c.Cut()
			write = func(b []byte) error { return c.Write(ctx, b) }
		default:
			c, _, err := websocket.Dial(ctx, r.url, nil)
			must(t, err)
			defer c.CloseNow()
			write = func(b []byte) error { return c.Write(ctx, websocket.MessageText, b) }
		}
		for i, line := range bytes.Split(data, []byte("\n")) {
			if i > 20 || write(line) != nil {
				break
			}
		}
		if err := steady.Call(ctx, wire.MethodHealth, m{}, nil); err != nil {
			t.Fatalf("the gateway does not answer any more: %v", err)
		}
	})
}
