package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"patchbay/internal/board"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// The error codes that MCP adds to JSON-RPC's.
const (
	codeHeaderMismatch = -32020
	codeNeedsAbility   = -32021
	codeVersion        = -32022
	codeNoResource     = -32002 // until 2025-11-25
	codeGone           = -32800 // the caller cancelled; nobody should read it
)

// exchange is one request on its way to its answer.
type exchange struct {
	server  *Server
	access  board.Access
	session *session // nil in the stateless era, and if plain
	version string
	can     tool.Abilities
	level   int // least important log line that is wanted
	msg     jsonrpc.Message
	meta    callMeta
	// out takes what belongs to the request besides its answer; nil: nothing can
	// be said but the answer.
	out sender
	// pause ends the stream before the answer, for the caller to come back; nil if
	// it cannot.
	pause func()
	// merge puts the fields of structured results beside the content, as the
	// platform of Rokid wants them.
	merge bool
	// plain: the caller knows nothing of MCP but its first words.
	plain bool
	// most and resultBytes bound the tools that are listed, and the text of their
	// results; 0: no bound.
	most, resultBytes int
}

// sender takes messages to the caller. It is safe for concurrent use.
type sender interface{ send(msg []byte) error }

// callMeta is what matters of a request's _meta.
type callMeta struct {
	token json.RawMessage // of progress; nil: none is wanted
	raw   json.RawMessage
}

// stateless says whether the caller speaks a revision without sessions.
func (x *exchange) stateless() bool { return x.session == nil && !x.plain }

// handler answers one method.
type handler func(*exchange, context.Context) ([]byte, *jsonrpc.Error)

// both are the methods of both eras, old those with sessions, fresh those
// without.
var both, old, fresh map[string]handler

func init() { // not a literal: discover looks at the tables itself
	both = map[string]handler{
		"tools/list":               (*exchange).listTools,
		"tools/call":               (*exchange).callTool,
		"resources/list":           (*exchange).listResources,
		"resources/templates/list": (*exchange).listTemplates,
		"resources/read":           (*exchange).readResource,
		"prompts/list":             (*exchange).listPrompts,
		"prompts/get":              (*exchange).getPrompt,
		"completion/complete":      (*exchange).complete,
	}
	old = map[string]handler{
		"ping":                  func(*exchange, context.Context) ([]byte, *jsonrpc.Error) { return []byte("{}"), nil },
		"logging/setLevel":      (*exchange).setLevel,
		"resources/subscribe":   (*exchange).subscribe,
		"resources/unsubscribe": (*exchange).unsubscribe,
	}
	fresh = map[string]handler{"server/discover": (*exchange).discover}
}

func (x *exchange) handler() handler {
	if x.plain {
		return plain[x.msg.Method]
	}
	if h := both[x.msg.Method]; h != nil {
		return h
	}
	if x.stateless() {
		return fresh[x.msg.Method]
	}
	return old[x.msg.Method]
}

// answer is the whole answer to the request, as a message.
func (x *exchange) answer(ctx context.Context) ([]byte, *jsonrpc.Error) {
	h := x.handler()
	method := x.msg.Method
	if h == nil {
		method = "other"
	}
	x.server.metrics.requests.WithLabelValues(x.access.Door, method).Inc()
	if h == nil {
		return x.fail(&jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "Method not found: " + x.msg.Method})
	}
	if x.msg.Params != nil && x.msg.Params[0] != '{' {
		return x.fail(&jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "params must be an object"})
	}
	result, e := h(x, ctx)
	if e != nil {
		return x.fail(e)
	}
	return jsonrpc.AppendResult(make([]byte, 0, len(result)+len(x.msg.ID)+40), x.msg.ID, result), nil
}

func (x *exchange) fail(e *jsonrpc.Error) ([]byte, *jsonrpc.Error) {
	return jsonrpc.AppendError(nil, x.msg.ID, e), e
}

// param is one of the request's parameters, or nil.
func (x *exchange) param(name string) json.RawMessage {
	for in := jsonrpc.Scan(x.msg.Params); in.Next(); {
		if string(in.Key) == name {
			return in.Value
		}
	}
	return nil
}

// text is a parameter that is a text, or "".
func (x *exchange) text(name string) string { return jsonrpc.Text(x.param(name)) }

// readMeta takes what matters from the request's _meta.
func (x *exchange) readMeta() {
	x.meta.raw = x.param("_meta")
	for in := jsonrpc.Scan(x.meta.raw); in.Next(); {
		if string(in.Key) == "progressToken" && (in.Value[0] == '"' || in.Value[0] == '-' || '0' <= in.Value[0] && in.Value[0] <= '9') {
			x.meta.token = in.Value
		}
	}
}

// object is a JSON object that is being written.
type object struct{ b []byte }

// begin begins a result. Cached are those that a client may keep for a while:
// what one key sees is nobody else's business, and it may change at any time.
func (x *exchange) begin(size int, cached bool) object {
	o := object{append(make([]byte, 0, size+160), '{')}
	if x.stateless() {
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

// end finishes a result with its _meta: the provider's own, and in the stateless
// era who answers.
func (x *exchange) end(o object, own json.RawMessage) []byte {
	own = plainObject(own)
	if x.stateless() {
		o.name("_meta")
		o.b = append(o.b, `{"io.modelcontextprotocol/serverInfo":`...)
		o.b = append(o.b, x.server.face(x.access.Door).info...)
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

// plainObject is an object without space after its brace, or nil.
func plainObject(raw json.RawMessage) json.RawMessage {
	in := jsonrpc.Scan(raw)
	if !in.Object() {
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

// notify tells the caller something that belongs to the request.
func (x *exchange) notify(method string, params []byte) {
	if x.out != nil {
		x.out.send(jsonrpc.AppendCall(nil, nil, method, params)) //nolint:errcheck // whether the caller still listens shows at the answer
	}
}

// The levels of log lines, least important first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// levelOff is above all levels.
const levelOff = 99

func levelOf(name string) int {
	if i := slices.Index(levels, name); i >= 0 {
		return i
	}
	return levelOff
}

func (x *exchange) setLevel(context.Context) ([]byte, *jsonrpc.Error) {
	level := levelOf(x.text("level"))
	if level == levelOff {
		return nil, invalid("level must be one of %q", levels)
	}
	x.session.level.Store(int64(level))
	return []byte("{}"), nil
}

func invalid(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf(format, args...)}
}

// view is what the caller may use now.
func (x *exchange) view() (*board.View, *jsonrpc.Error) {
	v, err := x.server.Board.View(x.access.Person, x.access.Rules)
	if err != nil {
		x.server.Logger.Error("the rules of a key cannot be read", "key", x.access.Key, "error", err)
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the rules of this key cannot be read"}
	}
	return v, nil
}

// capabilities is what the doors can do, as both eras declare it.
const capabilities = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}`

// instructions tell a model what it finds here.
const instructions = "Patchbay connects devices people wear or keep at home, bots that answer, and other tool servers. " +
	"Names of tools begin with the name of the device or server they belong to. send_message asks a bot and returns its reply."
