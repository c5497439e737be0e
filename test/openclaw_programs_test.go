package test

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	xiaozhi "patchbay/internal/plug/xiaozhi/sim"
)

// OpenClaw's own command line and its own node host use this server as their gateway: the host
// connects, is approved, and executes calls from the command line, assistants and programs, also
// after the server was killed and after it was stopped.
func TestOpenClawPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("starts OpenClaw")
	}
	openclawtest.LoadSchema(t) // skips the test without it
	h := newClawServer(t, "PATCHBAY_NODES_APPROVE_LOCAL=false", "PATCHBAY_NODES_ALLOW=kitchen.echo")
	h.run(t, "user", "add", "bob")
	_, port, err := net.SplitHostPort(h.listen)
	must(t, err)
	at, err := strconv.Atoi(port)
	must(t, err)
	host := openclawtest.NodeHost(t, at, h.add("ada", "hall", "node"), openclawtest.HostOptions{
		Name: "Hall", Servers: map[string]any{"demo": openclawtest.LampServer(t)},
	})
	o := &clawPrograms{
		clawServer: h, bob: h.add("bob", "bob", "operator"), speaker: h.speaker("Speaker"),
		assistant: &program{key: h.add("ada", "assistant", "mcp")},
	}
	o.kitchen = sim.NewNode(sim.Options{
		URL: h.socket(), Token: h.add("bob", "kitchen", "node"), Name: "Kitchen", Commands: []string{"kitchen.echo"},
		MinBackoff: 50 * time.Millisecond,
		MaxBackoff: time.Second,
		Handler: func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
			return params,
				nil
		},
	})
	t.Cleanup(o.kitchen.Close)

	if !t.Run("let in", o.letIn) || !t.Run("approved", o.approved) {
		return
	}
	if !t.Run("used", o.used) {
		return
	}
	t.Run("killed", func(t *testing.T) { o.restarted(t, func() { h.kill() }) })
	t.Run("stopped", func(t *testing.T) {
		o.restarted(t, func() {
			if err := h.terminate(); err != nil {
				t.Errorf("the server ends with %v", err)
			}
		})
	})
	host.Stop()
	h.t = t
	h.until("the node host is gone", func() bool { return !h.connected("Hall") })
}

// clawPrograms are programs connected to a server.
type clawPrograms struct {
	*clawServer
	bob       string   // a member's key of scope operator
	assistant *program // with ada's key of scope mcp
	speaker   *xiaozhi.Board
	kitchen   *sim.Node // bob's
	hall      string    // ID of the node host, which is ada's
}

// letIn connects devices, which wait until an authorized person approves them.
func (o *clawPrograms) letIn(t *testing.T) {
	o.t = t
	kitchen := o.awaitDevice("Kitchen")
	hall := o.awaitDevice("Hall")
	o.hall = hall.DeviceID
	var listed wire.DevicePairs
	decodeJSON(t, o.cli(o.bob, "devices", "list", "--json"), &listed)
	if len(listed.Pending) != 1 || listed.Pending[0].RequestID != kitchen.RequestID || len(listed.Paired) != 0 {
		t.Errorf("bob sees %+v", listed)
	}
	if out, err := o.tryCLI(o.bob, "devices", "approve", hall.RequestID); err == nil {
		t.Errorf("bob has let ada's device in: %s", out)
	}
	o.cli(o.bob, "devices", "approve", kitchen.RequestID) // it asks again as an administrator, which bob is not
	must(t, o.kitchen.AwaitConnected(limited(t, openclawtest.Timeout)))
	if o.connected("Hall") {
		t.Error("the node host is in")
	}
	o.cli(o.key, "devices", "approve", hall.RequestID)
	o.slowly("the node host is let in", func() bool { return o.connected("Hall") })
}

// approved checks that nodes wait until their tools are approved.
func (o *clawPrograms) approved(t *testing.T) {
	o.t = t
	kitchen, hall := o.awaitSurface("Kitchen"), o.awaitSurface("Hall")
	if !slices.Equal(kitchen.Commands, []string{"kitchen.echo"}) || !slices.Contains(hall.Commands, "system.which") {
		t.Errorf("they want to do %q and %q", kitchen.Commands, hall.Commands)
	}
	if _, err := o.invoke(ctx, "Hall", "system.which", given{"bins": []string{"sh"}}); err == nil {
		t.Error("the node host is of use already")
	}
	if out := o.cli(o.operator, "nodes", "pending", "--json"); !strings.Contains(out, hall.RequestID) ||
		strings.Contains(out, kitchen.RequestID) {
		t.Errorf("ada is asked %s", out)
	}
	o.cli(o.bob, "nodes", "approve", kitchen.RequestID)
	o.approve(hall.RequestID)
	if p := o.pairs(); len(p.Devices)+len(p.Nodes) != 0 {
		t.Errorf("there is still asked %+v", p)
	}
	for name, id := range map[string]string{"Kitchen": o.kitchen.ID(), "Hall": o.hall} {
		if n := o.node(name); n == nil || n.NodeID != id || n.Approval != wire.Approved {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

// used calls the nodes from all sides.
func (o *clawPrograms) used(t *testing.T) {
	o.t = t
	var listed wire.NodePairs
	decodeJSON(t, o.cli(o.operator, "nodes", "list", "--json"), &listed)
	if i := slices.IndexFunc(listed.Paired, func(n wire.Node) bool { return n.NodeID == o.hall }); i < 0 ||
		len(listed.Pending) != 0 {
		t.Errorf("nodes list: %+v", listed)
	}
	if out := o.cli(o.operator, "nodes", "status", "--json"); !strings.Contains(out, `"Speaker"`) ||
		strings.Contains(out, `"Kitchen"`) {
		t.Errorf("nodes status: %s", out)
	}
	var n wire.Node
	decodeJSON(t, o.cli(o.operator, "nodes", "describe", "--node", "Hall", "--json"), &n)
	if n.NodeID != o.hall || !n.Connected || !slices.Contains(n.Commands, "system.which") || len(n.PluginTools) != 1 ||
		n.PluginTools[0].MCP.Tool != "self.lamp.set" {
		t.Errorf("nodes describe: %+v", n)
	}
	out := o.cli(o.operator, "nodes", "invoke", "--node", "Speaker", "--command", "mcp.tools.call", "--json",
		"--params", `{"name":"self.audio_speaker.set_volume","arguments":{"volume":41}}`)
	if v := o.speaker.Volume(); v != 41 {
		t.Errorf("the volume is %d: %s", v, out)
	}
	if out := o.cli(o.operator, "gateway", "call", "health", "--json"); !strings.Contains(out, `"ok": true`) {
		t.Errorf("health: %s", out)
	}
	if out, err := o.tryCLI(o.operator, "nodes", "invoke", "--node", "Kitchen", "--command", "kitchen.echo", "--params",
		"{}"); err == nil {
		t.Errorf("ada calls bob's node: %s", out)
	}

	// An assistant sees the tools of the node, and a lamp among them.
	lamp := o.toolOf("demo", "self_lamp_set")
	if got := o.mcp(lamp, `{"on":true}`); !strings.Contains(got, "the lamp is on") {
		t.Errorf("%s: %s", lamp, got)
	}
	if got := o.mcp("node-hall-"+o.hall[:6]+"_system_run", `{"command":["true"]}`); !strings.Contains(got,
		`"isError":true`) && !strings.Contains(got, `"error"`) {
		t.Errorf("an assistant has run a command: %s", got)
	}
	o.answers(t, "hall")

	o.cli(o.operator, "nodes", "rename", "--node", "Hall", "--name", "Attic")
	o.answers(t, "attic")
	var calls []struct{ Tool, Outcome, Channel string }
	o.json(t, &calls, "calls", "--limit", "1000")
	for _, want := range []struct{ tool, channel string }{{"self_audio_speaker_set_volume", "openclaw"},
		{"self_lamp_set", "mcp"}} {
		if !slices.ContainsFunc(calls, func(c struct{ Tool, Outcome, Channel string }) bool {
			return strings.HasSuffix(c.Tool, want.tool) && c.Channel == want.channel && c.Outcome == "done"
		}) {
			t.Errorf("the trail has no %s through %s: %+v", want.tool, want.channel, calls)
		}
	}
}

// restarted ends the server and checks that everything reconnects to the next one.
func (o *clawPrograms) restarted(t *testing.T, end func()) {
	o.t = t
	end()
	began := time.Now()
	o.again()
	o.slowly("the node host comes back", func() bool { return o.connected("Attic") })
	t.Logf("the node host was back after %v", time.Since(began).Round(time.Millisecond))
	must(t, o.kitchen.AwaitConnected(limited(t, openclawtest.Timeout)))
	o.answers(t, "attic")
}

// answers checks that the node host answers everybody who may call it.
func (o *clawPrograms) answers(t *testing.T, slug string) {
	t.Helper()
	got := ""
	o.slowly("an assistant is answered", func() bool { // the tools appear a moment after the node
		got = o.mcp("node-"+slug+"-"+o.hall[:6]+"_system_which", `{"bins":["sh"]}`)
		return strings.Contains(got, "/sh")
	})
	if out, err := o.invoke(ctx, o.hall, "system.which", given{"bins": []string{"sh"}}); err != nil ||
		!strings.Contains(string(out), "/sh") {
		t.Errorf("a program hears %s (%v)", out, err)
	}
	if out := o.run(t, "node", "invoke", o.hall[:12], "system.which", `bins=["sh"]`); !strings.Contains(out, "/sh") {
		t.Errorf("our command line hears %s", out)
	}
	out := o.cli(o.operator, "nodes", "invoke", "--node", o.hall[:12], "--command", "system.which", "--params",
		`{"bins":["sh"]}`, "--json")
	if !strings.Contains(out, "/sh") {
		t.Errorf("the command line hears %s", out)
	}
}

// mcp calls a tool as an assistant does, in its existing session.
func (o *clawPrograms) mcp(name, args string) string {
	o.t.Helper()
	return o.says(callOf(1, name, args))
}

func (o *clawPrograms) says(message string) string {
	o.t.Helper()
	o.assistant.url = o.url
	if o.assistant.session == "" {
		_, _, o.assistant.session = o.assistant.post(o.t, "/mcp", initialize)
	}
	_, body, _ := o.assistant.post(o.t, "/mcp", message)
	return body
}

// toolOf finds an assistant's tool by parts of its name.
func (o *clawPrograms) toolOf(parts ...string) string {
	o.t.Helper()
	var list struct {
		Result struct{ Tools []struct{ Name string } }
	}
	text := o.says(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	decodeJSON(o.t, text, &list)
	for _, tool := range list.Result.Tools {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(tool.Name, p) }) {
			return tool.Name
		}
	}
	o.t.Fatalf("there is no tool %s in %s", strings.Join(parts, " … "), text)
	return ""
}

func decodeJSON(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}
