package bot

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

func TestLook(t *testing.T) {
	var mu sync.Mutex
	var kept []string
	o := Options{SaveIdentity: func(_ context.Context, _ int64, _, secret string) error {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, secret)
		return nil
	}}
	keeps := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(kept)
	}
	var old atomic.Bool // the gateway does not support the method
	list := `{"defaultId":"main","agents":[{"id":"main","name":"Main"},{"id":"cook"},{"id":"; rm -rf /"},{}]}`
	h := newFakeGateway(t, clienttest.Options{Hello: func(h *wire.Hello) { h.Auth.DeviceToken = "own" }}, o,
		func(s *Settings) { s.Agent = "Cook" })
	h.gate.Serve(func(p *clienttest.Peer, r wire.Request) {
		if r.Method != wire.MethodAgentsList || old.Load() {
			p.Fail(r, wire.UnknownMethod(r.Method))
			return
		}
		p.Answer(r, json.RawMessage(list))
	})
	s, err := h.bot.Probe(t.Context())
	if err != nil || s.Version != "2026.9.6" || !s.HasAgent || strings.Join(s.Agents, " ") != "main cook" ||
		s.Device == "" {
		t.Errorf("%+v, %v", s, err)
	}
	first := keeps()
	if len(first) != 2 || !strings.Contains(first[1], `"token":"own"`) { // the key, and the token that the gateway issued for it
		t.Errorf("kept is %q", first)
	}
	if _, ok := h.bots.Status(1); !ok {
		t.Error("there is no status")
	}

	// The stored key identifies the device the next time.
	again, err := h.bots.Build(store.Bot{Number: 2}, Settings{URL: h.gate.URL, Token: clienttest.Token,
		Agent: "nobody", DeviceIdentity: first[1]})
	if err != nil {
		t.Fatal(err)
	}
	if next, err := again.Probe(t.Context()); err != nil || next.Device != s.Device || next.HasAgent ||
		len(keeps()) != 2 {
		t.Errorf("%+v, %v, kept %q", next, err, keeps())
	}
	old.Store(true)
	if _, err := again.Probe(t.Context()); !errors.As(err, new(*wire.Error)) {
		t.Errorf("%v", err)
	}
}

// A probe does not wait for an unreachable gateway, and returns the device id.
func TestLookInVain(t *testing.T) {
	for problem, o := range map[client.Problem]clienttest.Options{
		client.Token: {Admit: func(*wire.Connect) *wire.Error { return wire.TokenMismatch(true) }},
		client.Pairing: {Admit: func(*wire.Connect) *wire.Error {
			return wire.PairingRequired(wire.PairNew, "r", "d", wire.RoleOperator, true)
		}},
		client.Scopes:    {Hello: func(h *wire.Hello) { h.Auth.Scopes = []string{wire.ScopeRead} }},
		client.NoGateway: {Status: 404},
		client.Starting:  {Status: 503},
	} {
		h := newFakeGateway(t, o, Options{}, nil)
		s, err := h.bot.Probe(t.Context())
		if e, ok := errors.AsType[*client.ConnectionError](err); !ok || e.Problem != problem || s.Device == "" {
			t.Errorf("%s: %+v, %v", problem, s, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newFakeGateway(t, clienttest.Options{}, Options{}, nil).bot.Probe(ctx); !errors.Is(err,
		context.Canceled) {
		t.Errorf("%v", err)
	}
}

// figures returns the metrics of the bots, as name{outcome}.
func (h *fakeGateway) figures() map[string]float64 {
	h.t.Helper()
	reg := prometheus.NewRegistry()
	h.bots.Register(reg)
	families, err := reg.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "patchbay_openclaw_agent_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

func TestMetrics(t *testing.T) {
	h := newFakeGateway(t, clienttest.Options{}, Options{}, nil)
	c := h.ask(said("lingzhu:1:2", "hello"))
	if f := h.figures(); f["connections"] != 1 || f["connects_total connected"] != 1 || len(f) != 2 {
		t.Errorf("connected: %v", f)
	}
	c.peer.Cut()
	peer := h.gate.Peer()
	peer.Answer(peer.Next(wire.MethodSubscribe), json.RawMessage(`{}`))
	if f := h.figures(); f["connections"] != 1 || f["connects_total connected"] != 2 ||
		f["connects_total broken"] != 1 {
		t.Errorf("connected anew: %v", f)
	}
	c.cancel()
	if err := c.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	for {
		r := peer.NextAny()
		if r.Method == wire.MethodChatAbort {
			peer.Answer(r, wire.AbortResult{OK: true})
			break
		}
		peer.Fail(r, wire.UnknownMethod(r.Method))
	}
	h.bots.Close() // waits for pending notifications
	if f := h.figures(); f["aborts_total told"] != 1 || f["connections"] != 0 {
		t.Errorf("closed: %v", f)
	}
}

// A closed connection has no effect on the status, and the next one is counted.
func TestStatusAfterIdle(t *testing.T) {
	h := newFakeGateway(t, clienttest.Options{}, Options{}, nil)
	c := h.ask(said("p", "hello"))
	c.final("Hi.")
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	l := h.bot.gateway
	l.mu.Lock()
	l.closeLink()
	if s := l.lastState; s.Connected || !s.Since.IsZero() {
		t.Errorf("%+v", s)
	}
	l.mu.Unlock()
	c = h.ask(said("p", "hello again"))
	c.final("Hi.")
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	if s, _ := h.bots.Status(1); !s.Connected || h.figures()["connections"] != 1 {
		t.Errorf("%+v, %v", s, h.figures())
	}
}
