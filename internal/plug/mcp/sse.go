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

// pipeQueue is how many messages wait for a slow client. One that is further
// behind is cut off.
const pipeQueue = 256

// errSlow ends a client that does not read.
var errSlow = errors.New("the client does not read")

// pipe is the one stream on which a session of HTTP+SSE hears everything. It
// outlives the connection for a while. It is safe for concurrent use.
type pipe struct {
	session *session
	queue   chan []byte
	rokid   bool // it speaks the words of Rokid's platform

	mu       sync.Mutex
	attached *getting    // the connection; nil if there is none
	lost     *time.Timer // ends the session if nobody comes back
}

func (p *pipe) send(msg []byte) error {
	select {
	case p.queue <- msg:
		return nil
	case <-p.session.ctx.Done():
		return errClosed
	default:
		p.session.server.Logger.Warn("an MCP client is cut off, since it does not read", "door", p.session.door, "program", p.session.program)
		p.session.server.sessions.remove(p.session)
		return errSlow
	}
}

// attach makes a connection the pipe's. An older one is ended.
func (p *pipe) attach(cancel context.CancelFunc) (detach func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attached != nil {
		p.attached.cancel()
	}
	if p.lost != nil {
		p.lost.Stop()
	}
	mine := &getting{cancel}
	p.attached = mine
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.attached == mine {
			p.attached = nil
			p.lost = time.AfterFunc(resumeWithin, func() { p.session.server.sessions.remove(p.session) })
		}
	}
}

// dialect is how a door of HTTP+SSE words things.
type dialect struct {
	door     string
	messages string // where to post, without the query
	param    string // of the query, that names the session; "": session_id
	// rokid: the words of Rokid's platform, for clients that ask for no events.
	rokid bool
	// idle ends a session in which nothing is asked; 0: none is ended.
	idle time.Duration
	// most and resultBytes bound the tools that are listed and the text of their
	// results, for clients that break with more; 0: no bound.
	most, resultBytes int
}

// address is where the client of a session posts.
func (d *dialect) address(session string) string { return d.messages + "?" + d.named() + "=" + session }

func (d *dialect) named() string { return cmp.Or(d.param, "session_id") }

// ServeSSE is /mcp/sse: the HTTP+SSE of 2024-11-05.
func (s *Server) ServeSSE(w http.ResponseWriter, r *http.Request) {
	if c, ok := s.enter(w, r, doorStandard); ok {
		s.openPipe(w, r, c, dialect{door: doorStandard, messages: "/mcp/messages"})
	}
}

// ServeMessages is /mcp/messages, where clients of /mcp/sse post.
func (s *Server) ServeMessages(w http.ResponseWriter, r *http.Request) {
	c, ok := s.enter(w, r, doorStandard)
	if !ok {
		return
	}
	id := r.URL.Query().Get("session_id")
	session := s.sessions.piped(id, c)
	if session == nil && s.Relay == nil {
		s.refuse(w, http.StatusNotFound, "session", "there is no such session; connect again")
		return
	}
	s.postPipe(w, r, c, session, id, dialect{})
}

// piped finds a session with a pipe, if it is the caller's.
func (t *sessions) piped(id string, c caller) *session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.all[id]
	if s == nil || s.pipe == nil || s.key != c.access.Key || s.door != c.access.Door {
		return nil
	}
	s.touch()
	return s
}

// openPipe serves a stream: of a new session, or of one whose connection broke.
func (s *Server) openPipe(w http.ResponseWriter, r *http.Request, c caller, d dialect) {
	in, leave, ok := s.stream(r.Context(), c)
	defer leave()
	if !ok {
		s.tooManyStreams(w)
		return
	}
	session := s.sessions.piped(r.URL.Query().Get(d.named()), c)
	if session == nil {
		var err error
		if session, err = s.newPipe(c, d); err != nil {
			s.tooManySessions(w)
			return
		}
	}
	ctx, cancel := context.WithCancel(in)
	defer cancel()
	over := context.AfterFunc(in, func() { s.endIfRevoked(in, session) })
	defer over()
	stop := context.AfterFunc(session.ctx, cancel)
	defer stop()
	defer session.pipe.attach(cancel)()
	defer s.listeners.add(session.listener, session.end)()
	session.servePipe(ctx, newEvents(w), d)
}

// endIfRevoked ends a session, and the calls in it, whose key does not hold any more. One
// whose connection broke goes on.
func (s *Server) endIfRevoked(ctx context.Context, session *session) {
	if context.Cause(ctx) == account.ErrEnded {
		s.sessions.remove(session)
	}
}

// pipeIDLength is how long the id of a session with a pipe is.
const pipeIDLength = 32

func (s *Server) newPipe(c caller, d dialect) (*session, error) {
	var raw [pipeIDLength / 2]byte
	rand.Read(raw[:])
	session, err := s.makeSession(hex.EncodeToString(raw[:]), d.door, "2024-11-05", abilities(nil), c)
	if err != nil {
		return nil, err
	}
	session.pipe = &pipe{session: session, queue: make(chan []byte, pipeQueue), rokid: d.rokid}
	if err := s.sessions.add(session); err != nil {
		return nil, err
	}
	if d.messages != "" { // the client posts, and another instance may get it
		context.AfterFunc(session.ctx, session.offer(d))
	}
	return session, nil
}

// servePipe writes what the session has to say until ctx ends.
func (s *session) servePipe(ctx context.Context, e *events, d dialect) {
	address := d.address(s.id)
	name, every, err := "message", s.server.KeepAlive, error(nil)
	if d.rokid {
		name, every = "", rokidPing
		o := object{[]byte{'{'}}
		o.text("endpoint", address)
		err = e.event("", "", append(o.b, '}'))
	} else {
		err = e.event("endpoint", "", []byte(address))
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case msg := <-s.pipe.queue:
			err = e.event(name, "", msg)
		case <-s.listener.wake:
			for _, msg := range s.listener.notices(nil) {
				if !d.rokid {
					err = e.event(name, "", msg)
				}
			}
		case <-tick.C:
			if d.idle > 0 && time.Since(time.Unix(0, s.used.Load())) > d.idle {
				s.server.sessions.remove(s)
				return
			}
			if d.rokid {
				err = e.event("", "", []byte(`{"type":"ping"}`))
			} else {
				err = e.comment()
			}
		}
	}
}

// postPipe takes a message; what it is answered goes into the pipe. Without a
// session here, another instance may have it.
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
		session.receive(c, m, d)
	} else if taken, err := s.forward(r.Context(), id, c, body); !taken {
		if err != nil {
			s.Logger.WarnContext(r.Context(), "a message was not passed on", "error", err)
		}
		s.noPipe(w, d)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusAccepted)
	w.Write([]byte("Accepted")) //nolint:errcheck // the client has gone
}

// noPipe tells that there is no such session.
func (s *Server) noPipe(w http.ResponseWriter, d dialect) {
	switch d.door {
	case doorRokid:
	case doorLearn:
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

// receive takes a message of a session with a pipe.
func (s *session) receive(c caller, m jsonrpc.Message, d dialect) {
	switch {
	case m.Method == "":
		s.response(&m)
		return
	case !m.Call():
		s.note(&m)
		return
	}
	ctx, cancel, err := s.begin(s.ctx, m.ID)
	if err != nil {
		s.pipe.send(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: err.Error()})) //nolint:errcheck // told in the log
		return
	}
	s.server.work.Go(func() {
		msg := func() []byte {
			defer s.finish(m.ID, cancel) // before the answer is out, with which the id is free
			return s.reply(ctx, c, &m, d)
		}()
		s.pipe.send(msg) //nolint:errcheck // told in the log
	})
}

// reply answers one request that came through a pipe.
func (s *session) reply(ctx context.Context, c caller, m *jsonrpc.Message, d dialect) []byte {
	if m.Method == "initialize" {
		return s.greet(c, m)
	}
	x := s.exchange(c, m, s.pipe)
	x.merge = d.door == doorRokid
	x.most, x.resultBytes = d.most, d.resultBytes
	if d.rokid {
		return x.rokidAnswer(ctx)
	}
	msg, _ := x.answer(ctx)
	return msg
}

// greet answers initialize in a session that is there already.
func (s *session) greet(c caller, m *jsonrpc.Message) []byte {
	s.server.metrics.requests.WithLabelValues(c.access.Door, m.Method).Inc()
	var h hello
	if json.Unmarshal(m.Params, &h) != nil {
		h = hello{}
	}
	version := h.agreed()
	s.mu.Lock()
	s.version, s.can, s.program = version, abilities(h.Capabilities), h.program()
	s.mu.Unlock()
	return jsonrpc.AppendResult(nil, m.ID, s.server.face(s.door).welcome(version))
}
