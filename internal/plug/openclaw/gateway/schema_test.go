package gateway_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
)

// publishedSchema is the path of OpenClaw's schema, for the names of its definitions.
const publishedSchema = "../../../../test/peers/openclaw/node_modules/@openclaw/gateway-protocol/protocol.schema.json"

// Responses and events that the schema does not define. The definitions of the others are named
// like NodeEventResult and TickEvent.
var (
	unpublishedResults = []string{
		wire.MethodStatus, wire.MethodNodeList, wire.MethodNodeDescribe, wire.MethodNodeInvoke, wire.MethodNodeRename,
		wire.MethodNodePairList,
		wire.MethodNodeApprove, wire.MethodNodeReject, wire.MethodNodeRemove, wire.MethodDevicePairList,
		wire.MethodDeviceApprove, wire.MethodDeviceReject,
		wire.MethodDeviceRemove, wire.MethodDeviceRename, wire.MethodTokenRevoke,
		wire.MethodAgent, wire.MethodAgentWait, wire.MethodChatSend, wire.MethodChatAbort,
		wire.MethodChatHistory,
		wire.MethodSessionsList, wire.MethodSubscribe, wire.MethodUnsubscribe, wire.MethodInvokeResult,
		wire.MethodInvokeProgress, wire.MethodPluginTools,
		wire.MethodSkills, wire.MethodRunnerInventory, "node.pluginSurface.refresh", "node.pending.pull",
		"node.pending.ack",
		wire.MethodHealth, wire.MethodSystemPresence, // but see published
		wire.MethodChatStartup, wire.MethodChatMetadata, wire.MethodChatInject, wire.MethodSend,
		wire.MethodSessionsSubscribe, wire.MethodSessionDescribe, wire.MethodSessionGet, wire.MethodSessionPreview,
		wire.MethodSessionPatch, wire.MethodSessionReset, wire.MethodSessionSend, wire.MethodSessionAbort,
		wire.MethodSessionCompact, wire.MethodAgentIdentity, // but see published
		wire.MethodExecList, wire.MethodExecGet, wire.MethodExecResolve,
		wire.MethodPluginList, wire.MethodPluginResolve, wire.MethodSystemList,
		wire.MethodExecPolicyGet, wire.MethodExecPolicySet, wire.MethodNodeExecPolicyGet,
		wire.MethodNodeExecPolicySet,         // but see published
		gateway.MethodNotificationsSubscribe, // Patchbay's own
	}
	unpublishedEvents = []string{
		wire.EventChallenge, wire.EventNodeRequested, wire.EventNodeResolved, wire.EventHostStats,
		wire.EventHealth, wire.EventPresence, // but see published
		wire.EventSessionMessage, wire.EventSessionsChanged, wire.EventSessionTool,
		wire.EventExecRequested, wire.EventExecResolved, wire.EventPluginRequested, wire.EventPluginResolved,
		gateway.EventNotification, // Patchbay's own
	}
	// unpublishedParams are the methods whose parameters the schema does not define.
	unpublishedParams = []string{
		wire.MethodHealth, wire.MethodStatus, wire.MethodSystemPresence, wire.MethodRunnerInventory,
		"node.pluginSurface.refresh", "node.pending.pull",
		wire.MethodSessionsSubscribe, wire.MethodSessionGet, wire.MethodChatStartup, wire.MethodAgentIdentity,
		wire.MethodExecList, wire.MethodPluginList, wire.MethodSystemList,
		gateway.MethodNotificationsSubscribe,
	}
)

// published are definitions of parts of a payload, or with other names.
var published = []struct{ kind, path, definition string }{
	{"result connect", "", "HelloOk"},
	{"result health", "", "Snapshot/properties/health"},
	{"event health", "", "Snapshot/properties/health"},
	{"result system-presence", "*", "PresenceEntry"},
	{"event presence", "presence.*", "PresenceEntry"},
	{"result node.list", "nodes.*.nodePluginTools.*", "NodePluginToolDescriptor"},
	{"result node.describe", "nodePluginTools.*", "NodePluginToolDescriptor"},
	{"result node.pluginTools.update", "tools.*", "NodePluginToolDescriptor"},
	{"result agent.identity.get", "", "AgentIdentityResult"},
	{"result sessions.list", "sessions.*", "SessionRow"},
	{"result sessions.describe", "session", "SessionRow"},
	{"result device.pair.list", "pending.*", "DevicePairRequestedEvent"},
	{"result exec.approvals.get", "", "ExecApprovalsSnapshot"},
	{"result exec.approvals.node.get", "", "ExecApprovalsNodeSnapshot"},
	{"refused MISSING_SCOPE", "", "MissingScopeErrorDetails"},
}

// deviation is a difference between the frames of OpenClaw's gateway and its own schema. Patchbay's
// gateway has it too, because programs expect it.
type deviation struct {
	kind, definition, why string
	// mend changes a value to match the schema. It reports whether it changed anything.
	mend func(map[string]any) bool
}

var deviations = []deviation{
	{"event agent", "AgentEvent", "it says of which conversation the run is", without("sessionKey")},
	{"event agent", "AgentEvent", "it says whose run it is", without("agentId")},
	{"event node.invoke.request", "NodeInvokeRequestEvent", "it says for which conversation the node works",
		without("sessionKey")},
	{"event node.invoke.request", "NodeInvokeRequestEvent", "no parameters are null", func(v map[string]any) bool {
		if p, there := v["paramsJSON"]; !there || p != nil {
			return false
		}
		delete(v, "paramsJSON")
		return true
	}},
	{"event presence", "PresenceEntry", "it says which program it is", without("clientId")},
	{"result system-presence", "PresenceEntry", "it says which program it is", without("clientId")},
	{"result node.event", "NodeEventResult",
		"of events that something may come of later it says no more than that they came", func(v map[string]any) bool {
			if len(v) != 1 || v["ok"] != true {
				return false
			}
			v["event"], v["handled"] = "it", true
			return true
		}},
	{"frame", "ResponseFrame", "what is no request is answered under the id that it came with, whatever that is",
		func(v map[string]any) bool {
			if _, number := v["id"].(float64); !number {
				return false
			}
			v["id"] = "it"
			return true
		}},
}

func without(name string) func(map[string]any) bool {
	return func(v map[string]any) bool {
		_, there := v[name]
		delete(v, name)
		return there
	}
}

// knownNames are all kinds of frames in the story. If one is missing, the story is incomplete.
var knownNames = strings.Fields(`
	event:connect.challenge event:tick event:health event:presence event:shutdown event:agent
	event:chat:status event:chat:delta event:chat:final event:chat:aborted event:chat:error
	event:device.pair.requested event:device.pair.resolved event:node.pair.requested event:node.pair.resolved
	event:node.invoke.request event:node.hostStats event:mcp.notification
	event:session.tool event:exec.approval.requested event:exec.approval.resolved
	event:plugin.approval.requested event:plugin.approval.resolved

	result:connect result:health result:status result:system-presence result:agents.list result:sessions.list
	result:node.list result:node.describe result:node.invoke result:node.rename
	result:exec.approvals.get result:exec.approvals.node.get result:exec.approvals.node.set
	result:exec.approval.list result:exec.approval.get result:exec.approval.resolve result:plugin.approval.list
	result:plugin.approval.resolve result:openclaw.approval.list result:approval.get result:approval.resolve
	result:node.pair.list result:node.pair.approve result:node.pair.reject result:node.pair.remove
	result:device.pair.list result:device.pair.approve result:device.pair.reject result:device.pair.remove
	result:device.pair.rename result:device.pair.setupCode result:device.token.rotate result:device.token.revoke
	result:agent:accepted result:agent:ok result:agent:error result:agent.wait
	result:chat.send result:chat.abort result:chat.history
	result:sessions.messages.subscribe result:sessions.messages.unsubscribe result:notices.subscribe
	result:node.invoke.result result:node.invoke.progress result:node.event result:node.pluginTools.update result:node.skills.update
	result:node.runnerInventory.update result:node.pending.pull result:node.pending.ack result:node.pending.drain result:skills.bins

	refused:connect:PAIRING_REQUIRED refused:connect:AUTH_TOKEN_MISMATCH refused:connect:AUTH_TOKEN_MISSING refused:connect:AUTH_DEVICE_TOKEN_MISMATCH
	refused:connect:AUTH_SCOPE_MISMATCH refused:connect:DEVICE_IDENTITY_REQUIRED refused:connect:AUTH_UNAUTHORIZED refused:connect:PROTOCOL_MISMATCH
	refused:connect:DEVICE_AUTH_SIGNATURE_INVALID refused:connect:INVALID_REQUEST
	refused:node.invoke:MISSING_SCOPE refused:node.invoke:PAIRING_CHANGED refused:node.invoke:NOT_CONNECTED refused:node.invoke:UNAVAILABLE
	refused:node.invoke:INVALID_REQUEST refused:node.list:INVALID_REQUEST refused:node.event:PAIRING_CHANGED refused:node.event:INVALID_REQUEST
	refused:node.runnerInventory.update:UNAVAILABLE refused:node.pluginSurface.refresh:UNAVAILABLE refused:node.invoke.result:INVALID_REQUEST
	refused:device.token.revoke:INVALID_REQUEST
	refused:exec.approvals.set:INVALID_REQUEST refused:exec.approvals.node.get:MISSING_SCOPE
	refused:device.pair.approve:INVALID_REQUEST refused:chat.send:INVALID_REQUEST refused:what.ever:INVALID_REQUEST refused:?:INVALID_REQUEST`)

// All frames for clients match the published schema.
func TestPublishedFrames(t *testing.T) {
	c := newChecker(t)
	r := newRig(t, quick)
	l := r.listenIn()
	tellStory(t, r)
	for _, f := range l.heard() {
		if f.up {
			c.asked(f)
		} else {
			c.told(f)
		}
	}
	c.conclude()
}

// checker checks frames with the schema.
type checker struct {
	t       *testing.T
	schema  *openclawtest.Schema
	has     map[string]bool // definitions
	methods map[string]string
	params  map[string]json.RawMessage
	greeted map[int]wire.Features
	seen    map[string]int
	within  map[string]int // number by kind and path of published
	used    map[int]int    // number by index of deviations
	known   map[string]bool
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	c := &checker{
		t: t, schema: openclawtest.LoadSchema(t), has: map[string]bool{}, methods: map[string]string{},
		params:  map[string]json.RawMessage{},
		greeted: map[int]wire.Features{}, seen: map[string]int{}, within: map[string]int{}, used: map[int]int{},
		known: map[string]bool{},
	}
	data, err := os.ReadFile(publishedSchema)
	must(t, err)
	for name := range decoded[struct {
		Definitions map[string]json.RawMessage `json:"definitions"`
	}](t, data).Definitions {
		c.has[name] = true
	}
	return c
}

// defined returns the name of a definition: NodeEventResult for node.event and Result.
func defined(name, suffix string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == '-' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String() + suffix
}

// asked records a request. Its parameters are checked when it has succeeded.
func (c *checker) asked(f recordedFrame) {
	var req struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(f.data, &req) != nil {
		return
	}
	key := fmt.Sprint(f.conn, string(req.ID))
	if !strings.HasPrefix(string(req.ID), `"`) {
		req.Method = "?"
	}
	c.methods[key], c.params[key] = req.Method, req.Params
}

// told checks a frame for a client.
func (c *checker) told(f recordedFrame) {
	frame := decoded[struct {
		Type    string          `json:"type"`
		Event   string          `json:"event"`
		ID      json.RawMessage `json:"id"`
		OK      bool            `json:"ok"`
		Payload json.RawMessage `json:"payload"`
		Error   struct {
			Code    string          `json:"code"`
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}](c.t, f.data)
	if frame.Type == wire.TypeEvent {
		c.fits("frame", "EventFrame", f.data)
		c.event(f.conn, frame.Event, frame.Payload)
		return
	}
	c.fits("frame", "ResponseFrame", f.data)
	key := fmt.Sprint(f.conn, string(frame.ID))
	method := c.methods[key]
	switch {
	case method == "":
		c.t.Errorf("%s answers nothing", f.data)
	case !frame.OK:
		why := (&wire.Error{Details: frame.Error.Details}).Detail()
		if why == "" {
			why = frame.Error.Code
		}
		c.seen["refused:"+method+":"+why]++
		c.parts("refused "+why, frame.Error.Details)
	default:
		if method == wire.MethodConnect {
			h, err := wire.ParseHello(frame.Payload)
			must(c.t, err)
			c.greeted[f.conn] = h.Features
		}
		c.result(f.conn, method, frame.Payload)
		c.taken(method, c.params[key])
	}
}

// event checks the payload of an event.
func (c *checker) event(conn int, name string, payload json.RawMessage) {
	kind, definition := "event:"+name, defined(name, "Event")
	if name == wire.EventChat {
		state := decoded[wire.ChatEvent](c.t, payload).State
		kind, definition = kind+":"+state, defined(name+"."+state, "Event")
	}
	c.seen[kind]++
	if c.publishes(name, definition, unpublishedEvents) {
		c.fits("event "+name, definition, payload)
	}
	c.parts("event "+name, payload)
	if hello, ok := c.greeted[conn]; ok && !slices.Contains(hello.Events, name) {
		c.once("clients are sent %s, which is not among the events that they are told of", name)
	}
}

// result checks the payload of an answer.
func (c *checker) result(conn int, method string, payload json.RawMessage) {
	kind := "result:" + method
	if method == wire.MethodAgent {
		kind += ":" + decoded[wire.Run](c.t, payload).Status
	}
	c.seen[kind]++
	if method != wire.MethodConnect && c.publishes(method, defined(method, "Result"), unpublishedResults) {
		c.fits("result "+method, defined(method, "Result"), payload)
	}
	c.parts("result "+method, payload)
	if hello := c.greeted[conn]; method != wire.MethodConnect && !slices.Contains(hello.Methods, method) {
		c.once("clients can call %s, which is not among the methods that they are told of", method)
	}
}

// taken checks parameters that the gateway has accepted, so that the story contains only what real
// programs send.
func (c *checker) taken(method string, params json.RawMessage) {
	if len(params) > 0 && c.publishes(method, defined(method, "Params"), unpublishedParams) {
		c.fits("params "+method, defined(method, "Params"), params)
	}
}

// publishes reports whether a definition exists. The test fails if that differs from the list of
// unpublished names.
func (c *checker) publishes(name, definition string, unpublished []string) bool {
	if listed := slices.Contains(unpublished, name); listed == c.has[definition] {
		c.once("there is a definition %s: %t, and the test says otherwise", definition, c.has[definition])
		return false
	}
	return c.has[definition]
}

// parts checks parts of a payload.
func (c *checker) parts(kind string, payload json.RawMessage) {
	for _, p := range published {
		if p.kind != kind {
			continue
		}
		for _, piece := range pieces(decoded[any](c.t, payload), p.path) {
			c.within[p.kind+p.path]++
			c.fits(kind, p.definition, encode(c.t, piece))
		}
	}
}

// pieces returns the values at a path, in which * stands for every element of a list.
func pieces(v any, path string) []any {
	if path == "" {
		return []any{v}
	}
	first, rest, _ := strings.Cut(path, ".")
	if first != "*" {
		members, _ := v.(map[string]any)
		return pieces(members[first], rest)
	}
	var all []any
	elements, _ := v.([]any)
	for _, e := range elements {
		all = append(all, pieces(e, rest)...)
	}
	return all
}

// fits checks a value with a definition, except for known deviations.
func (c *checker) fits(kind, definition string, value json.RawMessage) {
	err := c.schema.Check(c.t, definition, value)
	if err == nil {
		return
	}
	// mended returns the value without all its deviations but one, and their indexes.
	mended := func(but int) (rest json.RawMessage, used []int) {
		var members map[string]any
		if json.Unmarshal(value, &members) != nil {
			return value, nil
		}
		for i, d := range deviations {
			if i != but && d.kind == kind && d.definition == definition && d.mend(members) {
				used = append(used, i)
			}
		}
		return encode(c.t, members), used
	}
	if rest, used := mended(-1); c.schema.Check(c.t, definition, rest) == nil {
		for _, i := range used {
			if rest, _ := mended(i); c.schema.Check(c.t, definition, rest) != nil {
				c.used[i]++
			}
		}
		return
	}
	if said := kind + err.Error(); !c.known[said] {
		c.known[said] = true
		c.t.Errorf("%s: %s is no %s: %v", kind, value, definition, err)
	}
}

// once reports an error once.
func (c *checker) once(format string, args ...any) {
	if said := fmt.Sprintf(format, args...); !c.known[said] {
		c.known[said] = true
		c.t.Error(said)
	}
}

// conclude fails if something that the test is about did not occur.
func (c *checker) conclude() {
	for _, kind := range knownNames {
		if c.seen[kind] == 0 {
			c.t.Errorf("no %s came", kind)
		}
	}
	for _, p := range published {
		if c.within[p.kind+p.path] == 0 {
			c.t.Errorf("%s has nothing at %q", p.kind, p.path)
		}
	}
	for i, d := range deviations {
		if c.used[i] == 0 {
			c.t.Errorf("%s keeps to %s now: that %s is no deviation", d.kind, d.definition, d.why)
		}
	}
	for _, list := range []struct {
		of     string
		names  []string
		suffix string
	}{{"results", unpublishedResults, "Result"}, {"events", unpublishedEvents,
		"Event"}, {"parameters", unpublishedParams, "Params"}} {
		for _, name := range list.names {
			if c.has[defined(name, list.suffix)] {
				c.once("%s of %s are published", list.of, name)
			}
		}
	}
	for _, hello := range c.greeted {
		for _, method := range hello.Methods {
			c.publishes(method, defined(method, "Result"), unpublishedResults)
			c.mustCome(method, "result:"+method, "refused:"+method)
		}
		for _, event := range hello.Events {
			c.mustCome(event, "event:"+event)
		}
	}
}

// mustCome fails if an announced method or event does not occur in the story.
func (c *checker) mustCome(what string, kinds ...string) {
	for kind := range c.seen {
		for _, k := range kinds {
			if kind == k || strings.HasPrefix(kind, k+":") {
				return
			}
		}
	}
	c.once("clients are told of %s, which is not in the story", what)
}
