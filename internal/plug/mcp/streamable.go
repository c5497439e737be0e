package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/jsonrpc"
)

// doorStandard is the name of /mcp in traces and metrics.
const doorStandard = "mcp"

// ServeHTTP is /mcp: Streamable HTTP, in the revisions with sessions and in those
// without.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := s.enter(w, r, doorStandard)
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
		s.notAllowed(w)
	}
}

func (s *Server) notAllowed(w http.ResponseWriter) {
	w.Header().Set("Allow", "POST, GET, DELETE")
	s.refuse(w, http.StatusMethodNotAllowed, "method", "this address takes POST, GET and DELETE")
}

// refuse turns a request away before anything of it was read.
func (s *Server) refuse(w http.ResponseWriter, status int, reason, text string) {
	s.metrics.refused.WithLabelValues(reason).Inc()
	writeJSON(w, status, jsonrpc.AppendError(nil, nil, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: text}))
}

// enter finds out who calls, and whether from where they may.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, door string) (caller, bool) {
	if !s.hosts.allows(r) {
		s.Logger.WarnContext(r.Context(), "a request was refused: it came under a strange name or from a strange page", "host", r.Host, "origin", r.Header.Get("Origin"))
		s.refuse(w, http.StatusForbidden, "origin", "this host name or origin is not allowed (settings mcp.hosts and mcp.origins)")
		return caller{}, false
	}
	secret := bearer(r)
	if secret == "" && s.Anybody != nil {
		c := newCaller(s.Anybody(), door, "")
		c.access.Address = s.Address(r).String()
		return c, true
	}
	p, hash, err := s.Accounts.Authenticate(r.Context(), secret, account.ScopeMCP)
	switch {
	case err == nil:
		c := newCaller(p, door, hash)
		c.access.Address = s.Address(r).String()
		return c, true
	case account.Refused(err):
		tooMany := s.Guard.Refuse(s.Address(r))
		s.Logger.WarnContext(r.Context(), "a key was refused", "door", door, "cause", err, "address", s.Address(r))
		if tooMany {
			w.Header().Set("Retry-After", "60")
			s.refuse(w, http.StatusTooManyRequests, "guessing", "too many refused keys from this address; wait a minute")
			return caller{}, false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="patchbay", scope="mcp"`)
		s.refuse(w, http.StatusUnauthorized, "key", "a key with scope mcp is needed, as Authorization: Bearer …")
	case r.Context().Err() == nil:
		s.Logger.ErrorContext(r.Context(), "a key could not be checked", "error", err)
		s.refuse(w, http.StatusServiceUnavailable, "database", "the key could not be checked; try again later")
	}
	return caller{}, false
}

func bearer(r *http.Request) string {
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(kind, "Bearer") {
		return strings.TrimSpace(secret)
	}
	return ""
}

// body reads a request's body.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if r.ContentLength > s.MaxBody {
		s.refuse(w, http.StatusRequestEntityTooLarge, "size", "the request is too large")
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
		s.refuse(w, http.StatusRequestEntityTooLarge, "size", "the request is too large")
		return nil, false
	}
	s.refuse(w, http.StatusBadRequest, "body", "the request's body broke off")
	return nil, false
}

// post takes a message. Which era it is of is said by its version header, or by
// what it carries itself.
func (s *Server) post(w http.ResponseWriter, r *http.Request, c caller) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	version := r.Header.Get("Mcp-Protocol-Version")
	id := r.Header.Get("Mcp-Session-Id")
	if id != "" && version < stateless && isBatch(body) {
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
		writeJSON(w, http.StatusBadRequest, jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: code, Message: err.Error()}))
		return
	}
	switch {
	case version >= stateless, id == "" && speaksStateless(&m):
		s.postStateless(w, r, c, &m)
	case version != "" && !slices.Contains(revisions, version):
		s.refuse(w, http.StatusBadRequest, "version", "this version of the protocol is not known: "+version)
	case m.Method == "initialize" && m.Call():
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

// session finds the session of a request, or tells that there is none.
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

// hello is what a client says about itself in initialize.
type hello struct {
	ProtocolVersion string          `json:"protocolVersion"`
	Capabilities    json.RawMessage `json:"capabilities"`
	ClientInfo      struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"clientInfo"`
}

func (h *hello) program() string {
	return strings.TrimSpace(h.ClientInfo.Name + " " + h.ClientInfo.Version)
}

// agreed is the revision in which we answer.
func (h *hello) agreed() string {
	if slices.Contains(revisions, h.ProtocolVersion) {
		return h.ProtocolVersion
	}
	return revisions[0]
}

// initialize begins a session.
func (s *Server) initialize(w http.ResponseWriter, c caller, m *jsonrpc.Message) {
	s.metrics.requests.WithLabelValues(c.access.Door, m.Method).Inc()
	var h hello
	if err := json.Unmarshal(m.Params, &h); err != nil || h.ProtocolVersion == "" {
		writeJSON(w, http.StatusBadRequest, jsonrpc.AppendError(nil, m.ID, invalid("protocolVersion, capabilities and clientInfo are needed")))
		return
	}
	can := abilities(h.Capabilities)
	version := h.agreed()
	session, err := s.makeSession(s.newID(c, version, can), c.access.Door, version, can, c)
	if err == nil {
		session.program = h.program()
		err = s.sessions.add(session)
	}
	if err != nil {
		s.tooManySessions(w)
		return
	}
	w.Header()["Mcp-Session-Id"] = []string{session.id}
	writeJSON(w, http.StatusOK, jsonrpc.AppendResult(nil, m.ID, s.face(c.access.Door).welcome(version)))
}

// face is what a door says about itself.
type face struct {
	info         json.RawMessage // an object: name, title and version
	capabilities string          // an object
	instructions string
}

func (s *Server) face(door string) face {
	if door == doorLearn {
		return learnFace
	}
	return face{s.info, capabilities, instructions}
}

// welcome is the result of initialize.
func (f face) welcome(version string) []byte {
	o := object{[]byte{'{'}}
	o.text("protocolVersion", version)
	o.raw("capabilities", []byte(f.capabilities))
	o.raw("serverInfo", f.info)
	o.text("instructions", f.instructions)
	return append(o.b, '}')
}

// exchange begins to answer a request in the session.
func (s *session) exchange(c caller, m *jsonrpc.Message, out sender) *exchange {
	x := &exchange{server: s.server, access: c.access, session: s, level: int(s.level.Load()), msg: *m, out: out}
	s.mu.Lock()
	x.version, x.can, x.access.Program = s.version, s.can, s.program
	s.mu.Unlock()
	x.readMeta()
	return x
}

// lasting are the methods that may take long, and say something before their
// answer.
func lasting(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// postSession takes a message in a session.
func (s *Server) postSession(w http.ResponseWriter, r *http.Request, c caller, session *session, m *jsonrpc.Message) {
	if !m.Call() {
		if m.Method == "" {
			session.response(m)
		} else {
			session.note(m)
		}
		if m.Method == "" || m.Method == "notifications/cancelled" {
			session.spread(relayed{Message: m.Raw})
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	streams := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	rep := &reply{session: session, w: w, streams: streams, every: s.KeepAlive}
	session.run(r.Context(), c, m, rep)
}

// run answers one request of the session. Asking ends when the client has gone.
func (s *session) run(asking context.Context, c caller, m *jsonrpc.Message, rep *reply) {
	long := lasting(m.Method)
	working := asking
	if long {
		var leave func()
		working, leave = s.server.working(s.ctx, c) // the client may come back for the answer
		defer leave()
	}
	ctx, cancel, err := s.begin(working, m.ID)
	if err != nil {
		rep.answer(http.StatusOK, jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: err.Error()}))
		return
	}
	var out sender
	if rep.streams {
		out = rep
	}
	x := s.exchange(c, m, out)
	if long {
		stop := context.AfterFunc(asking, func() { rep.lose(ctx, cancel) })
		defer stop()
		x.pause = func() {
			if rep.pauseNow() {
				rep.lose(ctx, cancel)
			}
		}
		rep.patient()
	}
	// The request is over before its answer is out: a client may use the id again
	// as soon as it has that.
	msg := func() []byte {
		defer s.finish(m.ID, cancel)
		msg, _ := x.answer(ctx)
		return msg
	}()
	rep.answer(http.StatusOK, msg)
}

// batchMost bounds the messages of a batch.
const batchMost = 50

// batch takes several messages at once, which the revision 2025-03-26 alone has.
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
	if len(parts) == 0 || len(parts) > batchMost {
		s.refuse(w, http.StatusBadRequest, "message", "a batch has 1 to 50 messages")
		return
	}
	out := []byte{'['}
	for _, part := range parts {
		answer := session.one(r.Context(), c, part)
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

// one takes one message of a batch and returns the answer, or nil.
func (s *session) one(ctx context.Context, c caller, part []byte) []byte {
	m, err := jsonrpc.Parse(part)
	switch {
	case err != nil:
		return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: err.Error()})
	case m.Method == "":
		s.response(&m)
		return nil
	case !m.Call():
		s.note(&m)
		return nil
	}
	ctx, cancel, err := s.begin(ctx, m.ID)
	if err != nil {
		return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: err.Error()})
	}
	defer s.finish(m.ID, cancel)
	answer, _ := s.exchange(c, &m, nil).answer(ctx)
	return answer
}

// get opens the stream of notices of a session, or sends the rest of an answer.
func (s *Server) get(w http.ResponseWriter, r *http.Request, c caller) {
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		w.Header().Set("Allow", "POST")
		s.refuse(w, http.StatusMethodNotAllowed, "method", "only a session has a stream of its own; begin with initialize")
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
	in, leave, ok := s.stream(r.Context(), c)
	defer leave()
	if !ok {
		s.tooManyStreams(w)
		return
	}
	ctx, cancel := context.WithCancel(in)
	defer cancel()
	stop := context.AfterFunc(session.ctx, cancel)
	defer stop()
	if last := r.Header.Get("Last-Event-Id"); strings.HasPrefix(last, "s") {
		if err := session.resume(ctx, w, last, s.KeepAlive); err != nil {
			s.refuse(w, http.StatusBadRequest, "event", err.Error())
		}
		return
	}
	session.serveNotices(ctx, cancel, w)
}

// serveNotices tells the client of changes until ctx ends.
func (s *session) serveNotices(ctx context.Context, cancel context.CancelFunc, w http.ResponseWriter) {
	mine := &getting{cancel}
	s.mu.Lock()
	if s.getting != nil {
		s.getting.cancel() // the client comes again: the older connection is dead
	}
	s.getting = mine
	s.mu.Unlock()
	defer func() {
		s.touch()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.getting == mine {
			s.getting = nil
		}
	}()
	remove := s.server.listeners.add(s.listener, cancel)
	defer remove()
	if v, err := s.server.Board.View(s.listener.access.Person, s.listener.access.Rules); err == nil {
		s.listener.look(v) // what has changed while nobody listened
	}
	e := newEvents(w)
	e.comment() //nolint:errcheck // shows at the next write
	s.server.pump(ctx, e, s.listener, nil)
}

// pump writes notices as they come, and comments when there are none.
func (s *Server) pump(ctx context.Context, e *events, l *listener, meta []byte) {
	tick := time.NewTicker(s.KeepAlive)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			for _, msg := range l.notices(meta) {
				if e.event("message", "", msg) != nil {
					return
				}
			}
		case <-tick.C:
			if e.comment() != nil {
				return
			}
		}
	}
}

// delete ends a session.
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
	session.spread(relayed{End: true})
	w.WriteHeader(http.StatusNoContent)
}
