package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/jsonrpc"
)

// pipeQueueSize limits the messages queued for a slow client. A client that falls further behind
// is disconnected.
const pipeQueueSize = 256

// errSlow ends the session of a client that does not read.
var errSlow = errors.New("the client does not read")

// pipe is the single server-to-client stream of an HTTP+SSE session. It outlives the connection
// for a while. It is safe for concurrent use.
type pipe struct {
	session *session
	rokid   bool          // Rokid's dialect
	ready   chan struct{} // there are messages in the queue; holds 1

	mu       sync.Mutex
	queue    [][]byte
	attached *notificationStream // nil without a connection
	expiry   *time.Timer         // ends the session if the client does not reconnect
}

func (p *pipe) send(msg []byte) error {
	if p.session.ctx.Err() != nil {
		return errClosed
	}
	p.mu.Lock()
	full := len(p.queue) >= pipeQueueSize
	if !full {
		p.queue = append(p.queue, msg)
	}
	p.mu.Unlock()
	if full {
		p.session.server.Logger.Warn("an MCP client is cut off, since it does not read", "channel", p.session.channel,
			"program", p.session.program)
		p.session.server.sessions.remove(p.session)
		return errSlow
	}
	p.wake()
	return nil
}

func (p *pipe) wake() {
	select {
	case p.ready <- struct{}{}:
	default: // somebody is about to look
	}
}

// next takes the oldest message from the queue; nil if there is none.
func (p *pipe) next() (msg []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.queue = nil
		return nil
	}
	msg, p.queue[0] = p.queue[0], nil
	p.queue = p.queue[1:]
	return msg
}

// writeQueue writes the messages of the queue. One that cannot be written is lost; those after it
// are for the next connection.
func (p *pipe) writeQueue(ctx context.Context, write func(msg []byte) error) error {
	for {
		if ctx.Err() != nil {
			p.wake()
			return ctx.Err()
		}
		msg := p.next()
		if msg == nil {
			return nil
		}
		if err := write(msg); err != nil {
			p.wake()
			return err
		}
	}
}

// attach assigns a connection to the pipe and ends the previous one.
func (p *pipe) attach(cancel context.CancelFunc) (detach func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attached != nil {
		p.attached.cancel()
	}
	if p.expiry != nil {
		p.expiry.Stop()
	}
	mine := &notificationStream{cancel}
	p.attached = mine
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.attached == mine {
			p.attached = nil
			p.expiry = time.AfterFunc(resumeWindow, func() { p.session.server.sessions.remove(p.session) })
		}
	}
}

// dialect describes how an HTTP+SSE endpoint differs from the standard.
type dialect struct {
	channel      string
	messagesPath string // path to post to, without the query
	sessionParam string // query parameter with the session id; "": session_id
	// rokid selects Rokid's dialect, for clients that accept no event stream.
	rokid bool
	// idleTimeout ends a session without requests; 0 means never.
	idleTimeout time.Duration
	// maxTools limits the listed tools and resultBytes the text of results, for clients that
	// fail with more; 0 means no limit.
	maxTools, resultBytes int
}

// postAddress returns the address to which the client of a session posts.
func (d *dialect) postAddress(session string) string {
	return d.messagesPath + "?" + d.sessionParamName() + "=" + session
}

func (d *dialect) sessionParamName() string { return cmp.Or(d.sessionParam, "session_id") }

// ServeSSE serves /mcp/sse: the HTTP+SSE transport of 2024-11-05 (basic/transports, "HTTP with
// SSE").
func (s *Server) ServeSSE(w http.ResponseWriter, r *http.Request) {
	if c, ok := s.authenticate(w, r, channelMCP); ok {
		s.openPipe(w, r, c, dialect{channel: channelMCP, messagesPath: "/mcp/messages"})
	}
}

// ServeMessages serves /mcp/messages, where clients of /mcp/sse post.
func (s *Server) ServeMessages(w http.ResponseWriter, r *http.Request) {
	c, ok := s.authenticate(w, r, channelMCP)
	if !ok {
		return
	}
	id := r.URL.Query().Get("session_id")
	session := s.sessions.findPiped(id, c)
	if session == nil && s.Relay == nil {
		s.refuse(w, http.StatusNotFound, "session", "there is no such session; connect again")
		return
	}
	s.postPipe(w, r, c, session, id, dialect{})
}

// findPiped returns a session with a pipe if it belongs to the caller, else nil.
func (t *sessions) findPiped(id string, c caller) *session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.all[id]
	if s == nil || s.pipe == nil || s.key != c.access.Key || s.channel != c.access.Channel {
		return nil
	}
	s.touch()
	return s
}

// openPipe serves the stream of a new session, or of one whose connection broke.
func (s *Server) openPipe(w http.ResponseWriter, r *http.Request, c caller, d dialect) {
	e, ok := s.beginStream(w, c)
	if !ok {
		return
	}
	session := s.sessions.findPiped(r.URL.Query().Get(d.sessionParamName()), c)
	if session == nil {
		var err error
		if session, err = s.newPipe(c, d); err != nil {
			e.end()
			s.tooManySessions(w)
			return
		}
	}
	e.serve(w, r, func(out *sseWriter) {
		over := context.AfterFunc(e.ctx, func() { s.endIfRevoked(e.ctx, session) })
		defer over()
		stop := context.AfterFunc(session.ctx, e.cancel)
		defer stop()
		defer session.pipe.attach(e.cancel)()
		defer s.listeners.add(session.listener, session.end)()
		session.servePipe(e.ctx, out, d)
	})
}

// endIfRevoked ends a session and its calls if its key is no longer valid. A session whose
// connection merely broke continues.
func (s *Server) endIfRevoked(ctx context.Context, session *session) {
	if context.Cause(ctx) == account.ErrEnded {
		s.sessions.remove(session)
	}
}

// pipeIDLength is the length of the id of a session with a pipe.
const pipeIDLength = 32

func (s *Server) newPipe(c caller, d dialect) (*session, error) {
	var raw [pipeIDLength / 2]byte
	rand.Read(raw[:])
	session, err := s.makeSession(hex.EncodeToString(raw[:]), d.channel, "2024-11-05", abilities(nil), c)
	if err != nil {
		return nil, err
	}
	session.pipe = &pipe{session: session, ready: make(chan struct{}, 1), rokid: d.rokid}
	if err := s.sessions.add(session); err != nil {
		return nil, err
	}
	if d.messagesPath != "" { // POSTs may reach another instance
		context.AfterFunc(session.ctx, session.serveRelay(d))
	}
	return session, nil
}

// servePipe writes the session's messages until ctx ends.
func (s *session) servePipe(ctx context.Context, e *sseWriter, d dialect) {
	address := d.postAddress(s.id)
	name, every, err := "message", s.server.KeepAlive, error(nil)
	if d.rokid {
		name, every = "", rokidPingInterval
		o := object{[]byte{'{'}}
		o.text("endpoint", address)
		err = e.writeEvent("", "", append(o.b, '}'))
	} else {
		err = e.writeEvent("endpoint", "", []byte(address))
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case <-s.pipe.ready:
			err = s.pipe.writeQueue(ctx, func(msg []byte) error { return e.writeEvent(name, "", msg) })
		case <-s.listener.wake:
			for _, msg := range s.listener.takeNotifications(nil) {
				if !d.rokid {
					err = e.writeEvent(name, "", msg)
				}
			}
		case <-tick.C:
			if d.idleTimeout > 0 && time.Since(time.Unix(0, s.lastUsed.Load())) > d.idleTimeout {
				s.server.sessions.remove(s)
				return
			}
			if d.rokid {
				err = e.writeEvent("", "", []byte(`{"type":"ping"}`))
			} else {
				err = e.writeComment()
			}
		}
	}
}

// postPipe accepts a message; the response is sent through the pipe. If the session is not here,
// the message is forwarded to the instance that holds it.
func (s *Server) postPipe(w http.ResponseWriter, r *http.Request, c caller, session *session, id string, d dialect) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	m, err := jsonrpc.Parse(body)
	if err != nil {
		code, id := jsonrpc.InvalidRequest, m.ID
		text := err.Error()
		if d.rokid {
			code, id, text = jsonrpc.ParseError, json.RawMessage("null"), "Parse error"
		} else if errors.Is(err, jsonrpc.ErrSyntax) {
			code = jsonrpc.ParseError
		}
		s.metrics.refused.WithLabelValues("message").Inc()
		writeJSON(w, http.StatusBadRequest, jsonrpc.AppendError(nil, id, &jsonrpc.Error{Code: code, Message: text}))
		return
	}
	if session != nil {
		session.handleMessage(c, m, d)
	} else if taken, err := s.forward(r.Context(), id, c, body); !taken {
		if err != nil {
			s.Logger.WarnContext(r.Context(), "a message was not passed on", "error", err)
		}
		s.refuseUnknownSession(w, d)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusAccepted)
	w.Write([]byte("Accepted")) //nolint:errcheck // the client has disconnected
}

// refuseUnknownSession responds that the session does not exist.
func (s *Server) refuseUnknownSession(w http.ResponseWriter, d dialect) {
	switch d.channel {
	case channelRokid:
	case channelLearn:
		s.refuseLearn(w, http.StatusNotFound, "session", "Session not found")
		return
	default:
		s.refuse(w, http.StatusNotFound, "session", "there is no such session; connect again")
		return
	}
	s.metrics.refused.WithLabelValues("session").Inc()
	e := &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "Invalid session_id"}
	writeJSON(w, http.StatusBadRequest, jsonrpc.AppendError(nil, []byte("null"), e))
}

// handleMessage handles a message of a session with a pipe.
func (s *session) handleMessage(c caller, m jsonrpc.Message, d dialect) {
	switch {
	case m.Method == "":
		s.handleResponse(&m)
		return
	case !m.IsRequest():
		s.handleNotification(&m)
		return
	}
	ctx, cancel, err := s.beginCall(s.ctx, m.ID)
	if err != nil {
		s.pipe.send(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: err.Error()})) //nolint:errcheck // the pipe logs it
		return
	}
	s.server.work.Go(func() {
		msg := func() []byte {
			defer s.finishCall(m.ID, cancel) // before the response, after which the client may reuse the id
			return s.reply(ctx, c, &m, d)
		}()
		s.pipe.send(msg) //nolint:errcheck // the pipe logs it
	})
}

// reply returns the response to a request that came through a pipe.
func (s *session) reply(ctx context.Context, c caller, m *jsonrpc.Message, d dialect) []byte {
	if m.Method == "initialize" {
		return s.initialize(c, m)
	}
	x := s.exchange(c, m, s.pipe)
	x.mergeStructured = d.channel == channelRokid
	x.maxTools, x.resultBytes = d.maxTools, d.resultBytes
	if d.rokid {
		return x.rokidAnswer(ctx)
	}
	msg, _ := x.answer(ctx)
	return msg
}

// initialize answers initialize in an existing session.
func (s *session) initialize(c caller, m *jsonrpc.Message) []byte {
	s.server.metrics.requests.WithLabelValues(c.access.Channel, m.Method).Inc()
	var h initializeParams
	if json.Unmarshal(m.Params, &h) != nil {
		h = initializeParams{}
	}
	version, can := h.negotiatedVersion(), abilities(h.Capabilities)
	s.mu.Lock()
	s.version, s.abilities, s.program = version, can, h.program()
	s.mu.Unlock()
	return jsonrpc.AppendResult(nil, m.ID, s.server.serverInfo(s.channel).withApps(can).initializeResult(version))
}
