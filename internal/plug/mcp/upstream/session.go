package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/tool"
)

const (
	// maxNotes is how many words about the work of one call wait for a caller who
	// is slow to take them. When it is full, further ones are left out.
	maxNotes = 64
	// maxReplies is how many answers to requests of the server wait to be sent.
	// When it is full, further requests go unanswered.
	maxReplies = 16
	// noticeTimeout bounds what is sent to a server without waiting for more.
	noticeTimeout = 5 * time.Second
)

// wire carries messages between a session and a server. What comes in is given
// to session.deliver; when nothing more can come, session.fail is told.
type wire interface {
	// send passes a message on. For a request it may return before the answer
	// has come, or only then. It stops when ctx ends.
	send(ctx context.Context, m *outgoing) error
	// agree tells the revision of the protocol that was agreed upon, and whether
	// it is one without sessions.
	agree(version string, modern bool)
	// listen begins to listen for what the server says unasked, if that takes
	// something. It does not wait.
	listen()
	// sessionless says that the server keeps nothing of us between two requests.
	sessionless() bool
	// hangsUp says that a request is called off by ending its send.
	hangsUp() bool
	// close ends the wire and what it has started.
	close()
}

// session is one connection to a server. It is used by many goroutines at once.
type session struct {
	log    *slog.Logger
	redact func(string) string
	client clientInfo
	offers string // the revision that is offered to a server with sessions
	beats  bool   // the wire finds out by itself whether the far side is there

	ctx  context.Context
	stop context.CancelFunc
	wire wire

	dead    chan struct{} // closed when the connection is of no more use
	once    sync.Once
	why     error         // set before dead is closed
	changed chan struct{} // the list of tools may have changed; holds 1
	doubt   chan struct{} // somebody doubts that the server is there; holds 1
	replies chan *outgoing

	// Set by the handshake, before anybody else knows the session:
	modern  bool
	version string
	server  serverInfo
	tells   bool // it says when they change

	listening atomic.Bool // what the server says unasked would reach us

	mu      sync.Mutex
	wg      sync.WaitGroup
	closed  bool
	last    int64
	pending map[int64]*pending
}

// clientInfo is what we call ourselves.
type clientInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
	// home is Options.Installation.
	home string
}

// serverInfo is what a server calls itself.
type serverInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

// pending is a request that waits for its answer.
type pending struct {
	id     int64
	answer chan answer // holds 1
	notes  chan note   // nil if nobody wants to know
}

type answer struct {
	result json.RawMessage
	err    error
}

// note is a word about the work: one of the two.
type note struct {
	progress *tool.Progress
	log      *tool.Log
}

func newSession(log *slog.Logger, redact func(string) string, client clientInfo) *session {
	s := &session{
		log:     log,
		redact:  redact,
		client:  client,
		offers:  newestSession,
		dead:    make(chan struct{}),
		changed: make(chan struct{}, 1),
		doubt:   make(chan struct{}, 1),
		replies: make(chan *outgoing, maxReplies),
		pending: make(map[int64]*pending),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.start(s.answerRequests)
	return s
}

// start runs f in a goroutine that close waits for. It reports false if the
// session is closed already.
func (s *session) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// fail ends the session's use. The first reason counts.
func (s *session) fail(err error) {
	s.once.Do(func() {
		s.why = err
		close(s.dead)
	})
}

// close ends the session and waits for all that belongs to it.
func (s *session) close() {
	s.fail(errClosed)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if s.wire != nil {
		s.wire.close()
	}
	s.stop()
	s.wg.Wait()
}

var errClosed = errors.New("the connection was closed")

// goneError says that a connection broke while its request was under way.
type goneError struct{ err error }

func (e *goneError) Error() string { return e.err.Error() }
func (e *goneError) Unwrap() error { return e.err }

// unsentError says that the server surely did not take the request in.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// ask sends a request and waits for its result. What comes about it meanwhile
// goes to tell, in the caller's goroutine; tell may be nil.
func (s *session) ask(ctx context.Context, p *pending, m *outgoing, tell func(note)) (json.RawMessage, error) {
	defer s.forget(p)
	// The send goes on for a moment after the answer, so it has a context of its own.
	sending, cancel := context.WithCancel(s.ctx)
	sent := make(chan error, 1)
	if !s.start(func() {
		defer cancel()
		sent <- s.wire.send(sending, m)
	}) {
		cancel()
		return nil, &unsentError{errClosed}
	}
	for {
		select {
		case a := <-p.answer:
			return a.result, a.err
		case n := <-p.notes:
			tell(n)
		case err := <-sent:
			sent = nil
			if err != nil {
				s.judge(err)
				return p.ended(err)
			}
		case <-s.dead:
			cancel()
			return p.ended(&goneError{s.why})
		case <-ctx.Done():
			cancel()
			s.callOff(m.id, ctx.Err(), sent)
			return nil, ctx.Err()
		}
	}
}

// judge draws the conclusions of an error of the wire.
func (s *session) judge(err error) {
	if _, gone := errors.AsType[*goneError](err); gone {
		s.suspect()
	}
	status, ok := errors.AsType[*statusError](err)
	if _, unsent := errors.AsType[*unsentError](err); unsent || ok && status.auth() {
		s.fail(err)
	}
}

// ended is the answer if it has come nevertheless, or else err.
func (p *pending) ended(err error) (json.RawMessage, error) {
	select {
	case a := <-p.answer:
		return a.result, a.err
	default:
		return nil, err
	}
}

// expect prepares for the answer to a request. Its id is the next one.
func (s *session) expect(notes bool) *pending {
	p := &pending{answer: make(chan answer, 1)}
	if notes {
		p.notes = make(chan note, maxNotes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	p.id = s.last
	s.pending[p.id] = p
	return p
}

func (s *session) forget(p *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, p.id)
}

// waits says that the request still waits for its answer.
func (s *session) waits(id int64) bool { return s.find(id) != nil }

func (s *session) find(id int64) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending[id]
}

// take returns the request that waits for this answer, which no longer does.
func (s *session) take(id int64) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending[id]
	delete(s.pending, id)
	return p
}

// callOff tells the server that nobody waits for the answer any more, once the
// request is on its way: what comes before it would call off nothing.
func (s *session) callOff(id int64, why error, sent <-chan error) {
	if s.modern && s.wire.hangsUp() {
		return
	}
	reason := "the caller gave up"
	if errors.Is(why, context.DeadlineExceeded) {
		reason = "the call took too long"
	}
	s.start(func() {
		ctx, cancel := context.WithTimeout(s.ctx, noticeTimeout)
		defer cancel()
		if sent != nil {
			select {
			case <-sent:
			case <-ctx.Done():
				return
			}
		}
		_ = s.notify(ctx, "notifications/cancelled", map[string]any{"requestId": id, "reason": reason})
	})
}

func (s *session) notify(ctx context.Context, method string, params any) error {
	m, err := request(0, method, params)
	if err != nil {
		return err
	}
	return s.wire.send(ctx, m)
}

// answerRequests answers what servers ask.
func (s *session) answerRequests() {
	for {
		select {
		case m := <-s.replies:
			ctx, cancel := context.WithTimeout(s.ctx, noticeTimeout)
			if err := s.wire.send(ctx, m); err != nil {
				s.log.Debug("upstream: the server's request was not answered", "error", s.redact(err.Error()))
			}
			cancel()
		case <-s.dead:
			return
		}
	}
}

// deliver takes in what came from the server, on the channel of the request from
// if that is not 0. It never waits.
func (s *session) deliver(from int64, e *event) error {
	if e.huge {
		if p := s.take(idOfHuge(e.head, e.tail)); p != nil {
			p.answer <- answer{err: errTooLarge}
			return nil
		}
		return errTooLarge
	}
	list, err := readMessages(e.data)
	if err != nil {
		return err
	}
	for i := range list {
		s.handle(from, &list[i])
	}
	return nil
}

func (s *session) handle(from int64, m *message) {
	switch {
	case m.Method == "":
		p := s.take(m.number())
		if p == nil {
			return // nobody waits for it any more
		}
		if m.Error != nil {
			p.answer <- answer{err: m.Error}
			return
		}
		p.answer <- answer{result: m.Result}
	case m.ID != nil:
		if a := reply(m); a != nil {
			select {
			case s.replies <- a:
			default:
			}
		}
	case m.Method == "notifications/tools/list_changed":
		s.touch()
	case m.Method == "notifications/progress":
		s.progress(m.Params)
	case m.Method == "notifications/message":
		s.line(from, m.Params)
	case m.Method == "notifications/subscriptions/acknowledged":
		s.listening.Store(true)
	}
}

// touch says that the list of tools may have changed.
func (s *session) touch() {
	select {
	case s.changed <- struct{}{}:
	default: // it will be looked at anyway
	}
}

// suspect asks for a look whether the server is still there.
func (s *session) suspect() {
	select {
	case s.doubt <- struct{}{}:
	default:
	}
}

func (s *session) progress(params json.RawMessage) {
	var p struct {
		Token json.RawMessage `json:"progressToken"`
		tool.Progress
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	s.note(idNumber(p.Token), note{progress: &p.Progress})
}

// line passes on a line of the server's log, if it came on the channel of a
// call: nothing else says to which it belongs.
func (s *session) line(from int64, params json.RawMessage) {
	var l tool.Log
	if from == 0 || json.Unmarshal(params, &l) != nil {
		return
	}
	s.note(from, note{log: &l})
}

func (s *session) note(id int64, n note) {
	p := s.find(id)
	if p == nil || p.notes == nil {
		return
	}
	select {
	case p.notes <- n:
	default:
	}
}
