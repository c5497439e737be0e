package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

func encode(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	must(t, err)
	return data
}

// blocking returns a handler that waits until it is cancelled, and reports when it begins.
func blocking(began chan<- struct{}) sim.CommandHandler {
	return func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, sim.ErrNoAnswer
	}
}

// Each failure of a call has the error of OpenClaw's gateway.
func TestInvokeErrors(t *testing.T) {
	r := newRig(t, nil)
	var ready atomic.Int32
	n := r.node(sim.Options{
		Commands: []string{"kitchen.echo", "camera.snap", wire.CommandTool},
		Handler: func(ctx context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
			switch mode := string(params); mode {
			case `"mute"`:
				return nil, sim.ErrNoAnswer
			case `"coded"`:
				return nil, sim.Fail("BURNT", "it is black")
			case `"code"`:
				return nil, sim.Fail("BURNT", "")
			case `"never"`:
				ready.Add(1)
				return nil, sim.Fail(wire.NodeNotReady, "not yet")
			case `"third"`:
				if ready.Add(1) < 3 {
					return nil, sim.Fail(wire.NodeNotReady, "not yet")
				}
			}
			if params == nil {
				return nil, nil
			}
			return json.RawMessage(`{"params":` + string(params) + `}`), nil
		},
	}, true)
	away := r.node(sim.Options{Name: "Away"}, true)
	away.Close()
	op, reader := r.operator(r.token), r.operator(r.token, wire.ScopeRead)
	must(t, awaitRow(op, away.ID(), func(n wire.NodeDetail) bool { return !n.Connected }))
	id := n.ID()
	for name, c := range map[string]struct {
		params  m
		code    wire.Code
		message string
		detail  string // part of the details
	}{
		"coded": {m{"command": "kitchen.echo", "params": "coded"}, wire.Unavailable, "BURNT: it is black",
			`{"nodeError":{"code":"BURNT","message":"it is black"},"nodeCommandDispatched":true}`},
		"code alone": {m{"command": "kitchen.echo", "params": "code"}, wire.Unavailable, "BURNT: node invoke failed",
			`"nodeCommandDispatched":true`},
		"timeout": {m{"command": "kitchen.echo", "params": "mute", "timeoutMs": 30}, wire.Unavailable,
			"TIMEOUT: node invoke timed out", `"nodeCommandDispatched":true`},
		"never ready": {m{"command": "kitchen.echo", "params": "never", "timeoutMs": 400}, wire.Unavailable,
			"NODE_NOT_READY: not yet", `"nodeCommandDispatched":true`},
		"away": {m{"nodeId": away.ID(), "command": "kitchen.echo"}, wire.Unavailable, "node not connected",
			`"nodeCommandDispatched":false`},
		"nobody": {m{"nodeId": "nobody", "command": "kitchen.echo"}, wire.Unavailable,
			"node pairing changed while invocation was active", "PAIRING_CHANGED"},
		"not allowed": {m{"command": "mcp.unknown"}, wire.InvalidRequest,
			`node command not allowed: "mcp.unknown" is not in the allowlist for platform "linux"`,
			"command not allowlisted"},
		"dangerous": {m{"command": "camera.snap"}, wire.InvalidRequest,
			`node command not allowed: "camera.snap" requires explicit gateway.nodes.commands.allow opt-in`,
			"command not allowlisted"},
		"not declared": {m{"command": "kitchen.fail"}, wire.InvalidRequest,
			`node command not allowed: the node (platform: linux) does not support "kitchen.fail"`,
			"command not declared by node"},
		"private": {m{"command": "worker.status.v1"}, wire.InvalidRequest,
			"node.invoke does not allow private node controls", ""},
		"no key": {m{"command": "kitchen.echo", "idempotencyKey": nil}, wire.InvalidRequest,
			"invalid node.invoke params: must have required property 'idempotencyKey'", ""},
		"blank command": {m{"command": " "}, wire.InvalidRequest, "nodeId and command required", ""},
		"too much": {m{"command": "kitchen.echo", "another": 1}, wire.InvalidRequest,
			"invalid node.invoke params: at root: unexpected property 'another'", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := invokeParams(id, "", nil)
			for k, v := range c.params {
				if p[k] = v; v == nil {
					delete(p, k)
				}
			}
			e := op.refused(wire.MethodNodeInvoke, p)
			if e.Code != c.code || e.Message != c.message || !strings.Contains(string(e.Details), c.detail) {
				t.Errorf("%v %s", e, e.Details)
			}
		})
	}
	if e := reader.refused(wire.MethodNodeInvoke, invokeParams(id, "kitchen.echo", nil)); e.Code != wire.Forbidden ||
		e.Message != "missing scope: operator.write" {
		t.Error(e)
	}
	ready.Store(0)
	got := call[invoked](op, wire.MethodNodeInvoke, invokeParams(id, "kitchen.echo", "third"))
	if string(got.Payload) != `{"params":"third"}` || ready.Load() != 3 {
		t.Errorf("%s after %d", got.Payload, ready.Load())
	}
	for _, p := range []any{nil, "words", 7, []int{1}, true} {
		got := call[invoked](op, wire.MethodNodeInvoke, invokeParams(id, "kitchen.echo", p))
		want := `{"params":` + string(encode(t, p)) + `}`
		if p == nil {
			want = ""
		}
		if string(got.Payload) != want {
			t.Errorf("%v became %s", p, got.Payload)
		}
	}
}

func awaitRow(op *operator, id string, fits func(wire.NodeDetail) bool) error {
	for {
		if fits(describe(op, id)) {
			return nil
		}
		if err := op.ctx.Err(); err != nil {
			return err
		}
	}
}

// A call that is repeated with its idempotency key is executed once.
func TestIdempotency(t *testing.T) {
	r := newRig(t, nil)
	var times atomic.Int32
	let := make(chan struct{})
	began := make(chan struct{}, 10)
	n := r.node(sim.Options{Handler: func(ctx context.Context, command string, params json.RawMessage) (json.RawMessage,
		error) {
		if command == "kitchen.fail" {
			return nil, sim.Fail("BURNT", "it is black")
		}
		began <- struct{}{}
		<-let
		return json.Marshal(times.Add(1))
	}}, true)
	op, other := r.operator(r.token), r.operator(r.token)
	p := encode(t, invokeParams(n.ID(), "kitchen.echo", m{"a": 1}))
	first, stop, err := op.StartRequest(op.ctx, wire.MethodNodeInvoke, p)
	must(t, err)
	defer stop()
	<-began
	again, forget2, err := other.StartRequest(other.ctx, wire.MethodNodeInvoke, p)
	must(t, err)
	defer forget2()
	close(let)
	a, err := op.AwaitAnswer(op.ctx, first)
	must(t, err)
	b, err := other.AwaitAnswer(other.ctx, again)
	must(t, err)
	c, err := other.Request(other.ctx, wire.MethodNodeInvoke, p)
	must(t, err)
	if string(a) != string(b) || string(a) != string(c) || times.Load() != 1 {
		t.Errorf("%s %s %s after %d", a, b, c, times.Load())
	}
	changed := decoded[m](t, p)
	changed["params"] = m{"a": 2}
	if e := op.refused(wire.MethodNodeInvoke, changed); e.Code != wire.InvalidRequest {
		t.Error(e)
	}
	_, key := r.person("bob", "operator", "node")
	if e := r.operator(key).refused(wire.MethodNodeInvoke, changed); e.Detail() != wire.DetailPairChanged {
		t.Errorf("another person's key is the same: %v", e)
	}
	p = encode(t, invokeParams(n.ID(), "kitchen.fail", nil))
	_, err = op.Request(op.ctx, wire.MethodNodeInvoke, p)
	_, err2 := op.Request(op.ctx, wire.MethodNodeInvoke, p)
	if err == nil || err2 == nil || err.Error() != err2.Error() {
		t.Errorf("%v, then %v", err, err2)
	}
}

// When a node disconnects, its running commands fail.
func TestNodeGoes(t *testing.T) {
	r := newRig(t, nil)
	began := make(chan struct{}, 2)
	n := r.node(sim.Options{Handler: blocking(began)}, true)
	op := r.operator(r.token)
	for command, code := range map[string]string{"kitchen.echo": wire.NodeDisconnected,
		wire.CommandTool: wire.NodeNoServer} {
		answers, stop, err := op.StartRequest(op.ctx, wire.MethodNodeInvoke,
			encode(t, invokeParams(n.ID(), command, m{"server": "s", "tool": "t"})))
		must(t, err)
		select {
		case <-began:
		case f := <-answers:
			t.Fatalf("%s: answered before it began: %+v", command, f)
		}
		n.Cut()
		_, err = op.AwaitAnswer(op.ctx, answers)
		stop()
		var e *wire.Error
		if !errors.As(err, &e) {
			t.Fatalf("%s: %v", command, err)
		}
		if said, sent, _ := wire.NodeErrorOf(e); said.Code != code || !sent {
			t.Errorf("%s: %v", command, e)
		}
		must(t, n.AwaitConnected(limited(t)))
		must(t, awaitRow(op, n.ID(), func(n wire.NodeDetail) bool { return n.Connected }))
	}
}

// Commands and published tools of a node are tools of the hub, with its rules and its audit trail.
func TestNodeAsProvider(t *testing.T) {
	r := newRig(t, nil)
	ref := wire.ToolRef{Server: "stove", Tool: "self.heat.set"}
	n := r.node(sim.Options{Tools: []wire.PluginTool{
		{PluginID: wire.PluginMCP, Name: "stove_heat", Description: "Heats",
			Parameters: json.RawMessage(`{"type":"object","properties":{"to":{"type":"integer"}},"required":["to"]}`),
			Command:    wire.CommandTool, MCP: &ref},
		{PluginID: "other", Name: "gone", Description: "Is not there", Command: "not.approved"},
	}}, true)
	op := r.operator(r.token)
	must(t, awaitRow(op, n.ID(), func(n wire.NodeDetail) bool { return len(n.PluginTools) == 1 }))
	access := hub.Access{Caller: tool.Caller{Person: r.Person.ID, Channel: "mcp"}}
	prefix := "node-kitchen-" + n.ID()[:6] + "_"
	v, err := r.Hub.View(r.Person.ID, "")
	must(t, err)
	names := []string{}
	for _, o := range v.Tools {
		names = append(names, o.Name)
	}
	if got := strings.Join(names, " "); got != prefix+"kitchen_echo "+prefix+"kitchen_fail "+prefix+"stove_heat" {
		t.Fatalf("programs see %s", got)
	}
	res, err := r.Hub.Call(t.Context(), access, prefix+"stove_heat", &tool.Call{Args: []byte(`{"to":200}`)})
	must(t, err)
	if res.PlainText() != "stove self.heat.set" || string(res.Structured) != `{"to":200}` {
		t.Errorf("%s %s", res.Content, res.Structured)
	}
	if _, err := r.Hub.Call(t.Context(), access, prefix+"stove_heat",
		&tool.Call{Args: []byte(`{}`)}); tool.AsError(err).Code != tool.BadArgs {
		t.Error(err)
	}
	// The _meta of a program does not say what the node runs.
	if res, err = r.Hub.Call(t.Context(), access, prefix+"kitchen_echo", &tool.Call{Args: []byte(`{"a":1}`),
		Meta: []byte(`{"patchbay/invoke":{"params":{"a":2}}}`)}); err != nil || string(res.Structured) != `{"a":1}` {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err = r.Hub.Call(t.Context(), access, prefix+"kitchen_fail",
		&tool.Call{}); tool.AsError(err).Code != tool.Failed || !strings.Contains(err.Error(), "BURNT") {
		t.Error(err)
	}
	call[invoked](op, wire.MethodNodeInvoke, invokeParams(n.ID(), "kitchen.echo", m{}))
	rows, err := r.Store.Calls.Newest(t.Context(), r.Person.ID, time.Now().Add(time.Minute), 1)
	must(t, err)
	if len(rows) != 1 || rows[0].Tool != prefix+"kitchen_echo" || rows[0].Channel != "openclaw" ||
		rows[0].Outcome != "done" || rows[0].Provider != gateway.ProviderID(n.ID()) || rows[0].Key == "" {
		t.Errorf("%+v", rows)
	}
}

// Other providers of the hub appear as nodes.
func TestVirtualNodes(t *testing.T) {
	r := newRig(t, nil)
	lamp := &lampTool{}
	socket, err := r.Hub.Register(hub.ProviderRef{ID: "upstream:7", Owner: r.Person.ID,
		Slug: "lamp", Kind: "upstream", Title: "Lamp"}, lamp)
	must(t, err)
	socket.SetTools([]tool.Tool{
		{Name: "self.lamp.set", Description: "Sets it",
			Input: json.RawMessage(`{"type":"object","properties":{"on":{"type":"boolean"}}}`)},
		{Name: "self.fail", Description: "Fails", Input: json.RawMessage(`{"type":"object"}`)},
		{Name: "self.reboot", Description: "Restarts", Input: json.RawMessage(`{"type":"object"}`), Dangerous: true},
	})
	sleeper, err := r.Hub.Register(hub.ProviderRef{ID: "board:1", Owner: r.Person.ID,
		Slug: "desk", Kind: "xiaozhi", Title: "Desk"}, lamp)
	must(t, err)
	sleeper.SetTools([]tool.Tool{{Name: "audio", Description: "Audio", Audience: "user",
		Input: json.RawMessage(`{"type":"object"}`)}})
	op := r.operator(r.token)
	_, key := r.person("bob", "operator")
	if l := call[wire.NodeList](r.operator(key), wire.MethodNodeList, m{}); len(l.Nodes) != 0 {
		t.Errorf("another person sees %+v", l)
	}
	l := call[wire.NodeList](op, wire.MethodNodeList, m{})
	if len(l.Nodes) != 2 || l.Nodes[0].DisplayName != "Lamp" || !l.Nodes[0].Connected ||
		l.Nodes[1].DisplayName != "Desk" || l.Nodes[1].Connected {
		t.Fatalf("%+v", l)
	}
	id, desk := l.Nodes[0].NodeID, l.Nodes[1]
	if strings.Join(desk.Commands,
		" ") != "audio.set audio.start audio.stop mcp.initialize mcp.notify mcp.tools.call mcp.tools.call.v1 mcp.tools.list" {
		t.Errorf("%v", desk.Commands)
	}
	if d := describe(op, id); len(d.PluginTools) != 2 || d.PluginTools[1].Name != "lamp_self_lamp_set" ||
		d.Approval != wire.Approved {
		t.Errorf("%+v", d)
	}
	invoke := func(command string, params any) string {
		return string(call[invoked](op, wire.MethodNodeInvoke, invokeParams(id, command, params)).Payload)
	}
	if got := invoke("mcp.initialize",
		m{}); got != `{"protocolVersion":"2025-11-25","serverInfo":{"name":"lamp","title":"Lamp","version":"1.2.3"},"capabilities":{"tools":{}}}` {
		t.Error(got)
	}
	if got := invoke("mcp.tools.list", m{"cursor": ""}); !strings.HasPrefix(got,
		`{"tools":[{"name":"self.fail","description":"Fails","inputSchema":{"type":"object"}},{"name":"self.lamp.set",`) || strings.Contains(got, "reboot") {
		t.Error(got)
	}
	want := `{"content":[{"type":"text","text":"self.lamp.set {\"on\":true}"}],"isError":false}`
	if got := invoke("mcp.tools.call", m{"name": "self.lamp.set", "arguments": m{"on": true}}); got != want {
		t.Error(got)
	}
	if got := invoke("mcp.tools.call.v1", m{"server": "lamp", "tool": "self.lamp.set",
		"arguments": m{"on": true}}); got != want {
		t.Error(got)
	}
	for name, c := range map[string]struct {
		command string
		params  any
		want    string
	}{
		"unknown":   {"mcp.tools.call", m{"name": "self.what"}, "-32601: There is no tool self.what."},
		"arguments": {"mcp.tools.call", m{"name": "self.lamp.set", "arguments": m{"on": 1}}, "-32602: "},
		"dangerous": {"mcp.tools.call", m{"name": "self.reboot"}, "DENIED: "},
		"rpc":       {"mcp.tools.call", m{"name": "self.fail"}, "-32050: it is broken"},
		"server":    {"mcp.tools.call.v1", m{"server": "other", "tool": "self.fail"}, "MCP_SERVER_UNAVAILABLE: "},
		"command":   {"system.run", nil, "node command not allowed: "},
	} {
		if e := op.refused(wire.MethodNodeInvoke, invokeParams(id, c.command, c.params)); !strings.HasPrefix(e.Message,
			c.want) {
			t.Errorf("%s: %v", name, e)
		}
	}
	got := call[invoked](op, wire.MethodNodeInvoke, invokeParams(desk.NodeID, "audio.set", m{"sample_rate": 16000}))
	if !strings.Contains(string(got.Payload), `audio {\"action\":\"set\",\"sample_rate\":16000}`) {
		t.Errorf("%s", got.Payload)
	}
	call[m](op, "notices.subscribe", m{})
	socket.Notify("notifications/button", json.RawMessage(`{"n":1}`))
	p := decoded[m](t, op.await("mcp.notification", nil))
	if p["nodeId"] != id || p["method"] != "notifications/button" || p["params"].(m)["n"] != 1.0 {
		t.Errorf("%v", p)
	}
}

// lampTool returns its name and arguments.
type lampTool struct{}

func (*lampTool) Call(_ context.Context, c *tool.Call) (*tool.Result, error) {
	if c.Tool == "self.fail" {
		return nil, &tool.Error{Code: tool.Refused, Told: "it is broken", RPC: -32050}
	}
	return tool.Text(c.Tool + " " + string(c.Args)), nil
}
