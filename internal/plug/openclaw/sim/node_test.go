//go:build openclaw

package sim_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

// A real gateway takes our node and our operator for its own.
func TestRealGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("starts OpenClaw")
	}
	ctx, cancel := context.WithTimeout(t.Context(), openclawtest.Patience)
	defer cancel()
	g := openclawtest.Gateway(t, openclawtest.Options{Allow: []string{"kitchen.echo"}})
	approved := make(chan struct{}, 1)
	n := sim.NewNode(sim.Options{
		URL: g.URL, Token: g.Token, Name: "Kitchen", Caps: []string{wire.CapMCP}, Commands: []string{"kitchen.echo"}, RetryFirst: 50 * time.Millisecond,
		Handle: func(_ context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
			if command != "kitchen.echo" {
				return nil, sim.NotSupported
			}
			return params, nil
		},
		OnEvent: func(f wire.Frame) {
			if f.Event == wire.EventNodeResolved {
				approved <- struct{}{}
			}
		},
	})
	defer n.Close()
	if err := n.Connected(ctx); err != nil {
		t.Fatal(err)
	}
	op, err := sim.Dial(ctx, g.URL, sim.Operator(g.Token, wire.ScopeRead, wire.ScopeWrite, wire.ScopePairing), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	var pairs wire.NodePairs
	if err := op.Call(ctx, wire.MethodNodePairList, map[string]any{}, &pairs); err != nil || len(pairs.Pending) != 1 || pairs.Pending[0].NodeID != n.ID() {
		t.Fatalf("%+v, %v", pairs, err)
	}
	if err := op.Call(ctx, wire.MethodNodeApprove, map[string]string{"requestId": pairs.Pending[0].RequestID}, nil); err != nil {
		t.Fatal(err)
	}
	<-approved
	invoke := func() (string, error) {
		var out struct {
			Payload json.RawMessage `json:"payload"`
		}
		err := op.Call(ctx, wire.MethodNodeInvoke, wire.Invoke{NodeID: n.ID(), Command: "kitchen.echo", Params: json.RawMessage(`{"a":1}`), IdempotencyKey: "k"}, &out)
		return string(out.Payload), err
	}
	if got, err := invoke(); err != nil || got != `{"a":1}` {
		t.Errorf("%s, %v", got, err)
	}
	if s, _ := n.State(); s.Token == "" {
		t.Error("the node got no token of its own")
	}
	n.Cut()
	if err := n.Await(ctx, func(s sim.State) bool { return s.Connected && s.Times == 2 }); err != nil {
		t.Fatal(err)
	}
	for {
		if got, err := invoke(); err == nil && got == `{"a":1}` {
			break
		} else if err != nil && !strings.Contains(err.Error(), "UNAVAILABLE") || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// A node that is turned away for good does not try again, and says why.
func TestTurnedAway(t *testing.T) {
	if testing.Short() {
		t.Skip("starts OpenClaw")
	}
	ctx, cancel := context.WithTimeout(t.Context(), openclawtest.Patience)
	defer cancel()
	g := openclawtest.Gateway(t, openclawtest.Options{Manual: true})
	wrong := sim.NewNode(sim.Options{URL: g.URL, Token: "wrong"})
	defer wrong.Close()
	waits := sim.NewNode(sim.Options{URL: g.URL, Token: g.Token})
	defer waits.Close()
	for node, detail := range map[*sim.Node]string{wrong: wire.DetailTokenMismatch, waits: wire.DetailPairing} {
		if err := node.Await(ctx, func(s sim.State) bool { return s.Paused }); err != nil {
			t.Fatal(err)
		}
		if s, _ := node.State(); s.Refused.Detail() != detail {
			t.Errorf("%v instead of %s", s.Refused, detail)
		}
	}
}
