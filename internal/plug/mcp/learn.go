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
	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// channelLearn is the name of the Learn endpoint in traces and metrics.
const channelLearn = "learn"

// The paths of the Learn endpoint, and what it answers to requests that are not MCP. Both are those
// of the first server at this address, github.com/MrYang2016/learn-assistant at 1c398d0, whose
// clients are served here.
const (
	learnPath         = "/api/mcp"
	learnMessagesPath = learnPath + "/messages"
	learnDescription  = `{"name":"learn-assistant","version":"1.0.0","protocol":"json-rpc-2.0","endpoint":"` +
		learnPath + `",` +
		`"authentication":{"type":"bearer","header":"Authorization"}}`
)

// learnInitializeResult is the response to initialize for plain clients, whatever revision they
// request: some of them compare it byte by byte.
const learnInitializeResult = `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"learn-assistant","version":"1.0.0"}}`

// learnServerInfo is what MCP clients see of the Learn endpoint.
var learnServerInfo = serverInfo{
	info:         json.RawMessage(`{"name":"learn-assistant","title":"Patchbay Learn","version":"1.0.0"}`),
	capabilities: `{"tools":{"listChanged":true},"logging":{}}`,
	instructions: "Knowledge points to learn by heart, repeated when they are due. " +
		"To quiz: call next_review and ask its question. Do not show or hint at the answer before the person has tried to recall it. " +
		"Then reveal the answer, judge the meaning of the first try and not its wording, say your verdict, and call submit_review with a grade. " +
		"Go on until nothing is due.",
}

// codeLearn is the error code of the Learn endpoint's own errors, as in the first server.
const codeLearn = -32000

// Error texts for requests without a valid key, as in the first server. Clients search for these
// words.
const (
	learnKeyMissing = "Unauthorized: API key required"
	learnKeyInvalid = "Unauthorized: Invalid API key"
)

// ServeLearn serves /api/mcp, with all its methods: Learn's tools and nothing else. Clients that
// accept event streams, as every MCP client does, get everything that /mcp offers. Other clients
// get plain JSON-RPC 2.0 over HTTP, without sessions and without a handshake.
func (s *Server) ServeLearn(w http.ResponseWriter, r *http.Request) {
	if !s.checkLearnRequest(w, r, "POST, OPTIONS, GET, DELETE") {
		return
	}
	events := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	if !events && r.Method == http.MethodGet {
		writeJSON(w, http.StatusOK, []byte(learnDescription))
		return
	}
	c, ok := s.authenticateLearn(w, r, writeLearnRefusal)
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
		s.handlePlain(w, r, c)
	}
}

// ServeLearnSSE serves GET /api/mcp/sse: Learn's tools over the HTTP+SSE transport of 2024-11-05
// (basic/transports, "HTTP with SSE").
func (s *Server) ServeLearnSSE(w http.ResponseWriter, r *http.Request) {
	if !s.checkLearnRequest(w, r, "GET, OPTIONS") {
		return
	}
	if c, ok := s.authenticateLearn(w, r, writeTextRefusal); ok {
		s.openPipe(w, r, c, learnDialect)
	}
}

// ServeLearnMessages serves POST /api/mcp/messages, where clients of /api/mcp/sse post. It
// requires the key: the session id alone was once enough, but the id is part of the address and
// therefore appears in logs. Clients send the key with every request.
func (s *Server) ServeLearnMessages(w http.ResponseWriter, r *http.Request) {
	if !s.checkLearnRequest(w, r, "POST, OPTIONS") {
		return
	}
	c, ok := s.authenticateLearn(w, r, writeLearnRefusal)
	if !ok {
		return
	}
	id := r.URL.Query().Get(learnDialect.sessionParam)
	if id == "" {
		s.refuseLearn(w, http.StatusBadRequest, "session", "Missing sessionId parameter")
		return
	}
	session := s.sessions.findPiped(id, c)
	if session == nil && s.Relay == nil {
		s.refuseUnknownSession(w, learnDialect)
		return
	}
	s.postPipe(w, r, c, session, id, learnDialect)
}

var learnDialect = dialect{channel: channelLearn, messagesPath: learnMessagesPath, sessionParam: "sessionId"}

// checkLearnRequest handles CORS, the method check and other steps that need no key. It returns
// false if it has answered the request. Web pages of any origin may call: a page must know the
// key header, which no browser sends by itself.
func (s *Server) checkLearnRequest(w http.ResponseWriter, r *http.Request, methods string) bool {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", methods)
	h.Set("Access-Control-Allow-Headers",
		"Content-Type, Authorization, Accept, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name")
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Retry-After, WWW-Authenticate")
	if !s.hosts.isKnownHost(r.Host) {
		s.Logger.WarnContext(r.Context(), "a request was refused: it came under a strange name",
			"channel", channelLearn, "host", r.Host)
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

// authenticateLearn identifies the caller. writeRefusal writes the error response.
func (s *Server) authenticateLearn(w http.ResponseWriter, r *http.Request,
	writeRefusal func(w http.ResponseWriter, status int, text string)) (caller, bool) {
	refuse := func(status int, reason, text string) {
		s.metrics.refused.WithLabelValues(reason).Inc()
		writeRefusal(w, status, text)
	}
	p, err := s.Accounts.Authenticate(r.Context(), bearer(r), account.ScopeLearn)
	switch {
	case err == nil:
		c := newCaller(p, channelLearn)
		c.access.Address, c.trace = s.Address(r).String(), s.Tracer.LinkOf(r.Header)
		return s.limitToLearn(c), true
	case account.Refused(err):
		tooMany := account.Guessed(err) && s.Guard.Refuse(s.Address(r))
		s.Logger.WarnContext(r.Context(), "a key was refused", "channel", channelLearn, "cause", err,
			"address", s.Address(r))
		if tooMany {
			w.Header().Set("Retry-After", "60")
			refuse(http.StatusTooManyRequests, "guessing", "Too many refused keys from this address; wait a minute")
			return caller{}, false
		}
		w.Header().Set("WWW-Authenticate", s.challenge(r, account.ScopeLearn)+keyFault(err))
		text := learnKeyInvalid
		if errors.Is(err, account.ErrNoKey) {
			text = learnKeyMissing
		}
		refuse(http.StatusUnauthorized, "key", text)
	case r.Context().Err() == nil:
		s.Logger.ErrorContext(r.Context(), "a key could not be checked", "error", err)
		refuse(http.StatusServiceUnavailable, "database", "The key could not be checked; try again later")
	}
	return caller{}, false
}

// writeLearnRefusal writes an error that has neither version nor id, the format that clients of
// this address expect.
func writeLearnRefusal(w http.ResponseWriter, status int, text string) {
	o := object{[]byte(`{"error":{"code":-32000`)}
	o.text("message", text)
	writeJSON(w, status, append(o.b, "}}"...))
}

// writeTextRefusal writes an error in plain text.
func writeTextRefusal(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte(text)) //nolint:errcheck // the client has disconnected
}

// refuseLearn rejects a message, with the members in the order that the first server at this
// address used.
func (s *Server) refuseLearn(w http.ResponseWriter, status int, reason, text string) {
	s.metrics.refused.WithLabelValues(reason).Inc()
	e := encode(jsonrpc.Error{Code: codeLearn, Message: text})
	writeJSON(w, status, slices.Concat([]byte(`{"jsonrpc":"2.0","error":`), e, []byte(`,"id":null}`)))
}

// limitToLearn restricts a caller to Learn's tools.
func (s *Server) limitToLearn(c caller) caller {
	c.access.Rules = hub.NarrowRules(c.access.Rules, s.LearnTools)
	return c
}

// hideDenied turns "denied" for other tools into "unknown tool", so that the Learn endpoint does
// not reveal which other tools the owner has. The audit trail keeps the real reason.
func (x *exchange) hideDenied(name string, err error) error {
	if x.access.Channel == channelLearn && tool.AsError(err).Code == tool.Denied &&
		!slices.Contains(x.server.LearnTools, x.server.Hub.OriginalName(x.access.Person, name)) {
		return tool.Fail(tool.Unknown, "Unknown tool: "+name, nil)
	}
	return err
}

// resourceSets and promptSets return the resources and prompts that a channel shows. The Learn
// channel has tools and their pages only, and what comes back to this installation finds nothing
// (see [tool.Caller.Via]).
func (x *exchange) resourceSets(v *hub.View) []hub.ResourceSet {
	switch {
	case x.loops:
		return nil
	case x.access.Channel == channelLearn:
		return x.withPages(v, nil)
	}
	return x.withPages(v, v.ResourceSets())
}

func (x *exchange) promptSets(v *hub.View) []hub.PromptSet {
	if x.access.Channel == channelLearn || x.loops {
		return nil
	}
	return v.PromptSets()
}

// plainMethods are the methods for clients that know only the basics of MCP.
var plainMethods = map[string]handler{
	"initialize": func(*exchange, context.Context) ([]byte, *jsonrpc.Error) {
		return []byte(learnInitializeResult),
			nil
	},
	"ping":       func(*exchange, context.Context) ([]byte, *jsonrpc.Error) { return []byte("{}"), nil },
	"tools/list": (*exchange).listTools,
	"tools/call": (*exchange).callTool,
}

// handlePlain answers one message or a batch of independent messages.
func (s *Server) handlePlain(w http.ResponseWriter, r *http.Request, c caller) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	c.access.Program = r.UserAgent()
	// The work ends with the connection.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	answer := s.answerPlain
	if isBatch(body) && json.Valid(body) {
		answer = s.answerPlainBatch
	}
	msg, status := answer(ctx, c, body)
	if msg == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	writeJSON(w, status, msg)
}

// answerPlain answers one message and returns the HTTP status. Notifications have no response.
func (s *Server) answerPlain(ctx context.Context, c caller, text []byte) (answer []byte, status int) {
	m, err := parsePlain(text)
	if err != nil {
		return s.malformed(&m, err)
	}
	if !m.IsRequest() {
		return nil, http.StatusAccepted
	}
	x := &exchange{server: s, access: c.access, trace: c.trace, msg: m, plain: true, level: levelOff}
	answer, _ = x.answer(ctx)
	if x.handler() == nil {
		return answer, http.StatusBadRequest
	}
	return answer, http.StatusOK
}

// malformed returns the response to an invalid message.
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

// parsePlain parses a message. Hand-written clients send null for absent parameters.
func parsePlain(text []byte) (jsonrpc.Message, error) {
	m, err := jsonrpc.Parse(text)
	if errors.Is(err, jsonrpc.ErrMessage) && string(m.Params) == "null" {
		return jsonrpc.Parse(jsonrpc.With(text, "params", []byte("{}")))
	}
	return m, err
}

// answerPlainBatch answers the messages of a batch in order.
func (s *Server) answerPlainBatch(ctx context.Context, c caller, text []byte) ([]byte, int) {
	parts := jsonrpc.Elements(text)
	if len(parts) == 0 || len(parts) > maxBatch {
		return s.malformed(&jsonrpc.Message{}, errBatch)
	}
	var answers [][]byte
	for _, part := range parts {
		if answer, _ := s.answerPlain(ctx, c, part); answer != nil {
			answers = append(answers, answer)
		}
	}
	if answers == nil {
		return nil, http.StatusAccepted
	}
	return slices.Concat([]byte("["), bytes.Join(answers, []byte(",")), []byte("]")), http.StatusOK
}

var errBatch = errors.New("a batch has 1 to 50 messages")
