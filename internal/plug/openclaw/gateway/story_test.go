package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// quick shortens the intervals, and requires an approval of every device.
func quick(o *gateway.Options) {
	o.AutoApproveLocal = false
	o.Timings.Tick, o.Timings.Health, o.Timings.RefusalDelay = 50*time.Millisecond, 70*time.Millisecond,
		time.Millisecond
}

// story is a sequence of everything that happens at a gateway.
type story struct {
	*rig
	op, boss *operator
	bobs     string // key of another person
}

// tellStory executes the story.
func tellStory(t *testing.T, r *rig) {
	t.Helper()
	s := &story{rig: r, op: r.operator(r.token), boss: r.operator(r.token, wire.ScopePairing, wire.ScopeWrite,
		wire.ScopeAdmin)}
	_, s.bobs = r.person("bob", account.ScopeOperator, account.ScopeNode)
	me := wire.NewIdentity()
	var n *sim.Node
	for _, chapter := range []func(){
		s.waits,
		func() {
			var request string
			n, request = s.device("Kitchen", me)
			s.surface(n, request)
		},
		s.rejected,
		func() { s.calls(n) },
		s.virtual,
		func() { s.tells(n) },
		func() { s.chats(n) },
		s.agents,
		func() { s.strangers(me) },
		func() { s.ends(n) },
	} {
		s.op.ctx, s.boss.ctx = limited(t), limited(t)
		chapter()
	}
}

// waits waits for the periodic events.
func (s *story) waits() {
	s.t.Helper()
	for _, event := range []string{wire.EventTick, wire.EventHealth, wire.EventPresence} {
		s.op.mu.Lock()
		s.op.events = nil
		s.op.mu.Unlock()
		if event == wire.EventPresence {
			s.operator(s.token).Close()
		}
		s.op.await(event, nil)
	}
}

// device connects a node and approves its device. It returns the node and the request for its
// surface.
func (s *story) device(name string, me wire.Identity) (*sim.Node, string) {
	s.t.Helper()
	n := sim.NewNode(sim.Options{
		URL: s.url, Token: s.token, Identity: me, Name: name, Caps: []string{wire.CapMCP},
		Commands: []string{"kitchen.echo", "kitchen.fail", wire.CommandTool, wire.CommandPolicyGet, wire.CommandPolicySet},
		Handler:  storyHandle, MinBackoff: 10 * time.Millisecond, MaxBackoff: 10 * time.Millisecond, Tools: storyTools,
	})
	s.t.Cleanup(n.Close)
	asked := decoded[wire.DeviceRequest](s.t, s.op.await(wire.EventDeviceRequested,
		func(p json.RawMessage) bool { return decoded[wire.DeviceRequest](s.t, p).DeviceID == me.ID() }))
	call[wire.DevicePairs](s.op, wire.MethodDevicePairList, m{})
	s.op.refused(wire.MethodDeviceApprove, m{"requestId": asked.RequestID})
	call[wire.ApprovedDevice](s.boss, wire.MethodDeviceApprove, m{"requestId": asked.RequestID})
	s.op.await(wire.EventDeviceResolved, nil)
	must(s.t, n.AwaitConnected(limited(s.t)))
	for _, p := range call[wire.NodePairs](s.op, wire.MethodNodePairList, m{}).Pending {
		if p.NodeID == n.ID() {
			return n, p.RequestID
		}
	}
	s.t.Fatal("nobody is asked what the node may do")
	return nil, ""
}

// storyTools are the published tools of the story's nodes.
var storyTools = []wire.PluginTool{{
	PluginID: wire.PluginMCP, Name: "stove_heat", Description: "Heats",
	Parameters: json.RawMessage(`{"type":"object"}`),
	Command:    wire.CommandTool, MCP: &wire.ToolRef{Server: "stove", Tool: "self.heat.set"},
}}

// storyHandle executes the commands of the story's nodes.
func storyHandle(ctx context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
	if string(params) == `"mute"` {
		return nil, sim.ErrNoAnswer
	}
	if command == wire.CommandPolicyGet || command == wire.CommandPolicySet {
		return json.RawMessage(`{"path":"p","exists":true,"hash":"h","file":{"version":1}}`), nil
	}
	return handle(ctx, command, params)
}

// surface approves the surface of a node.
func (s *story) surface(n *sim.Node, request string) {
	s.t.Helper()
	call[wire.NodeList](s.op, wire.MethodNodeList, m{})
	describe(s.op, n.ID())
	s.op.refused(wire.MethodNodeInvoke, invokeParams(n.ID(), "kitchen.echo", m{}))
	s.mustFail(n, wire.MethodRunnerInventory, `{"protocolFeatures":[]}`)
	s.mustFail(n, wire.MethodNodeEvent, `{"event":"node.host.stats","payloadJSON":"{}"}`)
	call[wire.ApprovedNode](s.boss, wire.MethodNodeApprove, m{"requestId": request})
	s.op.await(wire.EventNodeResolved, nil)
	must(s.t, awaitRow(s.op, n.ID(), func(d wire.NodeDetail) bool { return len(d.PluginTools) == 1 }))
	call[wire.NodeList](s.op, wire.MethodNodeList, m{})
	call[m](s.op, wire.MethodNodeRename, m{"nodeId": n.ID(), "displayName": "Stove"})
	call[m](s.op, wire.MethodDeviceRename, m{"deviceId": n.ID(), "label": "Stove"})
	call[wire.SetupCode](s.boss, wire.MethodSetupCode, m{"bootstrapProfile": wire.SetupProfileNode, "joinUrl": true,
		"publicUrl": "wss://board.example.org"})
}

// rejected rejects and removes a device and a node.
func (s *story) rejected() {
	s.t.Helper()
	n, request := s.device("Cellar", wire.NewIdentity())
	call[m](s.op, wire.MethodNodeReject, m{"requestId": request})
	s.op.await(wire.EventNodeResolved, nil)
	describe(s.op, n.ID())
	token := m{"deviceId": n.ID(), "role": wire.RoleNode}
	call[wire.TokenRotated](s.boss, wire.MethodTokenRotate, token)
	call[wire.TokenRevoked](s.boss, wire.MethodTokenRevoke, token)
	s.boss.refused(wire.MethodTokenRevoke, token)
	call[m](s.boss, wire.MethodDeviceRemove, m{"deviceId": n.ID()})
	asked := decoded[wire.DeviceRequest](s.t, s.op.await(wire.EventDeviceRequested, nil)) // it retries
	n.Close()
	call[wire.DevicePairs](s.op, wire.MethodDevicePairList, m{})
	call[m](s.op, wire.MethodDeviceReject, m{"requestId": asked.RequestID})
	s.op.await(wire.EventDeviceResolved, nil)
}

// calls calls commands of a node.
func (s *story) calls(n *sim.Node) {
	s.t.Helper()
	op, id := s.op, n.ID()
	p := invokeParams(id, "kitchen.echo", m{"words": "<a & \"b\"> 厨房"})
	p["sessionKey"] = "agent:main:main"
	call[invoked](op, wire.MethodNodeInvoke, p)
	s.op.refused(wire.MethodNodeInvoke, invokeParams(id, "kitchen.fail", nil))
	call[invoked](op, wire.MethodNodeInvoke, invokeParams(id, wire.CommandTool,
		m{"server": "stove", "tool": "self.heat.set", "arguments": m{"to": 1}}))
	call[m](s.boss, wire.MethodExecPolicyGet, m{})
	s.boss.refused(wire.MethodExecPolicySet, m{"file": m{"version": 1}})
	call[m](s.boss, wire.MethodNodeExecPolicyGet, m{"nodeId": id})
	call[m](s.boss, wire.MethodNodeExecPolicySet, m{"nodeId": id, "file": m{"version": 1}, "baseHash": "h"})
	op.refused(wire.MethodNodeExecPolicyGet, m{"nodeId": id})
	p = invokeParams(id, "kitchen.echo", "mute")
	p["timeoutMs"] = 30
	op.refused(wire.MethodNodeInvoke, p)
	op.refused(wire.MethodNodeInvoke, invokeParams(id, "camera.snap", nil))
	op.refused(wire.MethodNodeInvoke, invokeParams("nobody", "kitchen.echo", nil))
	s.operator(s.token, wire.ScopeRead).refused(wire.MethodNodeInvoke, invokeParams(id, "kitchen.echo", nil))
	for _, method := range []string{wire.MethodHealth, wire.MethodStatus, wire.MethodSessionsList,
		wire.MethodAgentsList} {
		call[m](op, method, m{})
	}
	call[[]any](op, wire.MethodSystemPresence, m{})
	op.refused(wire.MethodNodeList, m{"more": 1})
	op.refused("what.ever", m{})
	must(s.t, op.Write(op.ctx, []byte(`{"type":"req","id":5,"method":"health"}`)))
	call[m](op, wire.MethodHealth, m{}) // its response follows that of the frame above
}

// virtual calls commands of a virtual node.
func (s *story) virtual() {
	s.t.Helper()
	socket, err := s.Hub.Register(hub.ProviderRef{ID: "upstream:7", Owner: s.Person.ID,
		Slug: "lamp", Kind: "upstream", Title: "Lamp"}, &lampTool{})
	must(s.t, err)
	socket.SetTools([]tool.Tool{
		// has no description
		{Name: "self.lamp.set", Input: json.RawMessage(`{"type":"object","properties":{"on":{"type":"boolean"}}}`)},
		{Name: "self.fail", Description: "Fails", Input: json.RawMessage(`{"type":"object"}`)},
	})
	id := ""
	for _, n := range call[wire.NodeList](s.op, wire.MethodNodeList, m{}).Nodes {
		if n.DisplayName == "Lamp" {
			id = n.NodeID
		}
	}
	describe(s.op, id)
	for command, params := range map[string]any{
		"mcp.initialize": m{}, "mcp.tools.list": m{}, "mcp.notify": m{"method": "notifications/initialized"},
		"mcp.tools.call": m{"name": "self.lamp.set", "arguments": m{"on": true}},
		wire.CommandTool: m{"server": "lamp", "tool": "self.lamp.set"},
	} {
		call[invoked](s.op, wire.MethodNodeInvoke, invokeParams(id, command, params))
	}
	s.op.refused(wire.MethodNodeInvoke, invokeParams(id, "mcp.tools.call", m{"name": "self.fail"}))
	call[m](s.op, gateway.MethodNotificationsSubscribe, m{})
	socket.Notify("notifications/button", json.RawMessage(`{"n":1}`))
	s.op.await(gateway.EventNotification, nil)
}

// tells has a node send everything that nodes send.
func (s *story) tells(n *sim.Node) {
	s.t.Helper()
	for _, e := range []wire.NodeEvent{
		{Event: wire.NodeStats,
			Payload: json.RawMessage(`{"cpuCount":2,"loadAverage":[1,0.5,0.25],"memoryTotalBytes":2,"memoryFreeBytes":1}`)},
		{Event: wire.NodeStats, Payload: json.RawMessage(`[]`)},
		{Event: wire.NodeAlive, Payload: json.RawMessage(`{"trigger":"connect"}`)},
		{Event: wire.NodeNotifications, Payload: json.RawMessage(`{"change":"posted","key":"k","title":"Post"}`)},
		{Event: "what.ever"},
		{Event: wire.NodeSubscribe, Payload: json.RawMessage(`{"sessionKey":"agent:main:s"}`)},
		{Event: wire.NodeTranscript, Payload: json.RawMessage(`{}`)},
	} {
		s.may(n, wire.MethodNodeEvent, string(e.Append(nil)))
	}
	stats := decoded[struct {
		Node  string `json:"nodeId"`
		Stats m      `json:"hostStats"`
	}](s.t, s.op.await(wire.EventHostStats, nil))
	if at, _ := stats.Stats["updatedAtMs"].(float64); stats.Node != n.ID() || stats.Stats["cpuCount"] != 2.0 ||
		time.Since(time.UnixMilli(int64(at))) > testTimeout {
		s.t.Errorf("%+v", stats)
	}
	late := wire.InvokeResult{ID: "nobody's", NodeID: n.ID(), OK: true}
	s.may(n, wire.MethodInvokeResult, string(late.Append(nil)))
	late.NodeID = "another"
	s.mustFail(n, wire.MethodInvokeResult, string(late.Append(nil)))
	s.may(n, wire.MethodInvokeProgress, `{"invokeId":"i","nodeId":"n","seq":0,"chunk":"c"}`)
	s.may(n, wire.MethodRunnerInventory, `{"protocolFeatures":[]}`)
	s.may(n, wire.MethodPluginTools, string(encode(s.t, wire.PluginTools{Tools: storyTools})))
	s.may(n, wire.MethodSkills, `{"skills":[{"name":"cook","description":"Cooks","content":"Cook."}]}`)
	s.may(n, "node.pending.pull", `{}`)
	s.may(n, "node.pending.ack", `{"ids":["1"]}`)
	s.may(n, "node.pending.drain", `{}`)
	s.may(n, "skills.bins", `{}`)
	s.mustFail(n, "node.pluginSurface.refresh", `{"surface":"canvas"}`)
	s.mustFail(n, wire.MethodNodeEvent, `{"event":"e","more":1}`)
}

// may has a node call a method, which must succeed.
func (s *story) may(n *sim.Node, method, params string) {
	s.t.Helper()
	if _, err := n.Request(limited(s.t), method, []byte(params)); err != nil {
		s.t.Errorf("%s %s: %v", method, params, err)
	}
}

// mustFail has a node call a method, which must fail.
func (s *story) mustFail(n *sim.Node, method, params string) {
	s.t.Helper()
	if _, err := n.Request(limited(s.t), method, []byte(params)); !errors.As(err, new(*wire.Error)) {
		s.t.Errorf("%s %s: %v", method, params, err)
	}
}

// chats has a bot answer in every way.
func (s *story) chats(n *sim.Node) {
	s.t.Helper()
	s.AddScript(s.t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		switch turn.Text() {
		case "fail":
			return talk.Fail(talk.BotFailed, "I am tired", errors.New("tired"))
		case "wait":
			if err := emit(talk.Text("so ")); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		case "tools":
			return usesTools(ctx, turn, emit)
		}
		return emit(talk.Text("quick"))
	})
	hello := sim.Operator(s.token, wire.ScopeRead)
	hello.Caps = []string{wire.CapSessionScoped}
	scoped, err := s.dial(hello, nil)
	must(s.t, err)
	call[m](scoped, wire.MethodSubscribe, m{"key": "agent:main:s"})
	send := func(id, text string, limit int) {
		call[wire.Run](s.op, wire.MethodChatSend, m{"sessionKey": "agent:main:s", "message": text, "idempotencyKey": id,
			"timeoutMs": limit})
	}
	send("1", "hello", 0)
	s.op.said("1", wire.ChatFinal)
	scoped.said("1", wire.ChatFinal)
	send("1", "hello", 0) // repeated
	send("2", "fail", 0)
	s.op.said("2", wire.ChatError)
	send("3", "wait", 50)
	s.op.said("3", wire.ChatError)
	send("4", "wait", 0)
	s.op.said("4", wire.ChatDelta)
	call[history](s.op, wire.MethodChatHistory, m{"sessionKey": "agent:main:s"})
	call[wire.AbortResult](s.op, wire.MethodChatAbort, m{"sessionKey": "agent:main:s", "runId": "4"})
	s.op.said("4", wire.ChatAborted)
	call[history](s.op, wire.MethodChatHistory, m{"sessionKey": "agent:main:s", "limit": 5})
	call[m](scoped, wire.MethodUnsubscribe, m{"key": "agent:main:s"})
	s.op.refused(wire.MethodChatSend, m{"sessionKey": "s", "message": " ", "idempotencyKey": "5"})
	s.may(n, wire.MethodNodeEvent,
		`{"event":"voice.transcript","payloadJSON":"{\"text\":\"hi\",\"sessionKey\":\"agent:main:s\"}"}`)
	s.op.said("", wire.ChatFinal)
}

// agents calls the method agent, which has two responses.
func (s *story) agents() {
	s.t.Helper()
	for id, text := range map[string]string{"a": "hello", "b": "fail"} {
		answers, stop, err := s.op.StartRequest(s.op.ctx, wire.MethodAgent,
			encode(s.t, m{"message": text, "idempotencyKey": id}))
		must(s.t, err)
		defer stop()
		for range 2 {
			_, err = s.op.AwaitAnswer(s.op.ctx, answers)
			must(s.t, err)
		}
		call[m](s.op, wire.MethodAgentWait, m{"runId": id})
	}
	call[m](s.op, wire.MethodAgentWait, m{"runId": "nobody's", "timeoutMs": 1})
	call[m](s.op, wire.MethodAgentsList, m{})
	s.sessions()
}

// sessions calls what OpenClaw's own programs call around conversations.
func (s *story) sessions() {
	s.t.Helper()
	key := call[m](s.op, wire.MethodSessionCreate, m{"key": "story", "message": "hello"})["key"]
	s.op.said("", wire.ChatFinal)
	list := call[m](s.op, wire.MethodSessionsSubscribe, m{"limit": 5})["list"].(m)
	if list["count"] == 0.0 {
		s.t.Errorf("%v", list)
	}
	call[m](s.op, wire.MethodSessionsList, m{"includeLastMessage": true})
	named := m{"key": key}
	for _, method := range []string{wire.MethodSessionDescribe, wire.MethodSessionResolve, wire.MethodSessionGet,
		wire.MethodSessionCompact, wire.MethodSessionAbort} {
		call[m](s.op, method, named)
	}
	call[m](s.op, wire.MethodSessionPreview, m{"keys": []any{key, "nothing"}})
	call[m](s.op, wire.MethodSessionPatch, m{"key": key, "label": "Story"})
	shows := sim.Operator(s.token, wire.ScopeRead)
	shows.Caps = []string{wire.CapToolEvents}
	_, err := s.dial(shows, nil)
	must(s.t, err)
	call[m](s.op, wire.MethodSessionSend, m{"key": key, "message": "tools", "idempotencyKey": "sent"})
	s.op.said("sent", wire.ChatFinal)
	call[m](s.op, wire.MethodSend, m{"to": key, "message": "hello", "idempotencyKey": "said"})
	admin := s.operator(s.token, wire.ScopeAdmin)
	call[m](admin, wire.MethodChatInject, m{"sessionKey": key, "message": "hello"})
	call[m](s.op, wire.MethodChatStartup, m{"sessionKey": key})
	call[m](s.op, wire.MethodSessionReset, named)
	call[m](s.op, wire.MethodSessionDelete, named)
	for _, method := range []string{wire.MethodAgentIdentity, wire.MethodChatMetadata, wire.MethodToolsCatalog,
		wire.MethodCommandsList, wire.MethodModelsList, wire.MethodQuestionList, wire.MethodTaskSuggestions} {
		call[m](s.op, method, m{})
	}
	s.approvals()
}

// approvals are about calls that wait for their owner.
func (s *story) approvals() {
	s.t.Helper()
	boss := s.operator(s.token, wire.ScopeRead, wire.ScopeApprovals)
	for _, c := range []struct{ kind, name, list, resolve string }{
		{tool.AskRun, wire.ApprovalExec, wire.MethodExecList, wire.MethodExecResolve},
		{"", wire.ApprovalPlugin, wire.MethodPluginList, wire.MethodPluginResolve},
	} {
		for _, method := range []string{c.resolve, wire.MethodApprovalResolve} {
			id := s.ask(store.Approval{Kind: c.kind, Args: `{"command":["git","status"]}`})
			about := func(p json.RawMessage) bool { return strings.Contains(string(p), id) }
			boss.await(c.name+".approval.requested", about)
			call[[]wire.Approval](boss, c.list, m{})
			call[m](boss, wire.MethodApprovalGet, m{"id": id})
			decision := m{"id": id, "decision": wire.AllowOnce}
			if c.kind != "" {
				call[m](boss, wire.MethodExecGet, m{"id": id})
			}
			if method == wire.MethodApprovalResolve {
				decision["kind"], decision["decision"] = c.name, wire.Deny
			}
			call[m](boss, method, decision)
			boss.await(c.name+".approval.resolved", about)
			call[m](boss, wire.MethodApprovalGet, m{"id": id})
		}
	}
	call[[]wire.Approval](boss, wire.MethodSystemList, m{})
}

// strangers connects clients that are refused.
func (s *story) strangers(taken wire.Identity) {
	s.t.Helper()
	for detail, c := range map[string]struct {
		me     wire.Identity
		change func(*wire.Connect)
		spoil  func(*wire.Connect) // after signing
	}{
		wire.DetailTokenMismatch: {me: wire.NewIdentity(),
			change: func(c *wire.Connect) { c.Auth.Token = "wrong" }},
		wire.DetailTokenMissing: {me: wire.NewIdentity(), change: func(c *wire.Connect) { c.Auth = nil }},
		wire.DetailDeviceToken: {me: wire.NewIdentity(),
			change: func(c *wire.Connect) { c.Auth = &wire.Auth{DeviceToken: "wrong"} }},
		wire.DetailIdentity: {},
		wire.DetailPairing:  {me: wire.NewIdentity()},
		wire.DetailProtocol: {me: wire.NewIdentity(),
			change: func(c *wire.Connect) { c.MinProtocol, c.MaxProtocol = 5, 6 }},
		"AUTH_UNAUTHORIZED": {me: taken, change: func(c *wire.Connect) { c.Auth.Token = s.bobs }},
		"DEVICE_AUTH_SIGNATURE_INVALID": {me: wire.NewIdentity(),
			spoil: func(c *wire.Connect) { c.Device.Signature = strings.Repeat("A", 86) }},
		"": {change: func(c *wire.Connect) { c.Role = "cook" }},
	} {
		ws, challenge := s.raw()
		hello := sim.Operator(s.token)
		hello.Role, hello.Client.ID, hello.Client.Mode = wire.RoleNode, wire.ClientNode, wire.ModeNode
		if c.change != nil {
			c.change(&hello)
		}
		if c.me.ID() != "" {
			c.me.Sign(&hello, challenge)
		}
		if c.spoil != nil {
			c.spoil(&hello)
		}
		must(s.t, ws.Write(limited(s.t), websocket.MessageText,
			wire.AppendRequest(nil, "x", wire.MethodConnect, encode(s.t, hello))))
		if f, _ := last(s.t, ws); f == nil || f.Error == nil || f.Error.Detail() != detail {
			s.t.Errorf("%q: %+v", detail, f)
		}
	}
	s.wantsMore()
}

// wantsMore connects an operator that requests more scopes than its device token has.
func (s *story) wantsMore() {
	s.t.Helper()
	me := wire.NewIdentity()
	hello := sim.Operator(s.token, wire.ScopeRead)
	var e *wire.Error
	if _, err := s.dial(hello, &me); !errors.As(err, &e) || e.Detail() != wire.DetailPairing {
		s.t.Fatal(err)
	}
	request := decoded[wire.DeviceRequest](s.t, s.op.await(wire.EventDeviceRequested,
		func(p json.RawMessage) bool { return decoded[wire.DeviceRequest](s.t, p).DeviceID == me.ID() })).RequestID
	call[wire.ApprovedDevice](s.boss, wire.MethodDeviceApprove, m{"requestId": request})
	o, err := s.dial(hello, &me)
	must(s.t, err)
	hello.Auth, hello.Scopes = &wire.Auth{Token: o.Hello.Auth.DeviceToken}, []string{wire.ScopeWrite}
	if _, err := s.dial(hello, &me); !errors.As(err, &e) || e.Detail() != wire.DetailScopeMismatch {
		s.t.Error(err)
	}
	hello.Auth.Token = s.token
	if _, err := s.dial(hello, &me); !errors.As(err, &e) || e.Detail() != wire.DetailPairing {
		s.t.Error(err)
	}
	s.op.await(wire.EventDeviceRequested, func(p json.RawMessage) bool {
		return decoded[wire.DeviceRequest](s.t,
			p).Repair
	})
}

// ends disconnects the node, and stops the gateway.
func (s *story) ends(n *sim.Node) {
	s.t.Helper()
	n.Close()
	must(s.t, awaitRow(s.op, n.ID(), func(d wire.NodeDetail) bool { return !d.Connected }))
	s.op.refused(wire.MethodNodeInvoke, invokeParams(n.ID(), "kitchen.echo", nil))
	call[m](s.op, wire.MethodNodeRemove, m{"nodeId": n.ID()})
	must(s.t, s.g.Shutdown(limited(s.t)))
	s.op.await(wire.EventShutdown, nil)
	if e := awaitClose(s.t, s.op.Client); int(e.Code) != wire.CloseRestart {
		s.t.Error(e)
	}
}
