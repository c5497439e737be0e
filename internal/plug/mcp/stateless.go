package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// The _meta keys of the stateless era (2026-07-28 basic/index, "_meta").
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLevel        = "io.modelcontextprotocol/logLevel"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// isStatelessMessage reports whether a message can only belong to the stateless era.
func isStatelessMessage(m *jsonrpc.Message) bool {
	if m.Method == "server/discover" || m.Method == "subscriptions/listen" {
		return true
	}
	return jsonrpc.Member(jsonrpc.Member(m.Params, "_meta"), metaVersion) != nil
}

// postStateless answers a message that belongs to no session.
func (s *Server) postStateless(w http.ResponseWriter, r *http.Request, c caller, m *jsonrpc.Message) {
	if !m.IsRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	streams := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	x := &exchange{server: s, access: c.access, principal: c.principal, choice: c.choice, trace: c.trace,
		msg: *m, level: levelOff}
	x.readMeta()
	if e := x.applyClientMeta(r.Header); e != nil {
		s.metrics.refused.WithLabelValues("message").Inc()
		writeJSON(w, statusOf(e), jsonrpc.AppendError(nil, m.ID, e))
		return
	}
	if c.lacksDangerous(m) && s.challengeCall(w, r, x) {
		return
	}
	if m.Method == "subscriptions/listen" {
		x.openSubscription(w, r, c)
		return
	}
	in := r.Context() // the work ends with the connection
	if isLongRunning(m.Method) {
		within, release := s.withKeyLifetime(in, c)
		defer release()
		in = within
	}
	ctx, cancel := context.WithCancel(in)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	rep := &reply{w: w, acceptsStream: streams, keepAliveInterval: s.KeepAlive}
	if streams {
		x.out = rep
	}
	if isLongRunning(m.Method) {
		rep.startKeepAlive()
	}
	msg, e := x.answer(ctx)
	rep.answer(statusOf(e), msg)
}

// statusOf returns the HTTP status of a response in the stateless era (2026-07-28
// basic/transports/streamable-http, "Sending Messages" and "Server Validation").
func statusOf(e *jsonrpc.Error) int {
	if e == nil {
		return http.StatusOK
	}
	switch e.Code {
	case jsonrpc.MethodNotFound:
		return http.StatusNotFound
	case jsonrpc.InvalidParams, jsonrpc.InvalidRequest, jsonrpc.ParseError, codeHeaderMismatch, codeMissingCapability,
		codeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// applyClientMeta reads the client's version and capabilities from the request and validates its
// headers against its body: proxies that route by headers must see what the server sees (2026-07-28
// basic/transports/streamable-http, "Request Metadata").
func (x *exchange) applyClientMeta(h http.Header) *jsonrpc.Error {
	var version, client, capabilities, level json.RawMessage
	for in := jsonrpc.Scan(x.meta.raw); in.Next(); {
		switch string(in.Key) {
		case metaVersion:
			version = in.Value
		case metaClient:
			client = in.Value
		case metaCapabilities:
			capabilities = in.Value
		case metaLevel:
			level = in.Value
		}
	}
	x.version = jsonrpc.Text(version)
	header := h.Get("Mcp-Protocol-Version")
	switch {
	case x.version == "":
		return invalid("_meta is missing, or has no %s", metaVersion)
	case header == "":
		return headerMismatch("the header MCP-Protocol-Version is missing")
	case header != x.version:
		return headerMismatch("the header MCP-Protocol-Version says %q, the body %q", header, x.version)
	case x.version != statelessVersion:
		data := encode(map[string]any{"supported": []string{statelessVersion}, "requested": x.version})
		return &jsonrpc.Error{Code: codeUnsupportedVersion, Message: "Unsupported protocol version", Data: data}
	case !isObject(capabilities):
		return invalid("_meta has no %s", metaCapabilities)
	}
	x.abilities = abilities(capabilities)
	x.abilities.Tasks = declaresTasks(capabilities) && offersTasks(x.access.Channel)
	if level != nil {
		x.level = levelOf(jsonrpc.Text(level))
	}
	var info struct{ Name, Version string }
	if json.Unmarshal(client, &info) == nil {
		x.access.Program = strings.TrimSpace(info.Name + " " + info.Version)
	}
	return x.checkHeaders(h)
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

func headerMismatch(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: codeHeaderMismatch, Message: fmt.Sprintf(format, args...)}
}

// checkHeaders validates the headers that repeat parts of the body (2026-07-28
// basic/transports/streamable-http, "Standard Request Headers").
func (x *exchange) checkHeaders(h http.Header) *jsonrpc.Error {
	if got := h.Get("Mcp-Method"); got != x.msg.Method {
		return headerMismatch("the header Mcp-Method says %q, the body %q", got, x.msg.Method)
	}
	name := ""
	switch x.msg.Method {
	case "tools/call", "prompts/get":
		name = x.text("name")
	case "resources/read":
		name = x.text("uri")
	case "tasks/get", "tasks/update", "tasks/cancel":
		name = x.text("taskId")
	default:
		return nil
	}
	if got, ok := decodeHeader(h.Get("Mcp-Name")); !ok || got != name {
		return headerMismatch("the header Mcp-Name says %q, the body %q", got, name)
	}
	if x.msg.Method != "tools/call" {
		return nil
	}
	v, e := x.view()
	if e != nil {
		return e
	}
	t := v.Tool(name)
	if t == nil {
		return nil
	}
	for _, m := range t.MirroredArguments() {
		if e := x.checkParamHeader(h, m); e != nil {
			return e
		}
	}
	return nil
}

// checkParamHeader validates the header that repeats one argument (2026-07-28
// basic/transports/streamable-http, "Server Behavior for Custom Headers").
func (x *exchange) checkParamHeader(h http.Header, m hub.MirroredArgument) *jsonrpc.Error {
	value := x.param("arguments")
	for _, name := range m.Path {
		var inner json.RawMessage
		for in := jsonrpc.Scan(value); in.Next(); {
			if string(in.Key) == name {
				inner = in.Value
			}
		}
		value = inner
	}
	name := "Mcp-Param-" + m.Header
	got, there := h[http.CanonicalHeaderKey(name)]
	absent := value == nil || string(value) == "null"
	switch {
	case absent && !there:
		return nil
	case absent || !there || len(got) != 1:
		return headerMismatch("the header %s and the argument %s do not agree", name, strings.Join(m.Path, "."))
	}
	text, ok := decodeHeader(got[0])
	if !ok || !sameValue(value, text) {
		return headerMismatch("the header %s and the argument %s do not agree", name, strings.Join(m.Path, "."))
	}
	return nil
}

// decodeHeader returns the value of a header, decoded if it is base64, which carries characters
// that headers cannot contain (2026-07-28 basic/transports/streamable-http, "Value Encoding"). It
// returns false for invalid base64.
func decodeHeader(v string) (string, bool) {
	inner, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v, true
	}
	inner, ok = strings.CutSuffix(inner, "?=")
	if !ok {
		return v, true
	}
	text, err := base64.StdEncoding.Strict().DecodeString(inner)
	return string(text), err == nil
}

// sameValue reports whether a JSON value and the text of a header are equal.
func sameValue(value json.RawMessage, text string) bool {
	switch value[0] {
	case '"':
		return jsonrpc.Text(value) == text
	case 't', 'f':
		return string(value) == text
	case '{', '[':
		return false
	}
	const exact = 1 << 53 // largest range in which float64 holds all integers
	a, err1 := strconv.ParseFloat(string(value), 64)
	b, err2 := strconv.ParseFloat(text, 64)
	return err1 == nil && err2 == nil && a == b && math.Abs(a) < exact
}

// discover returns the server's name, revisions and capabilities (2026-07-28 server/discover).
func (x *exchange) discover(context.Context) ([]byte, *jsonrpc.Error) {
	o := x.beginResult(1024, true)
	o.raw("supportedVersions", encode(append([]string{statelessVersion}, revisions...)))
	f := x.server.serverInfo(x.access.Channel).withApps(x.abilities)
	can := json.RawMessage(f.capabilities)
	if offersTasks(x.access.Channel) {
		extensions := jsonrpc.Member(can, "extensions")
		if extensions == nil {
			extensions = []byte("{}")
		}
		can = jsonrpc.With(can, "extensions", jsonrpc.With(extensions, tasksExtension, []byte("{}")))
	}
	o.raw("capabilities", can)
	o.text("instructions", f.instructions)
	return x.endResult(o, nil), nil
}

// stateTTL is how long a person may take to answer a provider's question.
const stateTTL = time.Hour

// requestState is the state of a call that waits for input, as carried by the client.
type requestState struct {
	State string `json:"s"`
	Name  string `json:"n"` // tool or prompt
	Until int64  `json:"u"` // Unix seconds
}

// encodeRequests encodes what a provider asks. Params are always there: the Go SDK 1.8.0 refuses
// the result otherwise (mcp/protocol.go, InputRequestMap.UnmarshalJSON), and servers ask for roots
// without any.
func encodeRequests(asked map[string]tool.Request) json.RawMessage {
	list := make(map[string]tool.Request, len(asked))
	for id, r := range asked {
		if len(r.Params) == 0 {
			r.Params = json.RawMessage(`{}`)
		}
		list[id] = r
	}
	return encode(list)
}

// inputRequired returns a result that lists the input a provider needs to continue (2026-07-28
// basic/patterns/mrtr).
func (x *exchange) inputRequired(name string, n *tool.InputRequired) []byte {
	o := object{append([]byte{}, `{"resultType":"input_required"`...)}
	if len(n.Requests) > 0 {
		o.raw("inputRequests", encodeRequests(n.Requests))
	}
	if n.State != "" || len(n.Requests) == 0 {
		text := base64.RawURLEncoding.EncodeToString(encode(requestState{n.State, name,
			time.Now().Add(stateTTL).Unix()}))
		o.text("requestState", text+"."+x.server.sign("state", text, x.access.Person, x.access.Key))
	}
	return x.endResult(o, nil)
}

// readInputResponses reads the client's answers to a provider's questions.
func (x *exchange) readInputResponses(name string, c *tool.Call) *jsonrpc.Error {
	if !x.isStateless() {
		return nil
	}
	for in := jsonrpc.Scan(x.msg.Params); in.Next(); {
		switch string(in.Key) {
		case "inputResponses":
			if json.Unmarshal(in.Value, &c.Answers) != nil || c.Answers == nil {
				return invalid("inputResponses must be an object")
			}
		case "requestState":
			state, err := x.verifyState(jsonrpc.Text(in.Value), name)
			if err != nil {
				return invalid("requestState: %s", err)
			}
			c.State = state
		}
	}
	return nil
}

var errBadState = errors.New("it is not what was given out for this call")

func (x *exchange) verifyState(text, name string) (string, error) {
	text, signature, _ := strings.Cut(text, ".")
	if !x.server.verifySignature(signature, "state", text, x.access.Person, x.access.Key) {
		return "", errBadState
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var c requestState
	if err != nil || json.Unmarshal(raw, &c) != nil || c.Name != name {
		return "", errBadState
	}
	if time.Now().Unix() > c.Until {
		return "", errors.New("it is too old; call again without it")
	}
	return c.State, nil
}

// openSubscription sends the client the notifications it subscribes to until it disconnects
// (2026-07-28 basic/patterns/subscriptions).
func (x *exchange) openSubscription(w http.ResponseWriter, r *http.Request, c caller) {
	s := x.server
	s.metrics.requests.WithLabelValues(x.access.Channel, x.msg.Method).Inc()
	want, e := x.readWanted()
	var v *hub.View
	if e == nil {
		v, e = x.view()
	}
	if e != nil {
		writeJSON(w, statusOf(e), jsonrpc.AppendError(nil, x.msg.ID, e))
		return
	}
	stream, ok := s.beginStream(w, c)
	if !ok {
		return
	}
	l := newListener(x.access, v)
	l.only = x.choice.only
	l.tools, l.prompts, l.resources = want.Tools, want.Prompts, want.Resources
	x.watchTasks(l, want.TaskIDs)
	for _, uri := range want.URIs {
		_ = x.watch(stream.ctx, l, uri) // a provider that refuses reports no changes
	}
	meta := []byte(`{"` + metaSubscription + `":` + string(x.msg.ID) + `}`)
	ack := object{[]byte{'{'}}
	ack.raw("_meta", meta)
	ack.raw("notifications", encode(want))
	begin := jsonrpc.AppendRequest(nil, nil, "notifications/subscriptions/acknowledged", append(ack.b, '}'))
	end := jsonrpc.AppendResult(nil, x.msg.ID, x.endResult(x.beginResult(128, false), meta))
	stream.serve(w, r, func(out *sseWriter) {
		defer l.close()
		defer s.listeners.add(l, stream.cancel)()
		if out.writeEvent("message", "", begin) != nil {
			return
		}
		s.writeNotifications(stream.ctx, out, l, meta)
		if s.stopping.Load() { // the server ends the stream
			out.writeEvent("message", "", end) //nolint:errcheck // the client has disconnected
		}
	})
}

// wantedNotifications are the notifications that a client subscribes to.
type wantedNotifications struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	TaskIDs   []string `json:"taskIds,omitempty"`
}

// readWanted returns the notifications that the request names and the caller may have.
func (x *exchange) readWanted() (want wantedNotifications, e *jsonrpc.Error) {
	raw := x.param("notifications")
	if !isObject(raw) || json.Unmarshal(raw, &want) != nil {
		return want, invalid("notifications is missing: what is wanted?")
	}
	if x.access.Channel == channelLearn {
		want.Prompts, want.Resources, want.URIs = false, false, nil // this channel has none
	}
	if len(want.TaskIDs) > 0 && !x.abilities.Tasks {
		return want, errNeedsTasks
	}
	want.TaskIDs = x.ownTasks(want.TaskIDs)
	want.URIs = slices.Compact(want.URIs[:min(len(want.URIs), maxSubscriptions)])
	return want, nil
}
