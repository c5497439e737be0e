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
	"patchbay/internal/tracing"
)

const (
	// maxUpdates limits the progress and log notifications queued for a slow caller. Further
	// ones are dropped.
	maxUpdates = 64
	// maxReplies limits the queued responses to requests of the server. Further requests are not
	// answered.
	maxReplies = 16
	// notifyTimeout limits the sending of notifications.
	notifyTimeout = 5 * time.Second
)

// wire carries messages between a session and a server. It passes received messages to
// session.deliver, and calls session.fail when no more can come.
type wire interface {
	// send sends a message. For a request it may return before or after the response. It stops
	// when ctx ends.
	send(ctx context.Context, m *outgoing) error
	// setVersion sets the negotiated protocol revision, and whether it is a stateless one.
	setVersion(version string, modern bool)
	// listen starts listening for unsolicited messages, if the transport needs that. It does not
	// block.
	listen()
	// isStateless reports whether the server keeps no state between two requests.
	isStateless() bool
	// cancelsByDisconnect reports whether a request is cancelled by ending its send.
	cancelsByDisconnect() bool
	// close closes the wire and what it started.
	close()
}

// session is one connection to a server. It is safe for concurrent use.
type session struct {
	log            *slog.Logger
	redact         func(string) string
	client         clientInfo
	offeredVersion string // revision offered in initialize
	hasHeartbeat   bool   // the wire itself detects a dead peer

	ctx  context.Context
	stop context.CancelFunc
	wire wire

	done    chan struct{} // closed when the connection is no longer usable
	once    sync.Once
	err     error         // set before done is closed
	changed chan struct{} // the list of tools or prompts may have changed; holds 1
	// contentChanged means that the list of resources may have changed; holds 1.
	contentChanged chan struct{}
	// contentSeen means that a client's list had a resource that is not known in this form; holds
	// 1.
	contentSeen chan struct{}
	probeWanted chan struct{} // the server may be dead; holds 1
	replies     chan *outgoing

	// Set by the handshake, before the session is shared:
	modern          bool
	version         string
	server          serverInfo
	instructions    string
	has             capabilities
	notifiesChanges bool // the server announces changes

	// Set before the handshake:
	slug   string // of the upstream, which is part of its URIs here
	passes passing
	roots  json.RawMessage // the answer to roots/list; nil: that of the caller
	// onUpdated is called when a resource has changed, with its mapped URI. It must not block.
	onUpdated func(uri string)
	// onLog is called with log messages that belong to no call. It must not block.
	onLog func(tool.Log)

	listening atomic.Bool // unsolicited messages can be received

	mu      sync.Mutex
	wg      sync.WaitGroup
	closed  bool
	lastID  int64
	level   int // the least important log level that the server was asked for
	pending map[int64]*pending
	// What the subscription of a session of 2026-07-28 is for; see nextWatch.
	watching    map[string]bool
	rewatch     chan struct{}
	cancelWatch func()
}

// clientInfo is this client's name and version.
type clientInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
	// installation and tracer are those of Options.
	installation string
	tracer       *tracing.Tracer
}

// serverInfo is a server's own name and version.
type serverInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

// pending is a request that waits for its response.
type pending struct {
	id       int64
	answer   chan answer         // holds 1
	updates  chan update         // nil if updates are not wanted
	requests chan *serverRequest // nil if the server may not ask for anything meanwhile
	caller   string              // who made the request, if requests is not nil
}

type answer struct {
	result json.RawMessage
	err    error
}

// update is a progress or a log notification: one of the two.
type update struct {
	progress *tool.Progress
	log      *tool.Log
}

func newSession(log *slog.Logger, redact func(string) string, client clientInfo) *session {
	s := &session{
		log:            log,
		redact:         redact,
		client:         client,
		offeredVersion: newestSessionVersion,
		done:           make(chan struct{}),
		changed:        make(chan struct{}, 1),
		probeWanted:    make(chan struct{}, 1),
		replies:        make(chan *outgoing, maxReplies),
		pending:        make(map[int64]*pending),
		level:          len(tool.LogLevels),
		onUpdated:      func(string) {},
		onLog:          func(tool.Log) {},
		watching:       make(map[string]bool),
		contentChanged: make(chan struct{}, 1),
		contentSeen:    make(chan struct{}, 1),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.start(s.answerRequests)
	return s
}

// start runs f in a goroutine that close waits for. It returns false if the session is already
// closed.
func (s *session) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// fail marks the session as unusable. The first error is kept.
func (s *session) fail(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.done)
	})
}

// close ends the session and waits for everything that belongs to it.
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

// connectionLostError means that the connection broke during a request.
type connectionLostError struct{ err error }

func (e *connectionLostError) Error() string { return e.err.Error() }
func (e *connectionLostError) Unwrap() error { return e.err }

// unsentError means that the server certainly did not receive the request.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// handleSendError reacts to an error of the wire.
func (s *session) handleSendError(err error) {
	if _, gone := errors.AsType[*connectionLostError](err); gone {
		s.requestProbe()
	}
	status, ok := errors.AsType[*statusError](err)
	if _, unsent := errors.AsType[*unsentError](err); unsent || ok && status.isAuth() {
		s.fail(err)
	}
}

// answerOr returns the response if it has arrived after all, or else err.
func (p *pending) answerOr(err error) (json.RawMessage, error) {
	select {
	case a := <-p.answer:
		return a.result, a.err
	default:
		return nil, err
	}
}

// newPending registers a request under the next id.
func (s *session) newPending() *pending {
	return s.register(&pending{answer: make(chan answer, 1)})
}

// newCall registers a call under the next id. The server may report on it, if notes is set, and may
// ask the caller.
func (s *session) newCall(caller string, notes bool) *pending {
	p := &pending{answer: make(chan answer, 1), requests: make(chan *serverRequest, maxRequests), caller: caller}
	if notes {
		p.updates = make(chan update, maxUpdates)
	}
	return s.register(p)
}

func (s *session) register(p *pending) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	p.id = s.lastID
	s.pending[p.id] = p
	return p
}

func (s *session) removePending(p *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, p.id)
}

// isPending reports whether the request still waits for its response.
func (s *session) isPending(id int64) bool { return s.findPending(id) != nil }

func (s *session) findPending(id int64) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending[id]
}

// takePending removes and returns the request with this id.
func (s *session) takePending(id int64) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending[id]
	delete(s.pending, id)
	return p
}

// cancelRequest tells the server that a request was cancelled, once the request has been sent: an
// earlier cancellation would have no effect (2025-11-25 basic/utilities/cancellation, "Timing
// Considerations").
func (s *session) cancelRequest(id int64, why error, sent <-chan error) {
	if s.modern && s.wire.cancelsByDisconnect() {
		return
	}
	reason := "the caller gave up"
	if errors.Is(why, context.DeadlineExceeded) {
		reason = "the call took too long"
	}
	s.start(func() {
		ctx, cancel := context.WithTimeout(s.ctx, notifyTimeout)
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

// answerRequests answers the server's requests.
func (s *session) answerRequests() {
	for {
		select {
		case m := <-s.replies:
			ctx, cancel := context.WithTimeout(s.ctx, notifyTimeout)
			if err := s.wire.send(ctx, m); err != nil {
				s.log.Debug("upstream: the server's request was not answered", "error", s.redact(err.Error()))
			}
			cancel()
		case <-s.done:
			return
		}
	}
}

// deliver handles a received message; from is the request on whose stream it came, or 0. It
// never blocks.
func (s *session) deliver(from int64, e *event) error {
	if e.tooLarge {
		if p := s.takePending(idOfTooLarge(e.head, e.tail)); p != nil {
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
		p := s.takePending(m.number())
		if p == nil {
			return // the request was cancelled
		}
		if m.Error != nil {
			p.answer <- answer{err: m.Error}
			return
		}
		p.answer <- answer{result: m.Result}
	case m.ID != nil:
		s.handleRequest(from, m)
	case m.Method == "notifications/tools/list_changed", m.Method == "notifications/prompts/list_changed":
		s.markChanged()
	case m.Method == "notifications/resources/list_changed":
		signal(s.contentChanged)
	case m.Method == "notifications/resources/updated":
		s.handleUpdated(m.Params)
	case m.Method == "notifications/progress":
		s.handleProgress(m.Params)
	case m.Method == "notifications/message":
		s.handleLog(from, m.Params)
	case m.Method == "notifications/subscriptions/acknowledged":
		s.listening.Store(true)
	}
}

// markChanged records that the tool list may have changed.
func (s *session) markChanged() { signal(s.changed) }

// signal puts a token into a channel that has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is one already
	}
}

// requestProbe asks supervise to check that the server is alive.
func (s *session) requestProbe() { signal(s.probeWanted) }

func (s *session) handleProgress(params json.RawMessage) {
	var p struct {
		Token json.RawMessage `json:"progressToken"`
		tool.Progress
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	s.deliverUpdate(idNumber(p.Token), update{progress: &p.Progress})
}

func (s *session) deliverUpdate(id int64, n update) {
	p := s.findPending(id)
	if p == nil || p.updates == nil {
		return
	}
	select {
	case p.updates <- n:
	default:
	}
}
