package upstream

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"patchbay/internal/i18n"
)

const (
	// inboundBurst and inboundInterval limit how often a server may connect, in a burst and on
	// average: two servers that share a token would otherwise replace each other all day, each
	// time with a new list for all clients.
	inboundBurst    = 10
	inboundInterval = 5 * time.Second
)

// Errors of [Manager.Accept].
var (
	// ErrNoUpstream means that no upstream has that id and version.
	ErrNoUpstream = errors.New("there is no such upstream")
	// ErrTooOften means that the server reconnects too often.
	ErrTooOften = errors.New("the server connects too often; perhaps two of them share a token")
)

// Reasons for closing the connection of an inbound server.
var (
	errChanged  = errors.New("its token or its settings have changed")
	errStopping = errors.New("this server is stopping")
	errReplaced = errors.New("a newer connection has replaced it")
	errMoved    = errors.New("it has connected to another instance")
)

// Errors of an inbound server, as shown to its owner.
const (
	msgNotYet = i18n.Message("It has not connected yet. Give it the address of this server, and its token.")
	msgNotNow = i18n.Message("It is not connected. See whether it is running; it has to connect again by itself.")
	msgMoved  = i18n.Message("It has connected to another instance.")
)

// inbound holds the connections of a server that connects to this side.
type inbound struct {
	rate *rate.Limiter
	wake chan struct{} // something below has changed; holds 1

	// Guarded by upstream.mu:
	next    *inboundConn // the newest, until run takes it
	current *inboundConn // the connection in use
	moved   bool         // the server has connected to another instance
	closed  bool         // no more connections are accepted
}

func newInbound() inbound {
	return inbound{rate: rate.NewLimiter(rate.Every(inboundInterval), inboundBurst), wake: make(chan struct{}, 1)}
}

// inboundConn is a connection that the server opened.
type inboundConn struct {
	conn        *websocket.Conn
	raw         net.Conn                // below conn, whose own Close may wait for the peer
	upstreamCtx context.Context         // context of the upstream
	ctx         context.Context         // child of upstreamCtx
	cancel      context.CancelCauseFunc // its cause says why the connection ended
	// epoch is the number of the connection in the hub; 0: not assigned yet. Guarded by
	// upstream.mu.
	epoch int64
}

// endCause returns why the connection is no longer usable; nil if it is usable.
func (a *inboundConn) endCause() error {
	if why := context.Cause(a.ctx); why != nil {
		return why
	}
	return context.Cause(a.upstreamCtx) // ctx ends slightly later than its parent
}

// closeNow closes the connection without a Close frame.
func (a *inboundConn) closeNow() {
	a.cancel(errClosed)
	a.raw.Close()
	a.conn.CloseNow() //nolint:errcheck // closed in any case
}

// Accept upgrades the request of a server that connects to this side to a WebSocket, and serves
// it until either side closes; a newer connection replaces an older one. It returns when the
// response has been sent and the upstream knows the connection. For [ErrNoUpstream] and
// [ErrTooOften] the caller has to respond.
//
// The caller has authenticated the peer as the upstream with that id and version. The Origin is
// not checked, because tool servers are no browsers.
func (m *Manager) Accept(w http.ResponseWriter, r *http.Request, id string, version int64) error {
	m.mu.Lock()
	u := m.upstreams[id]
	m.mu.Unlock()
	if u == nil || !u.spec.Inbound || u.spec.Version != version {
		return ErrNoUpstream
	}
	if !u.inbound.rate.Allow() {
		return ErrTooOften
	}
	h := &hijackRecorder{ResponseWriter: w}
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{InsecureSkipVerify: true,
		CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return err
	}
	conn.SetReadLimit(maxReadFrame)
	a := &inboundConn{conn: conn, raw: h.raw, upstreamCtx: u.ctx}
	a.ctx, a.cancel = context.WithCancelCause(u.ctx)
	u.setCurrentConn(a)
	return nil
}

// DrainFuncs returns a function for each inbound server that asks it to reconnect, to whichever
// instance accepts it. The function returns false and does nothing while the server executes a
// call, unless atOnce is true.
func (m *Manager) DrainFuncs() []func(atOnce bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []func(bool) bool
	for _, u := range m.upstreams {
		u.mu.Lock()
		a := u.inbound.current
		u.mu.Unlock()
		if a == nil {
			continue
		}
		out = append(out, func(atOnce bool) bool {
			if !atOnce && len(u.slots) > 0 {
				return false
			}
			a.cancel(errStopping)
			return true
		})
	}
	return out
}

// Moved is called when an inbound server has connected to another instance: connections with
// numbers up to upTo are dropped here at once.
func (u *upstream) Moved(upTo int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if a := u.inbound.current; a != nil {
		if a.epoch == 0 || a.epoch > upTo {
			return // a newer connection is here, or about to be
		}
		a.cancel(errMoved)
	}
	u.inbound.moved = true
	u.wakeRun()
}

// hijackRecorder records the connection that is hijacked through it.
type hijackRecorder struct {
	http.ResponseWriter
	raw net.Conn
}

func (h *hijackRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.raw = raw
	return raw, rw, err
}

// setCurrentConn makes a the connection in use.
func (u *upstream) setCurrentConn(a *inboundConn) {
	u.mu.Lock()
	unseen, older, shut := u.inbound.next, u.inbound.current, u.inbound.closed
	if !shut {
		u.inbound.next, u.inbound.current, u.inbound.moved = a, a, false
		u.wakeRun()
	}
	u.mu.Unlock()
	switch {
	case shut:
		a.closeNow()
	case unseen != nil:
		unseen.closeNow()
	case older != nil:
		older.cancel(errReplaced)
	}
}

// closeInbound rejects further connections.
func (u *upstream) closeInbound() {
	u.mu.Lock()
	unseen := u.inbound.next
	u.inbound.next, u.inbound.current, u.inbound.closed = nil, nil, true
	u.mu.Unlock()
	if unseen != nil {
		unseen.closeNow()
	}
}

// wakeRun wakes run. The caller holds u.mu.
func (u *upstream) wakeRun() { signal(u.inbound.wake) }

// takeInbound returns the newest connection that run has not seen, and whether the server has
// moved to another instance.
func (u *upstream) takeInbound() (a *inboundConn, moved bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a, moved = u.inbound.next, u.inbound.moved
	u.inbound.next, u.inbound.moved = nil, false
	return a, moved
}

// releaseConn forgets a connection that has ended.
func (u *upstream) releaseConn(a *inboundConn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.inbound.current == a {
		u.inbound.current = nil
	}
}

// runInbound is run for a server that connects to this side.
func (u *upstream) runInbound() {
	defer u.closing.Wait()
	defer u.withdraw()
	var away <-chan time.Time // fires when the tools are withdrawn
	for n := 0; ; n++ {
		a := u.awaitInbound(&away)
		if a == nil {
			return
		}
		if n > 0 {
			u.m.metrics.reconnects.WithLabelValues(u.spec.Slug).Inc()
		}
		t, ok := u.try(&away, func() connectResult { return u.connectInbound(a) })
		if !ok {
			return
		}
		err := t.err
		if err == nil {
			err = u.serveInbound(a, t)
			away = time.After(u.times.toolsGrace)
		}
		u.releaseConn(a)
		if u.ctx.Err() != nil {
			return
		}
		u.inboundEnded(err, t.err == nil)
	}
}

// awaitInbound waits for a connection. It returns nil if the upstream was stopped.
func (u *upstream) awaitInbound(away *<-chan time.Time) *inboundConn {
	for {
		select {
		case <-u.inbound.wake:
			a, moved := u.takeInbound()
			if moved {
				*away = nil
				u.setState(Waiting, newConnectionError(msgMoved, ""), time.Time{})
				u.withdraw()
			}
			if a != nil {
				return a
			}
		case <-*away:
			*away = nil
			u.withdraw()
		case <-u.ctx.Done():
			return nil
		}
	}
}

// connectInbound does the handshake and reads the tool list.
func (u *upstream) connectInbound(a *inboundConn) connectResult {
	s := newSession(u.log, u.redact, u.m.opt.client())
	s.slug, s.passes, s.roots = u.spec.Slug, u.passes, u.spec.Settings.roots()
	u.prepare(s)
	// The clients that such servers were written for know no other revision.
	s.offeredVersion, s.hasHeartbeat = oldestSessionVersion, true
	w := newWebSocketWire(s, a, &u.times)
	s.wire = w
	context.AfterFunc(a.ctx, func() { s.fail(context.Cause(a.ctx)) })
	w.begin()
	c, err := u.handshake(a.ctx, s)
	if err == nil {
		return connectResult{session: s, catalog: c}
	}
	if why := a.endCause(); why != nil {
		err = why
	}
	s.fail(err)
	u.closeSession(s)
	return connectResult{err: err}
}

func (u *upstream) handshake(ctx context.Context, s *session) (*catalog, error) {
	opening, cancel := context.WithTimeout(ctx, u.times.connectTimeout)
	defer cancel()
	if err := s.handshake(opening, false); err != nil {
		return nil, err
	}
	listing, cancel := context.WithTimeout(ctx, u.times.listTimeout)
	defer cancel()
	return s.list(listing, &u.spec.Settings)
}

// serveInbound serves a connection until it ends, and returns the reason.
func (u *upstream) serveInbound(a *inboundConn, t connectResult) error {
	if u.registration == nil {
		u.registration = u.m.opt.Register(u.spec, u)
	}
	epoch := u.registration.Hold(true)
	u.mu.Lock()
	a.epoch = epoch
	u.mu.Unlock()
	u.begin(t)
	return u.serve(t.session)
}

// inboundEnded records why the connection ended. wasConnected means that it had been usable.
func (u *upstream) inboundEnded(err error, wasConnected bool) {
	if errors.Is(err, errReplaced) || errors.Is(err, errMoved) {
		u.log.Info("upstream: the connection has ended", "reason", err)
		return // the newer connection has woken run
	}
	t := newConnectionError(msgNotNow, clip(u.redact(err.Error()), maxCause))
	if !wasConnected {
		t = explain(err, u.redact)
	}
	state := Waiting
	if t.Lasting {
		state = Failed
	}
	u.setState(state, t, time.Time{})
	u.log.Info("upstream: not connected", "state", state, "error", t.Error())
}

// newConnectionError returns a ConnectionError whose message takes no arguments.
func newConnectionError(s i18n.Message, cause string) *ConnectionError {
	return &ConnectionError{Message: s.With(), Cause: cause}
}
