package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/mcpnode"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// Each device is a node with its own key and tools.
func TestEach(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	h := newFakeSource(speaker(1), lamp(), Device{ID: "board:9", Slug: "attic"})
	m := newManager(t, h, nil)
	s := spec(g)
	s.Devices = []string{"speaker-*", "lamp"}
	m.Set([]Spec{s})
	peers := map[string]*clienttest.Peer{}
	for range 2 {
		p := g.Peer()
		peers[p.Connect.Client.DisplayName] = p
	}
	for name, want := range map[string]struct{ device, tool, commands string }{
		"Speaker 1": {"board:1", "speaker-1_self_audio_speaker_set_volume",
			"mcp.initialize mcp.tools.list mcp.tools.call mcp.notify mcp.tools.call.v1 audio.start audio.stop audio.set"},
		"Lamp": {"glasses:1", "lamp_light",
			"mcp.initialize mcp.tools.list mcp.tools.call mcp.notify mcp.tools.call.v1"},
	} {
		p := peers[name]
		if p == nil {
			t.Fatalf("%s has not joined", name)
		}
		c := p.Connect
		if c.Role != wire.RoleNode || c.Client.ID != wire.ClientNode || c.Client.Mode != wire.ModeNode ||
			c.Client.Platform != "linux" ||
			c.Client.DeviceFamily != "Linux" || c.Client.Version != "1.2.3" || strings.Join(c.Caps, " ") != "mcp" ||
			strings.Join(c.Commands, " ") != want.commands {
			t.Errorf("%s says %+v", name, c)
		}
		tools := approve(t, p).Tools
		if len(tools) != 1 || tools[0].Name != want.tool || tools[0].PluginID != wire.PluginMCP ||
			tools[0].Command != wire.CommandTool || tools[0].Parameters == nil {
			t.Errorf("%s publishes %+v", name, tools)
		}
		st := await(t, m, want.device, Ready)
		if st.Tools != 1 || st.Accepted != 1 || st.Omitted != 0 || st.Message.In(i18n.English) != "" ||
			st.Node != c.Device.ID ||
			st.Name != name || st.Gateway != "2026.9.6" {
			t.Errorf("%+v", st)
		}
		if k := h.held("gw:1/" + want.device); k.Identity == nil || k.Identity.ID() != c.Device.ID ||
			k.Gateway != g.URL {
			t.Errorf("of %s was kept %+v", name, k)
		}
	}
	if list, _ := m.Status("gw:1"); len(list) != 2 {
		t.Errorf("%+v", list)
	}
	if _, ok := m.Status("gw:2"); ok {
		t.Error("there is a gateway that nobody has added")
	}

	// A removed device leaves; the other stays.
	h.change(func() { h.devices = h.devices[:1] })
	if code := peers["Lamp"].CloseCode(); code != wire.CloseNormal {
		t.Errorf("it has left with %d", code)
	}
	if r := invoke(t, peers["Speaker 1"], "1", mcpnode.CommandNotify, `{"method":"notifications/x"}`); !r.OK {
		t.Errorf("%+v", r)
	}
	m.Set(nil)
	if code := peers["Speaker 1"].CloseCode(); code != wire.CloseNormal {
		t.Errorf("it has left with %d", code)
	}
}

// The status has the command that approves the device, and then the command that approves its
// surface.
func TestPairing(t *testing.T) {
	var in atomic.Bool
	g := clienttest.Start(t, clienttest.Options{Admit: func(c *wire.Connect) *wire.Error {
		if !in.Load() {
			return wire.PairingRequired(wire.PairNew, "c6159fb2-1", c.Device.ID, wire.RoleNode, false)
		}
		return nil
	}})
	h := newFakeSource(speaker(1))
	m := newManager(t, h, nil)
	s := spec(g)
	m.Set([]Spec{s})
	st := await(t, m, "board:1", Pairing)
	if st.Command != "openclaw devices approve c6159fb2-1" ||
		!strings.Contains(st.Message.In(i18n.English), st.Command) ||
		!strings.Contains(st.Message.In(i18n.Chinese), st.Command) || st.NextTry.IsZero() {
		t.Errorf("%+v", st)
	}

	in.Store(true)
	s.Version++
	m.Set([]Spec{s}) // avoids waiting for the next attempt
	p := g.Peer()
	if got := g.Attempts(); got[0].Device.ID != p.Connect.Device.ID {
		t.Error("the node has another key")
	}
	p.Fail(p.Next(wire.MethodRunnerInventory), wire.SurfacePending("707cc003-2"))
	publishes(t, p)
	st = await(t, m, "board:1", Approval)
	if st.Command != "openclaw nodes approve 707cc003-2" || !strings.Contains(st.Message.In(i18n.English),
		st.Command) ||
		!strings.Contains(st.Message.In(i18n.Chinese), st.Command) {
		t.Errorf("%+v", st)
	}
	decide := func(node, decision string) {
		p.SendEvent(wire.EventNodeResolved, wire.Decision{RequestID: "707cc003-2", NodeID: node, Decision: decision})
	}
	decide("another", wire.DecisionApproved)
	decide(p.Connect.Device.ID, wire.DecisionRejected)
	p.Fail(p.Next(wire.MethodRunnerInventory), &wire.Error{Code: wire.Unavailable,
		Message: "node runner inventory publication is not current; retry after pairing completes"})
	if st := await(t, m, "board:1", Failed); st.Message.Message != msgRejected || st.Command != "" {
		t.Errorf("%+v", st)
	}
	decide(p.Connect.Device.ID, wire.DecisionApproved)
	approve(t, p)
	if st := await(t, m, "board:1", Ready); st.Command != "" || st.Message.In(i18n.English) != "" {
		t.Errorf("%+v", st)
	}
}

// A node that is not approved checks again.
func TestAskedAgain(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	m := newManager(t, newFakeSource(lamp()), func(o *Options) { o.times.approvalInterval = 20 * time.Millisecond })
	m.Set([]Spec{spec(g)})
	p := g.Peer()
	p.Fail(p.Next(wire.MethodRunnerInventory), wire.SurfacePending("r"))
	publishes(t, p)
	p.Fail(p.Next(wire.MethodRunnerInventory), wire.SurfacePending("$(reboot)"))
	if st := awaitStatus(t, m, "glasses:1",
		"asked again", func(s Status) bool { return s.Command == "openclaw nodes pending" }); st.State != Approval {
		t.Errorf("%+v", st)
	}
	// A gateway without this method has no such approval.
	p.Fail(p.Next(wire.MethodRunnerInventory), wire.UnknownMethod(wire.MethodRunnerInventory))
	r := p.Next(wire.MethodPluginTools)
	p.Answer(r, wire.PluginTools{Tools: []wire.PluginTool{}})
	st := await(t, m, "glasses:1", Ready)
	if st.Accepted != 0 || st.Tools != 1 || st.Command != "openclaw nodes pending" {
		t.Errorf("%+v", st)
	}
}

// Changed tools are published once per change; changed commands need a new connection.
func TestChanges(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	h := newFakeSource(lamp())
	m := newManager(t, h, nil)
	m.Set([]Spec{spec(g)})
	p := g.Peer()
	approve(t, p)
	await(t, m, "glasses:1", Ready)

	h.change(func() {}) // no change
	grown := lamp()
	for i := range 3 {
		grown.Tools = append(slices.Clip(grown.Tools), tool.Tool{Name: fmt.Sprint("blink", i),
			Description: "x", Input: json.RawMessage(`{"type":"object"}`)})
		h.change(func() { h.devices = []Device{grown} })
	}
	for n := 0; n != 4; { // at most one list per change
		n = len(publishes(t, p).Tools)
	}
	awaitStatus(t, m, "glasses:1", "grown", func(s Status) bool { return s.Tools == 4 && s.Accepted == 4 })
	if r := invoke(t, p, "1", wire.CommandTool, `{"server":"lamp","tool":"blink2"}`); !r.OK {
		t.Errorf("%+v", r.Error)
	}

	// A refused list is shown in the status, and a valid one is published again.
	grown.Tools = slices.Clone(grown.Tools[:2])
	h.change(func() { h.devices = []Device{grown} })
	p.Fail(p.Next(wire.MethodPluginTools), wire.Invalid("no such thing"))
	if st := awaitStatus(t, m, "glasses:1",
		"refused", func(s Status) bool { return s.Message.In(i18n.English) != "" }); !strings.Contains(st.Message.In(i18n.English),
		"no such thing") {
		t.Errorf("%+v", st)
	}
	grown.Tools = grown.Tools[:1]
	h.change(func() { h.devices = []Device{grown} })
	if tools := publishes(t, p).Tools; len(tools) != 1 {
		t.Errorf("%+v", tools)
	}
	awaitStatus(t, m, "glasses:1", "well again", func(s Status) bool {
		return s.Message.In(i18n.English) == "" &&
			s.State == Ready
	})

	// If the devices cannot be read, the node stays unchanged until they can.
	h.change(func() { h.fails = errTest })
	h.change(func() {
		h.fails = nil
		grown.Media = []string{"audio"}
		h.devices = []Device{grown}
	})
	again := g.Peer()
	if p.CloseCode() != wire.CloseNormal || again.Connect.Device.ID != p.Connect.Device.ID ||
		!slices.Contains(again.Connect.Commands, "audio.set") {
		t.Errorf("%+v", again.Connect)
	}
	approve(t, again)
	grown.Title = "Big lamp"
	h.change(func() { h.devices = []Device{grown} })
	if p := g.Peer(); p.Connect.Client.DisplayName != "Big lamp" || p.Connect.Device.ID != again.Connect.Device.ID {
		t.Errorf("%+v", p.Connect)
	}
}

// After a restart of the gateway, a node reconnects with its device token.
func TestReconnect(t *testing.T) {
	const own = "token-of-the-device"
	g := clienttest.Start(t, clienttest.Options{
		Admit: func(c *wire.Connect) *wire.Error {
			if c.Credential() != "" && c.Credential() != own {
				return wire.TokenMismatch(true)
			}
			return nil
		},
		Hello: func(h *wire.Hello) { h.Auth.DeviceToken = own },
	})
	h := newFakeSource(lamp())
	m := newManager(t, h, nil)
	s := spec(g)
	s.Token = ""
	m.Set([]Spec{s})
	p := g.Peer()
	approve(t, p)
	if k := h.held("gw:1/glasses:1"); k.Token != own {
		t.Errorf("%+v", k)
	}
	p.SendEvent(wire.EventShutdown, json.RawMessage(`{"reason":"gateway stopping"}`))
	p.Close(wire.CloseRestart, "service restart")
	if st := await(t, m, "glasses:1", Waiting); st.Message.In(i18n.English) == "" || st.Accepted != 0 {
		t.Errorf("%+v", st)
	}
	p = g.Peer()
	if p.Connect.Credential() != own {
		t.Errorf("it comes with %q", p.Connect.Credential())
	}
	if tools := approve(t, p).Tools; len(tools) != 1 {
		t.Errorf("%+v", tools)
	}
	await(t, m, "glasses:1", Ready)

	// The stored secret is used by the next process. Another gateway does not get the token.
	m.Close()
	next := newManager(t, h, nil)
	next.Set([]Spec{s})
	if p := g.Peer(); p.Connect.Credential() != own {
		t.Errorf("it comes with %q", p.Connect.Credential())
	}
	other := clienttest.Start(t, clienttest.Options{Admit: func(*wire.Connect) *wire.Error { return nil }})
	s.URL, s.Version = other.URL, 2
	next.Set([]Spec{s})
	if q := other.Peer(); q.Connect.Credential() != "" || q.Connect.Device.ID != p.Connect.Device.ID {
		t.Errorf("%+v", q.Connect)
	}
}

// A node that has also connected elsewhere shows that in its status, and closes its connection.
func TestReplaced(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	h := newFakeSource(lamp())
	m := newManager(t, h, nil)
	m.Set([]Spec{spec(g)})
	p := g.Peer()
	approve(t, p)
	h.change(func() { h.devices[0].Tools = nil })
	p.Fail(p.Next(wire.MethodPluginTools), wire.PairingReplaced)
	if st := await(t, m, "glasses:1", Waiting); st.Message.Message != msgReplaced {
		t.Errorf("%+v", st)
	}
	p.CloseCode()
	if st := awaitStatus(t, m, "glasses:1",
		"waiting", func(s Status) bool { return !s.NextTry.IsZero() }); st.State != Waiting ||
		st.Message.Message != msgReplaced {
		t.Errorf("%+v", st)
	}
}

// A key that cannot be stored is not used: the gateway's owner would approve it in vain.
func TestKeyIsKeptFirst(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	h := newFakeSource(lamp())
	h.keeps = errTest
	m := newManager(t, h, nil)
	m.Set([]Spec{spec(g)})
	if st := await(t, m, "glasses:1", Waiting); st.Message.Message != msgNoKey || st.Node != "" {
		t.Errorf("%+v", st)
	}
	if len(g.Attempts()) != 0 {
		t.Error("the node has connected")
	}
	h.change(func() { h.keeps = nil })
	approve(t, g.Peer())
	await(t, m, "glasses:1", Ready)
}

// Untrusted gateways are dialed by Options.Dial, others are not.
func TestGuard(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	m := newManager(t, newFakeSource(lamp()), func(o *Options) {
		o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errTest }
	})
	s := spec(g)
	s.Untrusted = true
	m.Set([]Spec{s})
	await(t, m, "glasses:1", Waiting)
	if len(g.Attempts()) != 0 {
		t.Error("the guard was not asked")
	}
	s.Untrusted, s.Version = false, 2
	m.Set([]Spec{s})
	approve(t, g.Peer())
}

// Devices above the limit have a status.
func TestTooMany(t *testing.T) {
	var shown atomic.Int32
	g := clienttest.Start(t, clienttest.Options{Raw: func(ws *websocket.Conn) {
		shown.Add(1)
		_, _, _ = ws.Read(context.Background()) // until the connection ends
	}})
	h := newFakeSource()
	for i := range maxNodes + 2 {
		h.devices = append(h.devices, Device{ID: fmt.Sprintf("board:%03d", i), Slug: fmt.Sprint("s", i)})
	}
	m := newManager(t, h, nil)
	m.Set([]Spec{spec(g)})
	st := await(t, m, "board:065", Failed)
	if !strings.Contains(st.Message.In(i18n.English), "64") || !strings.Contains(st.Message.In(i18n.Chinese), "64") {
		t.Errorf("%+v", st)
	}
	await(t, m, "board:063", Connecting)
	// A joined device keeps its place when a new one sorts before it.
	h.change(func() { h.devices = append(h.devices, Device{ID: "board:!", Slug: "new"}) })
	await(t, m, "board:!", Failed)
	if list, _ := m.Status("gw:1"); len(list) != maxNodes+3 {
		t.Errorf("%d", len(list))
	}
}
