package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
	"patchbay/internal/tracing"
)

// Error codes that MCP adds to those of JSON-RPC (2026-07-28 basic/index, "Error Codes", and
// schema, "Errors").
const (
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
	codeResourceNotFound   = -32002 // up to 2025-11-25 (server/resources, "Error Handling")
	// codeCancelled is RequestCancelled of the Language Server Protocol; the caller ignores this
	// response.
	codeCancelled = -32800
)

// exchange is one request while it is being answered.
type exchange struct {
	server    *Server
	access    hub.Access
	principal account.Principal // zero without a key; only set in the stateless era
	session   *session          // nil without sessions, and if plain
	version   string
	abilities tool.Capabilities
	level     int // least important log level to forward
	msg       jsonrpc.Message
	meta      callMeta
	trace     tracing.Link // of the HTTP request; see traced
	// out receives messages that belong to the request besides its response; nil means that only
	// the response can be sent.
	out sender
	// closeForReconnect ends the stream before the response, so that the client reconnects for
	// it; nil if that is not possible.
	closeForReconnect func()
	// mergeStructured puts the fields of structured results beside content, as Rokid's platform
	// requires.
	mergeStructured bool
	// plain means that the caller knows only the basic methods of MCP (see plainMethods).
	plain  bool
	choice choice // of tools
	// loops means that the request came from this installation, through another one.
	loops bool
	// maxTools limits the listed tools and resultBytes the text of results; 0 means no limit.
	maxTools, resultBytes int
}

// sender sends messages to the caller. It is safe for concurrent use.
type sender interface{ send(msg []byte) error }

// callMeta holds the members of a request's _meta that are used here.
type callMeta struct {
	token json.RawMessage // progress token; nil: no progress wanted
	trace tracing.Link    // the span of the caller (SEP-414)
	raw   json.RawMessage
}

// traced returns ctx as part of the caller's trace: that of _meta, or else of the HTTP request.
func (x *exchange) traced(ctx context.Context) context.Context {
	t := x.server.Tracer
	return t.Continue(t.Continue(ctx, x.trace), x.meta.trace)
}

// isStateless reports whether the caller speaks a revision without sessions.
func (x *exchange) isStateless() bool { return x.session == nil && !x.plain }

// handler answers one method.
type handler func(*exchange, context.Context) ([]byte, *jsonrpc.Error)

// commonMethods are the methods of both eras, sessionMethods those with sessions,
// statelessMethods those without.
var commonMethods, sessionMethods, statelessMethods map[string]handler

func init() { // not a literal: discover reads the tables itself
	commonMethods = map[string]handler{
		"tools/list":               (*exchange).listTools,
		"tools/call":               (*exchange).callTool,
		"resources/list":           (*exchange).listResources,
		"resources/templates/list": (*exchange).listTemplates,
		"resources/read":           (*exchange).readResource,
		"prompts/list":             (*exchange).listPrompts,
		"prompts/get":              (*exchange).getPrompt,
		"completion/complete":      (*exchange).complete,
	}
	sessionMethods = map[string]handler{
		"ping":                  func(*exchange, context.Context) ([]byte, *jsonrpc.Error) { return []byte("{}"), nil },
		"logging/setLevel":      (*exchange).setLevel,
		"resources/subscribe":   (*exchange).subscribe,
		"resources/unsubscribe": (*exchange).unsubscribe,
	}
	statelessMethods = map[string]handler{
		"server/discover": (*exchange).discover,
		"tasks/get":       (*exchange).getTask,
		"tasks/update":    (*exchange).updateTask,
		"tasks/cancel":    (*exchange).cancelTask,
	}
}

func (x *exchange) handler() handler {
	if x.plain {
		return plainMethods[x.msg.Method]
	}
	if h := commonMethods[x.msg.Method]; h != nil {
		return h
	}
	if x.isStateless() {
		return statelessMethods[x.msg.Method]
	}
	return sessionMethods[x.msg.Method]
}

// answer returns the whole response to the request.
func (x *exchange) answer(ctx context.Context) ([]byte, *jsonrpc.Error) {
	h := x.handler()
	method := x.msg.Method
	if h == nil {
		method = "other"
	}
	x.server.metrics.requests.WithLabelValues(x.access.Channel, method).Inc()
	if h == nil {
		return x.fail(&jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "Method not found: " + x.msg.Method})
	}
	if x.msg.Params != nil && x.msg.Params[0] != '{' {
		return x.fail(&jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "params must be an object"})
	}
	result, e := h(x, x.traced(ctx))
	if e != nil {
		return x.fail(e)
	}
	return jsonrpc.AppendResult(make([]byte, 0, len(result)+len(x.msg.ID)+40), x.msg.ID, result), nil
}

func (x *exchange) fail(e *jsonrpc.Error) ([]byte, *jsonrpc.Error) {
	return jsonrpc.AppendError(nil, x.msg.ID, e), e
}

// param returns a parameter of the request, or nil.
func (x *exchange) param(name string) json.RawMessage { return jsonrpc.Member(x.msg.Params, name) }

// text returns a string parameter, or "".
func (x *exchange) text(name string) string { return jsonrpc.Text(x.param(name)) }

// readMeta reads callMeta from the request's _meta.
func (x *exchange) readMeta() {
	x.meta.raw = x.param("_meta")
	for in := jsonrpc.Scan(x.meta.raw); in.Next(); {
		if string(in.Key) == "progressToken" && (in.Value[0] == '"' || in.Value[0] == '-' ||
			'0' <= in.Value[0] && in.Value[0] <= '9') {
			x.meta.token = in.Value
		}
		if string(in.Key) == hub.MetaVia {
			x.readVia(in.Value)
		}
	}
	if x.server.Tracer != nil {
		x.meta.trace = tracing.Link{Parent: jsonrpc.Text(jsonrpc.Member(x.meta.raw, tracing.HeaderParent)),
			State: jsonrpc.Text(jsonrpc.Member(x.meta.raw, tracing.HeaderState))}
	}
}

// readVia reads through which installations of Patchbay the request came.
func (x *exchange) readVia(raw json.RawMessage) {
	var via []string
	if json.Unmarshal(raw, &via) != nil {
		return
	}
	text := strings.Join(via, " ")
	if len(text) <= maxVia {
		x.access.Via = text
	}
	x.loops = len(text) > maxVia || slices.Contains(via, x.server.Hub.Installation)
}

// maxVia limits the text of all ids, so that requests do not grow without limit.
const maxVia = 1 << 10

// object is a JSON object under construction.
type object struct{ b []byte }

// beginResult starts a result. With cached, the client may cache the result for a while, for this
// key only: what a key sees is private and may change at any time (2026-07-28
// server/utilities/caching).
func (x *exchange) beginResult(size int, cached bool) object {
	o := object{append(make([]byte, 0, size+160), '{')}
	if x.isStateless() {
		o.b = append(o.b, `"resultType":"complete"`...)
		if cached {
			o.b = append(o.b, `,"ttlMs":0,"cacheScope":"private"`...)
		}
	}
	return o
}

// raw adds a member; a nil value adds nothing.
func (o *object) raw(name string, value []byte) {
	if value == nil {
		return
	}
	o.name(name)
	o.b = append(o.b, value...)
}

func (o *object) name(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, `":`...)
}

func (o *object) text(name, value string) {
	o.name(name)
	o.b = jsonrpc.AppendText(o.b, value)
}

// endResult finishes a result with its _meta: the provider's own and, in the stateless era, the
// server's name.
func (x *exchange) endResult(o object, own json.RawMessage) []byte {
	own = plainObject(own)
	if x.isStateless() {
		o.name("_meta")
		o.b = append(o.b, `{"io.modelcontextprotocol/serverInfo":`...)
		o.b = append(o.b, x.server.serverInfo(x.access.Channel).info...)
		if len(own) > 2 {
			o.b = append(o.b, ',')
			o.b = append(o.b, own[1:]...)
		} else {
			o.b = append(o.b, '}')
		}
	} else if own != nil {
		o.raw("_meta", own)
	}
	return append(o.b, '}')
}

// plainObject returns the JSON object without white space after its opening brace, or nil if raw
// is not an object.
func plainObject(raw json.RawMessage) json.RawMessage {
	in := jsonrpc.Scan(raw)
	if !in.IsObject() {
		return nil
	}
	for i, c := range raw {
		if c == '{' {
			raw = raw[i+1:]
			break
		}
	}
	for len(raw) > 0 && (raw[0] == ' ' || raw[0] == '\n' || raw[0] == '\t' || raw[0] == '\r') {
		raw = raw[1:]
	}
	return append(json.RawMessage{'{'}, raw...)
}

// notify sends the caller a notification that belongs to the request.
func (x *exchange) notify(method string, params []byte) {
	if x.out != nil {
		x.out.send(jsonrpc.AppendRequest(nil, nil, method, params)) //nolint:errcheck // a disconnected caller is noticed when the response is sent
	}
}

// levelOff is above all levels.
const levelOff = 99

func levelOf(name string) int {
	if i := slices.Index(tool.LogLevels, name); i >= 0 {
		return i
	}
	return levelOff
}

func (x *exchange) setLevel(context.Context) ([]byte, *jsonrpc.Error) {
	level := levelOf(x.text("level"))
	if level == levelOff {
		return nil, invalid("level must be one of %q", tool.LogLevels)
	}
	x.session.level.Store(int64(level))
	x.session.listener.takeLogs(level)
	return []byte("{}"), nil
}

func invalid(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf(format, args...)}
}

// view returns what the caller may use at this moment.
func (x *exchange) view() (*hub.View, *jsonrpc.Error) {
	v, err := x.server.Hub.View(x.access.Person, x.access.Rules)
	if err != nil {
		x.server.Logger.Error("the rules of a key cannot be read", "key", x.access.Key, "error", err)
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the rules of this key cannot be read"}
	}
	return v, nil
}

// capabilities is what the server supports, in the form that both eras declare.
const capabilities = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}`

// instructions tell a model what this server offers.
const instructions = "Patchbay connects devices people wear or keep at home, bots that answer, and other tool servers. " +
	"Names of tools begin with the name of the device or server they belong to. send_message asks a bot and returns its reply."
