package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"patchbay/internal/jsonrpc"
)

// channelMCP is the name of /mcp in traces and metrics.
const channelMCP = "mcp"

// ServeHTTP serves /mcp: Streamable HTTP, in the revisions with sessions and without.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		s.ServePreflight(w, r)
		return
	}
	c, ok := s.authenticate(w, r, channelMCP)
	if !ok {
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.post(w, r, c)
	case http.MethodGet:
		s.get(w, r, c)
	case http.MethodDelete:
		s.delete(w, r, c)
	default:
		s.methodNotAllowed(w)
	}
}

func (s *Server) methodNotAllowed(w http.ResponseWriter) {
	w.Header().Set("Allow", "POST, GET, DELETE")
	s.refuse(w, http.StatusMethodNotAllowed, "method", "this address takes POST, GET and DELETE")
}

// refuse rejects a request before its body was read.
func (s *Server) refuse(w http.ResponseWriter, status int, reason, text string) {
	s.metrics.refused.WithLabelValues(reason).Inc()
	writeJSON(w, status, jsonrpc.AppendError(nil, nil, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: text}))
}

// refuseLarge rejects a request whose body is too large. It reads on for a while: a connection that
// is closed while its client still writes is reset, and the client does not get to read the answer.
func (s *Server) refuseLarge(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Expect") == "" { // else the body is not sent yet
		_, _ = io.CopyN(io.Discard, r.Body, 2*s.MaxBody) // at worst, the client sees a reset
	}
	s.refuse(w, http.StatusRequestEntityTooLarge, "size",
		fmt.Sprintf("the request is too large: at most %.3g MiB", float64(s.MaxBody)/(1<<20)))
}

// body reads a request's body, up to the limit.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if r.ContentLength > s.MaxBody {
		s.refuseLarge(w, r)
		return nil, false
	}
	var body []byte
	var err error
	if n := r.ContentLength; n > 0 {
		body = make([]byte, n)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, s.MaxBody))
	}
	if err == nil {
		return body, true
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		s.refuseLarge(w, r)
		return nil, false
	}
	s.refuse(w, http.StatusBadRequest, "body", "the request's body broke off")
	return nil, false
}

// post handles a message. Its version header or its own contents determine its era (2026-07-28
// basic/versioning, "Backward Compatibility with Initialization-Based Versions").
func (s *Server) post(w http.ResponseWriter, r *http.Request, c caller) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	version := r.Header.Get("Mcp-Protocol-Version")
	id := r.Header.Get("Mcp-Session-Id")
	if id != "" && version < statelessVersion && isBatch(body) {
		s.batch(w, r, c, id, body)
		return
	}
	m, err := jsonrpc.Parse(body)
	if err != nil {
		code := jsonrpc.ParseError
		if errors.Is(err, jsonrpc.ErrMessage) {
			code = jsonrpc.InvalidRequest
		}
		s.metrics.refused.WithLabelValues("message").Inc()
		writeJSON(w, http.StatusBadRequest, jsonrpc.AppendError(nil, m.ID,
			&jsonrpc.Error{Code: code, Message: err.Error()}))
		return
	}
	switch {
	case version >= statelessVersion, id == "" && isStatelessMessage(&m):
		s.postStateless(w, r, c, &m)
	case version != "" && !slices.Contains(revisions, version):
		s.refuse(w, http.StatusBadRequest, "version", "this version of the protocol is not known: "+version)
	case m.Method == "initialize" && m.IsRequest():
		s.initialize(w, c, &m)
	case id == "":
		s.refuse(w, http.StatusBadRequest, "session", "Mcp-Session-Id is missing; begin with initialize")
	default:
		if session, ok := s.session(w, id, c); ok {
			s.postSession(w, r, c, session, &m)
		}
	}
}

func isBatch(body []byte) bool {
	for _, c := range body {
		switch c {
		case ' ', '\n', '\t', '\r':
		default:
			return c == '['
		}
	}
	return false
}

// session returns the session of a request, or writes the error that it does not exist.
func (s *Server) session(w http.ResponseWriter, id string, c caller) (*session, bool) {
	found, err := s.sessions.find(id, c)
	switch {
	case err == nil:
		return found, true
	case errors.Is(err, errTooMany):
		s.tooManySessions(w)
	default:
		s.refuse(w, http.StatusNotFound, "session", "there is no such session; begin with initialize")
	}
	return nil, false
}

func (s *Server) tooManyStreams(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "60")
	s.refuse(w, http.StatusTooManyRequests, "streams", "this key, or its person, has too many open streams; close some")
}

func (s *Server) tooManySessions(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "60")
	s.refuse(w, http.StatusTooManyRequests, "sessions", "this key has too many open sessions; close some")
}

// initializeParams are the client's parameters of initialize.
type initializeParams struct {
	ProtocolVersion string          `json:"protocolVersion"`
	Capabilities    json.RawMessage `json:"capabilities"`
	ClientInfo      struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"clientInfo"`
}

func (h *initializeParams) program() string {
	return strings.TrimSpace(h.ClientInfo.Name + " " + h.ClientInfo.Version)
}

// negotiatedVersion returns the revision that the server answers with.
func (h *initializeParams) negotiatedVersion() string {
	if slices.Contains(revisions, h.ProtocolVersion) {
		return h.ProtocolVersion
	}
	return revisions[0]
}

// initialize creates a session.
func (s *Server) initialize(w http.ResponseWriter, c caller, m *jsonrpc.Message) {
	s.metrics.requests.WithLabelValues(c.access.Channel, m.Method).Inc()
	var h initializeParams
	if err := json.Unmarshal(m.Params, &h); err != nil || h.ProtocolVersion == "" {
		writeJSON(w, http.StatusBadRequest, jsonrpc.AppendError(nil, m.ID,
			invalid("protocolVersion, capabilities and clientInfo are needed")))
		return
	}
	can := abilities(h.Capabilities)
	version := h.negotiatedVersion()
	session, err := s.makeSession(s.newID(c, version, can), c.access.Channel, version, can, c)
	if err == nil {
		session.program = h.program()
		err = s.sessions.add(session)
	}
	if err != nil {
		s.tooManySessions(w)
		return
	}
	w.Header()["Mcp-Session-Id"] = []string{session.id}
	writeJSON(w, http.StatusOK, jsonrpc.AppendResult(nil, m.ID,
		s.serverInfo(c.access.Channel).withApps(can).initializeResult(version)))
}

// serverInfo is what an endpoint reports about itself.
type serverInfo struct {
	info         json.RawMessage // object with name, title and version
	capabilities string          // JSON object
	instructions string
}

func (s *Server) serverInfo(channel string) serverInfo {
	if channel == channelLearn {
		return learnServerInfo
	}
	return serverInfo{s.info, capabilities, instructions}
}

// initializeResult returns the result of initialize.
func (f serverInfo) initializeResult(version string) []byte {
	o := object{[]byte{'{'}}
	o.text("protocolVersion", version)
	o.raw("capabilities", []byte(f.capabilities))
	o.raw("serverInfo", f.info)
	o.text("instructions", f.instructions)
	return append(o.b, '}')
}

// exchange returns the exchange for a request of the session.
func (s *session) exchange(c caller, m *jsonrpc.Message, out sender) *exchange {
	x := &exchange{server: s.server, access: c.access, choice: s.choice, trace: c.trace, session: s,
		level: int(s.level.Load()), msg: *m, out: out}
	s.mu.Lock()
	x.version, x.abilities, x.access.Program = s.version, s.abilities, s.program
	s.mu.Unlock()
	x.readMeta()
	return x
}

// isLongRunning reports whether a method may take long and send messages before its response.
func isLongRunning(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// postSession handles a message of a session.
func (s *Server) postSession(w http.ResponseWriter, r *http.Request, c caller, session *session, m *jsonrpc.Message) {
	if !m.IsRequest() {
		if m.Method == "" {
			session.handleResponse(m)
		} else {
			session.handleNotification(m)
		}
		if m.Method == "" || m.Method == "notifications/cancelled" {
			session.broadcast(relayMessage{Message: m.Raw})
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if c.lacksDangerous(m) && s.challengeCall(w, r, session.exchange(c, m, nil)) {
		return
	}
	streams := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	rep := &reply{session: session, w: w, acceptsStream: streams, keepAliveInterval: s.KeepAlive}
	session.run(r.Context(), c, m, rep)
}

// run answers one request of the session. requestCtx ends when the client has disconnected.
func (s *session) run(requestCtx context.Context, c caller, m *jsonrpc.Message, rep *reply) {
	long := isLongRunning(m.Method)
	workCtx := requestCtx
	if long {
		var release func()
		workCtx, release = s.server.withKeyLifetime(s.ctx, c) // the client may reconnect for the response
		defer release()
	}
	ctx, cancel, err := s.beginCall(workCtx, m.ID)
	if err != nil {
		rep.answer(http.StatusOK, jsonrpc.AppendError(nil, m.ID,
			&jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: err.Error()}))
		return
	}
	var out sender
	if rep.acceptsStream {
		out = rep
	}
	x := s.exchange(c, m, out)
	if long {
		stop := context.AfterFunc(requestCtx, func() { rep.disconnect(ctx, cancel) })
		defer stop()
		x.closeForReconnect = func() {
			if rep.closeForReconnect() {
				rep.disconnect(ctx, cancel)
			}
		}
		rep.startKeepAlive()
	}
	// The request is unregistered before its response is sent: the client may then reuse the id
	// at once.
	msg := func() []byte {
		defer s.finishCall(m.ID, cancel)
		msg, _ := x.answer(ctx)
		return msg
	}()
	rep.answer(http.StatusOK, msg)
}

// maxBatch limits the messages of a batch.
const maxBatch = 50

// batch handles a batch of messages, which only revision 2025-03-26 has (2025-06-18 changelog).
func (s *Server) batch(w http.ResponseWriter, r *http.Request, c caller, id string, body []byte) {
	session, ok := s.session(w, id, c)
	if !ok {
		return
	}
	if session.version != "2025-03-26" || !json.Valid(body) {
		s.refuse(w, http.StatusBadRequest, "message", "one message at a time")
		return
	}
	parts := jsonrpc.Elements(body)
	if len(parts) == 0 || len(parts) > maxBatch {
		s.refuse(w, http.StatusBadRequest, "message", "a batch has 1 to 50 messages")
		return
	}
	out := []byte{'['}
	for _, part := range parts {
		answer := session.answerOne(r.Context(), c, part)
		if answer != nil {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, answer...)
		}
	}
	if len(out) == 1 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	writeJSON(w, http.StatusOK, append(out, ']'))
}

// answerOne handles one message of a batch and returns the response, or nil.
func (s *session) answerOne(ctx context.Context, c caller, part []byte) []byte {
	m, err := jsonrpc.Parse(part)
	switch {
	case err != nil:
		return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: err.Error()})
	case m.Method == "":
		s.handleResponse(&m)
		return nil
	case !m.IsRequest():
		s.handleNotification(&m)
		return nil
	}
	ctx, cancel, err := s.beginCall(ctx, m.ID)
	if err != nil {
		return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: err.Error()})
	}
	defer s.finishCall(m.ID, cancel)
	answer, _ := s.exchange(c, &m, nil).answer(ctx)
	return answer
}

// get opens the notification stream of a session, or replays the rest of a response (2025-11-25
// basic/transports, "Listening for Messages from the Server").
func (s *Server) get(w http.ResponseWriter, r *http.Request, c caller) {
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		w.Header().Set("Allow", "POST")
		s.refuse(w, http.StatusMethodNotAllowed, "method",
			"only a session has a stream of its own; begin with initialize")
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		s.refuse(w, http.StatusNotAcceptable, "accept", "this is a stream of events (Accept: text/event-stream)")
		return
	}
	session, ok := s.session(w, id, c)
	if !ok {
		return
	}
	if last := r.Header.Get("Last-Event-Id"); strings.HasPrefix(last, "s") {
		s.resume(w, r, c, session, last)
		return
	}
	e, ok := s.beginStream(w, c)
	if !ok {
		return
	}
	e.serve(w, r, func(out *sseWriter) { session.serveNotifications(e, out) })
}

// resume replays the rest of a response.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, c caller, session *session, last string) {
	e, ok := s.beginStream(w, c)
	if !ok {
		return
	}
	defer e.end()
	for _, other := range []context.Context{r.Context(), session.ctx} {
		stop := context.AfterFunc(other, e.cancel)
		defer stop()
	}
	if err := session.resume(e.ctx, w, last, s.KeepAlive); err != nil {
		s.refuse(w, http.StatusBadRequest, "event", err.Error())
	}
}

// serveNotifications sends change notifications to the client until the stream ends.
func (s *session) serveNotifications(e *eventStream, out *sseWriter) {
	stop := context.AfterFunc(s.ctx, e.cancel)
	defer stop()
	mine := &notificationStream{e.cancel}
	s.mu.Lock()
	if s.notifications != nil {
		s.notifications.cancel() // the client reconnected: the older connection is dead
	}
	s.notifications = mine
	s.mu.Unlock()
	defer func() {
		s.touch()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.notifications == mine {
			s.notifications = nil
		}
	}()
	remove := s.server.listeners.add(s.listener, e.cancel)
	defer remove()
	if v, err := s.server.Hub.View(s.listener.access.Person, s.listener.access.Rules); err == nil {
		s.listener.refresh(v) // changes since the last stream
	}
	out.writeComment() //nolint:errcheck // an error shows at the next write
	s.server.writeNotifications(e.ctx, out, s.listener, nil)
}

// writeNotifications writes notifications as they come, and keep-alive comments in between.
func (s *Server) writeNotifications(ctx context.Context, e *sseWriter, l *listener, meta []byte) {
	tick := time.NewTicker(s.KeepAlive)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			for _, msg := range l.takeNotifications(meta) {
				if e.writeEvent("message", "", msg) != nil {
					return
				}
			}
			for _, msg := range l.taskNotifications(ctx, meta) {
				if e.writeEvent("message", "", msg) != nil {
					return
				}
			}
		case <-tick.C:
			if e.writeComment() != nil {
				return
			}
		}
	}
}

// delete ends a session (2025-11-25 basic/transports, "Session Management").
func (s *Server) delete(w http.ResponseWriter, r *http.Request, c caller) {
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		w.Header().Set("Allow", "POST")
		s.refuse(w, http.StatusMethodNotAllowed, "method", "only a session can be ended")
		return
	}
	session, ok := s.session(w, id, c)
	if !ok {
		return
	}
	s.sessions.remove(session)
	session.broadcast(relayMessage{End: true})
	w.WriteHeader(http.StatusNoContent)
}
