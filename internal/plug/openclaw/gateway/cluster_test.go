package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/account"
	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

// two makes gateways on two instances.
func two(t *testing.T) (here, there *rig) {
	t.Helper()
	db := storetest.Postgres(t)
	urls := strings.Split(bustest.Cluster(t, 3), ",")
	at := func(name, url string) *rig {
		b := hubtest.New(t, hubtest.Options{DB: db, BusURL: url, Name: name, Hub: hub.Options{Installation: "test"}})
		return rigOn(t, b, func(o *gateway.Options) {
			bus := b.Hub.Bus
			o.Timings.PeerRefresh = time.Hour // changes arrive by broadcast only
			o.Broadcast = func(data []byte) error { return bus.Publish("test.openclaw."+bus.Instance, data) }
			o.Subscribe = func(handle func([]byte)) error {
				_, err := bus.Subscribe("test.openclaw.*", func(m *nats.Msg) {
					if !bus.HasSubject(m, "test.openclaw."+bus.Instance) {
						handle(m.Data)
					}
				})
				return err
			}
		})
	}
	return at("here", urls[0]), at("there", urls[1])
}

// A node on one instance, an operator on another.
func TestInstances(t *testing.T) {
	here, there := two(t)
	op := here.operator(here.token)
	me := wire.NewIdentity()
	resolved := make(chan wire.Frame, 10)
	n := there.node(sim.Options{Identity: me, OnEvent: func(f wire.Frame) {
		if f.Event == wire.EventNodeResolved {
			resolved <- f
		}
	}}, false)
	asked := decoded[wire.NodeRequest](t, op.await(wire.EventNodeRequested, nil))
	call[wire.ApprovedNode](op, wire.MethodNodeApprove, m{"requestId": asked.RequestID})
	select {
	case <-resolved:
	case <-time.After(testTimeout):
		t.Fatal("the node did not hear that it was approved")
	}
	must(t, awaitRow(op, n.ID(), func(n wire.NodeDetail) bool { return n.Connected }))
	call1 := func(params any) (invoked, error) {
		var out invoked
		err := op.Call(op.ctx, wire.MethodNodeInvoke, invokeParams(n.ID(), "kitchen.echo", params), &out)
		return out, err
	}
	var got invoked
	var err error
	// the tool list arrives a moment later
	must(t, eventually(t, func() bool { got, err = call1(m{"a": "<b>"}); return err == nil }))
	if string(got.Payload) != `{"a":"\u003cb\u003e"}` || got.PayloadJSON != nil {
		t.Errorf("%+v %s", got, got.Payload)
	}
	for _, params := range []any{"words", 7.0, nil, m{}} {
		if got, err := call1(params); err != nil || params != nil && string(got.Payload) != string(encode(t, params)) {
			t.Errorf("%v: %s %v", params, got.Payload, err)
		}
	}
	e := op.refused(wire.MethodNodeInvoke, invokeParams(n.ID(), "kitchen.fail", nil))
	if said, sent, _ := wire.NodeErrorOf(e); e.Message != "BURNT: it is black" || said.Code != "BURNT" || !sent {
		t.Errorf("%v %s", e, e.Details)
	}
	call[m](op, "notices.subscribe", m{})
	_, err = n.SendEvent(t.Context(), wire.NodeNotifications, m{"change": "posted", "key": "k"})
	must(t, err)
	if p := decoded[m](t, op.await("mcp.notification", nil)); p["nodeId"] != n.ID() {
		t.Errorf("%v", p)
	}

	second := here.node(sim.Options{Identity: me}, false) // connects to the other instance
	must(t, eventually(t, func() bool {
		_, err := n.SendEvent(t.Context(), "x", m{})
		return err != nil && err.Error() == wire.PairingReplaced.Error()
	}))
	if _, err := call1(m{}); err != nil {
		t.Error(err)
	}
	second.Close()
	boss := there.operator(there.token, wire.ScopePairing)
	n.Close()
	third := here.node(sim.Options{Identity: me}, false)
	call[m](boss, wire.MethodNodeRemove, m{"nodeId": me.ID()})
	must(t, third.Await(limited(t), func(s sim.State) bool { return s.ConnectCount > 1 }))

	// Clients of all instances receive a bot's answer.
	there.AddScript(t, nil, func(_ context.Context, _ *talk.Turn,
		emit talk.Emit) error {
		return emit(talk.Text("hello"))
	})
	listener := there.operator(there.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}}))
	talker := there.operator(there.token)
	call[wire.Run](talker, wire.MethodChatSend, m{"sessionKey": "s", "message": "hi", "idempotencyKey": "r"})
	listener.said("r", wire.ChatFinal)
	op.await(wire.EventChat, func(p json.RawMessage) bool {
		e,
			_ := wire.ParseChat(p)
		return e.State == wire.ChatFinal
	})
}
