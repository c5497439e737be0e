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

	"patchbay/internal/board"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// The names of what every request of the stateless era carries in its _meta.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLevel        = "io.modelcontextprotocol/logLevel"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// speaksStateless says whether a message can only be of the stateless era.
func speaksStateless(m *jsonrpc.Message) bool {
	if m.Method == "server/discover" || m.Method == "subscriptions/listen" {
		return true
	}
	x := exchange{msg: *m}
	for in := jsonrpc.Scan(x.param("_meta")); in.Next(); {
		if string(in.Key) == metaVersion {
			return true
		}
	}
	return false
}

// postStateless answers a message that stands for itself.
func (s *Server) postStateless(w http.ResponseWriter, r *http.Request, c caller, m *jsonrpc.Message) {
	if !m.Call() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	streams := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	x := &exchange{server: s, access: c.access, msg: *m, level: levelOff}
	x.readMeta()
	if e := x.declared(r.Header); e != nil {
		s.metrics.refused.WithLabelValues("message").Inc()
		writeJSON(w, statusOf(e), jsonrpc.AppendError(nil, m.ID, e))
		return
	}
	// The end of the connection is the end of the work.
	in := r.Context()
	switch {
	case m.Method == "subscriptions/listen":
		within, leave, ok := s.stream(in, c)
		defer leave()
		if !ok {
			s.tooManyStreams(w)
			return
		}
		in = within
	case lasting(m.Method):
		within, leave := s.working(in, c)
		defer leave()
		in = within
	}
	ctx, cancel := context.WithCancel(in)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	if m.Method == "subscriptions/listen" {
		x.serveSubscription(ctx, cancel, w, c.hash)
		return
	}
	rep := &reply{w: w, streams: streams, every: s.KeepAlive}
	if streams {
		x.out = rep
	}
	if lasting(m.Method) {
		rep.patient()
	}
	msg, e := x.answer(ctx)
	rep.answer(statusOf(e), msg)
}

// statusOf is the HTTP status of an answer in the stateless era.
func statusOf(e *jsonrpc.Error) int {
	if e == nil {
		return http.StatusOK
	}
	switch e.Code {
	case jsonrpc.MethodNotFound:
		return http.StatusNotFound
	case jsonrpc.InvalidParams, jsonrpc.InvalidRequest, jsonrpc.ParseError, codeHeaderMismatch, codeNeedsAbility, codeVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// declared takes what the request says about its sender, and holds its headers
// against its body: whoever routes by headers must see what we do.
func (x *exchange) declared(h http.Header) *jsonrpc.Error {
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
		return mismatch("the header MCP-Protocol-Version is missing")
	case header != x.version:
		return mismatch("the header MCP-Protocol-Version says %q, the body %q", header, x.version)
	case x.version != stateless:
		data := encode(map[string]any{"supported": []string{stateless}, "requested": x.version})
		return &jsonrpc.Error{Code: codeVersion, Message: "Unsupported protocol version", Data: data}
	case !isObject(capabilities):
		return invalid("_meta has no %s", metaCapabilities)
	}
	x.can = abilities(capabilities)
	if level != nil {
		x.level = levelOf(jsonrpc.Text(level))
	}
	var info struct{ Name, Version string }
	if json.Unmarshal(client, &info) == nil {
		x.access.Program = strings.TrimSpace(info.Name + " " + info.Version)
	}
	return x.mirrors(h)
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

func mismatch(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: codeHeaderMismatch, Message: fmt.Sprintf(format, args...)}
}

// mirrors holds the headers that repeat parts of the body against them.
func (x *exchange) mirrors(h http.Header) *jsonrpc.Error {
	if got := h.Get("Mcp-Method"); got != x.msg.Method {
		return mismatch("the header Mcp-Method says %q, the body %q", got, x.msg.Method)
	}
	name := ""
	switch x.msg.Method {
	case "tools/call", "prompts/get":
		name = x.text("name")
	case "resources/read":
		name = x.text("uri")
	default:
		return nil
	}
	if got, ok := plainHeader(h.Get("Mcp-Name")); !ok || got != name {
		return mismatch("the header Mcp-Name says %q, the body %q", got, name)
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
	for _, m := range t.Mirrored() {
		if e := x.mirror(h, m); e != nil {
			return e
		}
	}
	return nil
}

// mirror holds one argument against its header.
func (x *exchange) mirror(h http.Header, m board.Mirrored) *jsonrpc.Error {
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
		return mismatch("the header %s and the argument %s do not agree", name, strings.Join(m.Path, "."))
	}
	text, ok := plainHeader(got[0])
	if !ok || !sameValue(value, text) {
		return mismatch("the header %s and the argument %s do not agree", name, strings.Join(m.Path, "."))
	}
	return nil
}

// plainHeader is the value of a header, which may be in base64 if it has
// characters that headers cannot have. It is false for broken base64.
func plainHeader(v string) (string, bool) {
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

// sameValue says whether a JSON value and the text of a header are the same.
func sameValue(value json.RawMessage, text string) bool {
	switch value[0] {
	case '"':
		return jsonrpc.Text(value) == text
	case 't', 'f':
		return string(value) == text
	case '{', '[':
		return false
	}
	const exact = 1 << 53 // beyond, numbers are not what they look like
	a, err1 := strconv.ParseFloat(string(value), 64)
	b, err2 := strconv.ParseFloat(text, 64)
	return err1 == nil && err2 == nil && a == b && math.Abs(a) < exact
}

// discover tells what the server is, and what it speaks.
func (x *exchange) discover(context.Context) ([]byte, *jsonrpc.Error) {
	o := x.begin(1024, true)
	o.raw("supportedVersions", encode(append([]string{stateless}, revisions...)))
	f := x.server.face(x.access.Door)
	o.raw("capabilities", []byte(f.capabilities))
	o.text("instructions", f.instructions)
	return x.end(o, nil), nil
}

// stateLife is how long a person may take to answer what a provider asked.
const stateLife = time.Hour

// carried is the state of a call that waits for answers, as the client carries
// it.
type carried struct {
	State string `json:"s"`
	Name  string `json:"n"` // of the tool or prompt
	Until int64  `json:"u"` // Unix seconds
}

// need says what a provider has to know before it can go on.
func (x *exchange) need(name string, n *tool.Need) []byte {
	o := object{append([]byte{}, `{"resultType":"input_required"`...)}
	if len(n.Requests) > 0 {
		o.raw("inputRequests", encode(n.Requests))
	}
	if n.State != "" || len(n.Requests) == 0 {
		text := base64.RawURLEncoding.EncodeToString(encode(carried{n.State, name, time.Now().Add(stateLife).Unix()}))
		o.text("requestState", text+"."+x.server.sign("state", text, x.access.Person, x.access.Key))
	}
	return x.end(o, nil)
}

// returned takes what a client brings back of what a provider asked.
func (x *exchange) returned(name string, c *tool.Call) *jsonrpc.Error {
	if !x.stateless() {
		return nil
	}
	for in := jsonrpc.Scan(x.msg.Params); in.Next(); {
		switch string(in.Key) {
		case "inputResponses":
			if json.Unmarshal(in.Value, &c.Answers) != nil || c.Answers == nil {
				return invalid("inputResponses must be an object")
			}
		case "requestState":
			state, err := x.carriedState(jsonrpc.Text(in.Value), name)
			if err != nil {
				return invalid("requestState: %s", err)
			}
			c.State = state
		}
	}
	return nil
}

var errState = errors.New("it is not what was given out for this call")

func (x *exchange) carriedState(text, name string) (string, error) {
	text, signature, _ := strings.Cut(text, ".")
	if !x.server.signed(signature, "state", text, x.access.Person, x.access.Key) {
		return "", errState
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var c carried
	if err != nil || json.Unmarshal(raw, &c) != nil || c.Name != name {
		return "", errState
	}
	if time.Now().Unix() > c.Until {
		return "", errors.New("it is too old; call again without it")
	}
	return c.State, nil
}

// serveSubscription tells the client of what it asked for, until it goes.
func (x *exchange) serveSubscription(ctx context.Context, cancel context.CancelFunc, w http.ResponseWriter, hash string) {
	s := x.server
	s.metrics.requests.WithLabelValues(x.access.Door, x.msg.Method).Inc()
	var want struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		Resources bool     `json:"resourcesListChanged,omitempty"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
	}
	raw := x.param("notifications")
	if !isObject(raw) || json.Unmarshal(raw, &want) != nil {
		e := invalid("notifications is missing: what is wanted?")
		writeJSON(w, statusOf(e), jsonrpc.AppendError(nil, x.msg.ID, e))
		return
	}
	if x.access.Door == doorLearn {
		want.Prompts, want.Resources, want.URIs = false, false, nil // there are none
	}
	want.URIs = slices.Compact(want.URIs[:min(len(want.URIs), maxSubscriptions)])
	v, e := x.view()
	if e != nil {
		writeJSON(w, statusOf(e), jsonrpc.AppendError(nil, x.msg.ID, e))
		return
	}
	l := newListener(x.access, hash, v)
	l.tools, l.prompts, l.resources = want.Tools, want.Prompts, want.Resources
	for _, uri := range want.URIs {
		l.want(uri, true)
	}
	defer s.listeners.add(l, cancel)()
	meta := []byte(`{"` + metaSubscription + `":` + string(x.msg.ID) + `}`)
	ack := object{[]byte{'{'}}
	ack.raw("_meta", meta)
	ack.raw("notifications", encode(want))
	out := newEvents(w)
	if out.event("message", "", jsonrpc.AppendCall(nil, nil, "notifications/subscriptions/acknowledged", append(ack.b, '}'))) != nil {
		return
	}
	s.pump(ctx, out, l, meta)
	if s.stopping.Load() { // it is us who end it
		end := x.end(x.begin(128, false), meta)
		out.event("message", "", jsonrpc.AppendResult(nil, x.msg.ID, end)) //nolint:errcheck // the client is gone then
	}
}
