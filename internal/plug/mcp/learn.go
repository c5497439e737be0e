package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// doorLearn is the name of Learn's own door in traces and metrics.
const doorLearn = "learn"

// Where Learn's door is, and what stands there for whoever looks.
const (
	learnPath     = "/api/mcp"
	learnMessages = learnPath + "/messages"
	learnAbout    = `{"name":"learn-assistant","version":"1.0.0","protocol":"json-rpc-2.0","endpoint":"` + learnPath + `",` +
		`"authentication":{"type":"bearer","header":"Authorization"}}`
)

// learnHello is the answer to initialize for programs that came before MCP
// settled, whatever they ask for: some compare it.
const learnHello = `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"learn-assistant","version":"1.0.0"}}`

// learnFace is what MCP clients see of the door.
var learnFace = face{
	info:         json.RawMessage(`{"name":"learn-assistant","title":"Patchbay Learn","version":"1.0.0"}`),
	capabilities: `{"tools":{"listChanged":true},"logging":{}}`,
	instructions: "Knowledge points to learn by heart, repeated when they are due. " +
		"To quiz: call next_review and ask its question. Do not show or hint at the answer before the person has tried to recall it. " +
		"Then reveal the answer, judge the meaning of the first try and not its wording, say your verdict, and call submit_review with a grade. " +
		"Go on until nothing is due.",
}

// codeLearn is the error code of this door's own refusals.
const codeLearn = -32000

// What somebody without a good key is told. Programs look for these words.
const (
	learnNoKey  = "Unauthorized: API key required"
	learnBadKey = "Unauthorized: Invalid API key"
)

// ServeLearn is /api/mcp, with all its methods: Learn's tools and nothing else.
// Clients that take events, as every MCP client does, have all that /mcp has.
// Others have what this address always had: JSON-RPC 2.0 in plain HTTP, without
// sessions and without a handshake.
func (s *Server) ServeLearn(w http.ResponseWriter, r *http.Request) {
	if !s.openLearn(w, r, "POST, OPTIONS, GET, DELETE") {
		return
	}
	events := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	if !events && r.Method == http.MethodGet {
		writeJSON(w, http.StatusOK, []byte(learnAbout))
		return
	}
	c, ok := s.enterLearn(w, r, learnRefusal)
	if !ok {
		return
	}
	switch {
	case r.Method == http.MethodGet:
		s.get(w, r, c)
	case r.Method == http.MethodDelete:
		s.delete(w, r, c)
	case events:
		s.post(w, r, c)
	default:
		s.postPlain(w, r, c)
	}
}

// ServeLearnSSE is GET /api/mcp/sse: Learn's tools over the HTTP+SSE of
// 2024-11-05.
func (s *Server) ServeLearnSSE(w http.ResponseWriter, r *http.Request) {
	if !s.openLearn(w, r, "GET, OPTIONS") {
		return
	}
	if c, ok := s.enterLearn(w, r, learnWords); ok {
		s.openPipe(w, r, c, learnDialect)
	}
}

// ServeLearnMessages is POST /api/mcp/messages, where clients of /api/mcp/sse
// post. It wants the key too: once the id of the session was enough here, but it
// stands in the address, and so in logs. Clients send the key with everything.
func (s *Server) ServeLearnMessages(w http.ResponseWriter, r *http.Request) {
	if !s.openLearn(w, r, "POST, OPTIONS") {
		return
	}
	c, ok := s.enterLearn(w, r, learnRefusal)
	if !ok {
		return
	}
	id := r.URL.Query().Get(learnDialect.param)
	if id == "" {
		s.refuseLearn(w, http.StatusBadRequest, "session", "Missing sessionId parameter")
		return
	}
	session := s.sessions.piped(id, c)
	if session == nil && s.Relay == nil {
		s.noPipe(w, learnDialect)
		return
	}
	s.postPipe(w, r, c, session, id, learnDialect)
}

var learnDialect = dialect{door: doorLearn, messages: learnMessages, param: "sessionId"}

// openLearn does what is done for everybody, with or without a key. It is false
// if the request is answered. Web pages from anywhere may call: what opens the
// door is a header that a page must know, and no browser sends by itself.
func (s *Server) openLearn(w http.ResponseWriter, r *http.Request, methods string) bool {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", methods)
	h.Set("Access-Control-Allow-Headers", "Content-Type, Authorization, Accept, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name")
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Retry-After, WWW-Authenticate")
	if !s.hosts.knows(r.Host) {
		s.Logger.WarnContext(r.Context(), "a request was refused: it came under a strange name", "door", doorLearn, "host", r.Host)
		s.refuse(w, http.StatusForbidden, "origin", "this host name is not allowed (setting mcp.hosts)")
		return false
	}
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusOK)
		return false
	}
	if !slices.Contains(strings.Split(methods, ", "), r.Method) {
		h.Set("Allow", methods)
		s.refuse(w, http.StatusMethodNotAllowed, "method", "this address takes "+methods)
		return false
	}
	return true
}

// enterLearn finds out who calls. Tell words a refusal.
func (s *Server) enterLearn(w http.ResponseWriter, r *http.Request, tell func(w http.ResponseWriter, status int, text string)) (caller, bool) {
	refuse := func(status int, reason, text string) {
		s.metrics.refused.WithLabelValues(reason).Inc()
		tell(w, status, text)
	}
	p, hash, err := s.Accounts.Authenticate(r.Context(), bearer(r), account.ScopeLearn)
	switch {
	case err == nil:
		c := newCaller(p, doorLearn, hash)
		c.access.Address = s.Address(r).String()
		return s.learner(c), true
	case account.Refused(err):
		tooMany := s.Guard.Refuse(s.Address(r))
		s.Logger.WarnContext(r.Context(), "a key was refused", "door", doorLearn, "cause", err, "address", s.Address(r))
		if tooMany {
			w.Header().Set("Retry-After", "60")
			refuse(http.StatusTooManyRequests, "guessing", "Too many refused keys from this address; wait a minute")
			return caller{}, false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="patchbay", scope="learn"`)
		text := learnBadKey
		if errors.Is(err, account.ErrNoKey) {
			text = learnNoKey
		}
		refuse(http.StatusUnauthorized, "key", text)
	case r.Context().Err() == nil:
		s.Logger.ErrorContext(r.Context(), "a key could not be checked", "error", err)
		refuse(http.StatusServiceUnavailable, "database", "The key could not be checked; try again later")
	}
	return caller{}, false
}

// learnRefusal refuses with an error that has neither version nor id, as programs
// know it from this address.
func learnRefusal(w http.ResponseWriter, status int, text string) {
	o := object{[]byte(`{"error":{"code":-32000`)}
	o.text("message", text)
	writeJSON(w, status, append(o.b, "}}"...))
}

// learnWords refuses in plain text.
func learnWords(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte(text)) //nolint:errcheck // the client has gone
}

// refuseLearn turns a message away, in the order of members that the first server
// at this address wrote.
func (s *Server) refuseLearn(w http.ResponseWriter, status int, reason, text string) {
	s.metrics.refused.WithLabelValues(reason).Inc()
	e := encode(jsonrpc.Error{Code: codeLearn, Message: text})
	writeJSON(w, status, slices.Concat([]byte(`{"jsonrpc":"2.0","error":`), e, []byte(`,"id":null}`)))
}

// learner leaves of what a caller may use no more than Learn.
func (s *Server) learner(c caller) caller {
	c.access.Rules = board.Narrow(c.access.Rules, s.LearnTools)
	return c
}

// unseen makes tools that are none of Learn's unknown at its door: that the owner
// has others is none of its business. The trail has what really was.
func (x *exchange) unseen(name string, err error) error {
	if x.access.Door == doorLearn && tool.AsError(err).Code == tool.Denied && !slices.Contains(x.server.LearnTools, name) {
		return tool.Fail(tool.Unknown, "Unknown tool: "+name, nil)
	}
	return err
}

// shelves and books are the libraries and prompts that a door shows. Learn's has
// tools alone.
func (x *exchange) shelves(v *board.View) []board.Shelf {
	if x.access.Door == doorLearn {
		return nil
	}
	return v.Shelves()
}

func (x *exchange) books(v *board.View) []board.Book {
	if x.access.Door == doorLearn {
		return nil
	}
	return v.Books()
}

// plain are the methods for clients that know nothing of MCP but its first words.
var plain = map[string]handler{
	"initialize": func(*exchange, context.Context) ([]byte, *jsonrpc.Error) { return []byte(learnHello), nil },
	"ping":       func(*exchange, context.Context) ([]byte, *jsonrpc.Error) { return []byte("{}"), nil },
	"tools/list": (*exchange).listTools,
	"tools/call": (*exchange).callTool,
}

// postPlain answers one message, or several, each of which stands for itself.
func (s *Server) postPlain(w http.ResponseWriter, r *http.Request, c caller) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	c.access.Program = r.UserAgent()
	// The end of the connection is the end of the work.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	answer := s.onePlain
	if isBatch(body) && json.Valid(body) {
		answer = s.batchPlain
	}
	msg, status := answer(ctx, c, body)
	if msg == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	writeJSON(w, status, msg)
}

// onePlain answers one message, with the status that goes with it. Notifications
// have no answer.
func (s *Server) onePlain(ctx context.Context, c caller, text []byte) (answer []byte, status int) {
	m, err := parsePlain(text)
	if err != nil {
		return s.malformed(&m, err)
	}
	if !m.Call() {
		return nil, http.StatusAccepted
	}
	x := &exchange{server: s, access: c.access, msg: m, plain: true, level: levelOff}
	answer, _ = x.answer(ctx)
	if x.handler() == nil {
		return answer, http.StatusBadRequest
	}
	return answer, http.StatusOK
}

// malformed answers what is no message.
func (s *Server) malformed(m *jsonrpc.Message, err error) ([]byte, int) {
	s.metrics.refused.WithLabelValues("message").Inc()
	e := &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "Invalid Request: " + err.Error()}
	if errors.Is(err, jsonrpc.ErrSyntax) {
		e = &jsonrpc.Error{Code: jsonrpc.ParseError, Message: "Parse error: " + err.Error()}
	}
	id := m.ID
	if id == nil {
		id = json.RawMessage("null")
	}
	return jsonrpc.AppendError(nil, id, e), http.StatusBadRequest
}

// parsePlain reads a message. Programs that people wrote themselves say null for
// parameters that they have not.
func parsePlain(text []byte) (jsonrpc.Message, error) {
	m, err := jsonrpc.Parse(text)
	if errors.Is(err, jsonrpc.ErrMessage) && string(m.Params) == "null" {
		return jsonrpc.Parse(without(text, "params"))
	}
	return m, err
}

// batchPlain answers several messages, one after the other.
func (s *Server) batchPlain(ctx context.Context, c caller, text []byte) ([]byte, int) {
	parts := jsonrpc.Elements(text)
	if len(parts) == 0 || len(parts) > batchMost {
		return s.malformed(&jsonrpc.Message{}, errBatch)
	}
	var answers [][]byte
	for _, part := range parts {
		if answer, _ := s.onePlain(ctx, c, part); answer != nil {
			answers = append(answers, answer)
		}
	}
	if answers == nil {
		return nil, http.StatusAccepted
	}
	return slices.Concat([]byte("["), bytes.Join(answers, []byte(",")), []byte("]")), http.StatusOK
}

var errBatch = errors.New("a batch has 1 to 50 messages")
