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

	"patchbay/internal/talk"
)

const (
	// arrivalsAtOnce is how often in a row a server may connect, and arrivalEvery
	// how often it may in the long run: two servers that share a token would
	// replace each other all day, with a new list for all clients each time.
	arrivalsAtOnce = 10
	arrivalEvery   = 5 * time.Second
)

// Why a request to serve a server that connects to us is refused.
var (
	// ErrNoUpstream says that there is no such upstream in that version.
	ErrNoUpstream = errors.New("there is no such upstream")
	// ErrTooOften says that the server connects again and again.
	ErrTooOften = errors.New("the server connects too often; perhaps two of them share a token")
)

// Why we end the connection of a server that connected to us.
var (
	errChanged  = errors.New("its token or its settings have changed")
	errStopping = errors.New("this server is stopping")
	errReplaced = errors.New("a newer connection has replaced it")
	errMoved    = errors.New("it has connected to another instance")
)

// What can be wrong with a server that connects to us, in words for its owner.
var (
	sayNotYet = talk.Say{
		Zh: "它还没有连接过。请在它那边填写本服务器的地址和它的令牌。",
		En: "It has not connected yet. Give it the address of this server, and its token.",
	}
	sayNotNow = talk.Say{
		Zh: "它现在没有连接。请确认它在运行，它会自己重新连接。",
		En: "It is not connected. See whether it is running; it has to connect again by itself.",
	}
	sayMoved = talk.Say{
		Zh: "它已连接到另一个实例。",
		En: "It has connected to another instance.",
	}
)

// door is where a server that connects to us comes in.
type door struct {
	rate  *rate.Limiter
	knock chan struct{} // there is something new below; holds 1

	// With upstream.mu held:
	next  *arrival // the newest, if run has not seen it yet
	now   *arrival // the newest
	moved bool     // it has connected to another instance
	shut  bool     // nobody serves any more
}

func newDoor() door {
	return door{rate: rate.NewLimiter(rate.Every(arrivalEvery), arrivalsAtOnce), knock: make(chan struct{}, 1)}
}

// arrival is a connection that the far side made.
type arrival struct {
	conn *websocket.Conn
	raw  net.Conn                // below conn, whose own ways to end may wait for the far side
	life context.Context         // of the upstream
	ctx  context.Context         // within life
	end  context.CancelCauseFunc // says why it is of no more use
	// epoch is the number of the connection; 0: it is not the hub's yet. With upstream.mu
	// held.
	epoch int64
}

// ended is why the connection is of no more use to us; nil if it is.
func (a *arrival) ended() error {
	if why := context.Cause(a.ctx); why != nil {
		return why
	}
	return context.Cause(a.life) // ctx ends a moment later than what it is in
}

// cut ends the connection without a word.
func (a *arrival) cut() {
	a.end(errClosed)
	a.raw.Close()
	a.conn.CloseNow() //nolint:errcheck // it is over
}

// Accept makes a WebSocket of the request of a server that connects to us, by
// which that server is served until either side ends it; a newer connection
// replaces the older. It returns when the request is answered, and not before the
// upstream has taken note of it. If it returns [ErrNoUpstream] or [ErrTooOften],
// the caller has to answer.
//
// Who may connect has been found out before: the far side is believed to be the
// upstream of that id and version. Where the request comes from is not looked at,
// since tool servers are no browsers.
func (m *Manager) Accept(w http.ResponseWriter, r *http.Request, id string, version int64) error {
	m.mu.Lock()
	u := m.ups[id]
	m.mu.Unlock()
	if u == nil || !u.spec.DialsIn || u.spec.Version != version {
		return ErrNoUpstream
	}
	if !u.door.rate.Allow() {
		return ErrTooOften
	}
	h := &hijacked{ResponseWriter: w}
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return err
	}
	conn.SetReadLimit(hugeFrame)
	a := &arrival{conn: conn, raw: h.raw, life: u.ctx}
	a.ctx, a.end = context.WithCancelCause(u.ctx)
	u.admit(a)
	return nil
}

// Departures has a function for each server that has connected to us, which tells it to
// connect again, to whichever instance it finds then. While it carries out a call it is left
// alone, unless at once is true; the function is false then.
func (m *Manager) Departures() []func(atOnce bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []func(bool) bool
	for _, u := range m.ups {
		u.mu.Lock()
		a := u.door.now
		u.mu.Unlock()
		if a == nil {
			continue
		}
		out = append(out, func(atOnce bool) bool {
			if !atOnce && len(u.turns) > 0 {
				return false
			}
			a.end(errStopping)
			return true
		})
	}
	return out
}

// Moved says that a server which connects to us has connected to another instance: what
// is left here of connections with numbers up to the given one is taken back at once.
func (u *upstream) Moved(upTo int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if a := u.door.now; a != nil {
		if a.epoch == 0 || a.epoch > upTo {
			return // it is here again, or about to be
		}
		a.end(errMoved)
	}
	u.door.moved = true
	u.knock()
}

// hijacked remembers the connection that is taken over through it.
type hijacked struct {
	http.ResponseWriter
	raw net.Conn
}

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.raw = raw
	return raw, rw, err
}

// admit makes an arrival the one that counts.
func (u *upstream) admit(a *arrival) {
	u.mu.Lock()
	unseen, older, shut := u.door.next, u.door.now, u.door.shut
	if !shut {
		u.door.next, u.door.now, u.door.moved = a, a, false
		u.knock()
	}
	u.mu.Unlock()
	switch {
	case shut:
		a.cut()
	case unseen != nil:
		unseen.cut()
	case older != nil:
		older.end(errReplaced)
	}
}

// shut turns away who comes from now on.
func (u *upstream) shut() {
	u.mu.Lock()
	unseen := u.door.next
	u.door.next, u.door.now, u.door.shut = nil, nil, true
	u.mu.Unlock()
	if unseen != nil {
		unseen.cut()
	}
}

// knock wakes run. The caller holds u.mu.
func (u *upstream) knock() {
	select {
	case u.door.knock <- struct{}{}:
	default:
	}
}

// opened is what there is behind the door.
func (u *upstream) opened() (a *arrival, moved bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a, moved = u.door.next, u.door.moved
	u.door.next, u.door.moved = nil, false
	return a, moved
}

// forget lets go of an arrival that is over.
func (u *upstream) forget(a *arrival) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.door.now == a {
		u.door.now = nil
	}
}

// host is run for a server that connects to us.
func (u *upstream) host() {
	defer u.farewell.Wait()
	defer u.withdraw()
	var away <-chan time.Time // when the tools are taken back
	for n := 0; ; n++ {
		a := u.arrived(&away)
		if a == nil {
			return
		}
		if n > 0 {
			u.m.metrics.reconnects.WithLabelValues(u.spec.Slug).Inc()
		}
		t, ok := u.try(&away, func() tried { return u.meet(a) })
		if !ok {
			return
		}
		err := t.err
		if err == nil {
			err = u.entertain(a, t)
			away = time.After(u.times.grace)
		}
		u.forget(a)
		if u.ctx.Err() != nil {
			return
		}
		u.left(err, t.err == nil)
	}
}

// arrived waits for the server to connect. It returns nil if the upstream was
// stopped.
func (u *upstream) arrived(away *<-chan time.Time) *arrival {
	for {
		select {
		case <-u.door.knock:
			a, moved := u.opened()
			if moved {
				*away = nil
				u.setState(Waiting, about(sayMoved, ""), time.Time{})
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

// meet agrees with the far side on how to speak and reads the list of tools.
func (u *upstream) meet(a *arrival) tried {
	s := newSession(u.log, u.redact, u.m.opt.client())
	// What such servers were written for says no other revision.
	s.offers, s.beats = oldestSession, true
	w := newFrames(s, a, &u.times)
	s.wire = w
	context.AfterFunc(a.ctx, func() { s.fail(context.Cause(a.ctx)) })
	w.begin()
	c, err := u.greet(a.ctx, s)
	if err == nil {
		return tried{session: s, catalog: c}
	}
	if why := a.ended(); why != nil {
		err = why
	}
	s.fail(err)
	u.part(s)
	return tried{err: err}
}

func (u *upstream) greet(ctx context.Context, s *session) (*catalog, error) {
	opening, cancel := context.WithTimeout(ctx, u.times.connect)
	defer cancel()
	if err := s.open(opening, false); err != nil {
		return nil, err
	}
	listing, cancel := context.WithTimeout(ctx, u.times.list)
	defer cancel()
	return s.list(listing, &u.spec.Settings)
}

// entertain keeps a connection until it ends, and says why it did.
func (u *upstream) entertain(a *arrival, t tried) error {
	if u.socket == nil {
		u.socket = u.m.opt.Plug(u.spec, u)
	}
	epoch := u.socket.Hold(true)
	u.mu.Lock()
	a.epoch = epoch
	u.mu.Unlock()
	u.begin(t)
	return u.serve(t.session)
}

// left takes note of why there is no connection any more. Greeted says that
// there was one that could be used.
func (u *upstream) left(err error, greeted bool) {
	if errors.Is(err, errReplaced) || errors.Is(err, errMoved) {
		u.log.Info("upstream: the connection has ended", "reason", err)
		return // who did it has knocked
	}
	t := about(sayNotNow, clip(u.redact(err.Error()), maxCause))
	if !greeted {
		t = explain(err, u.redact)
	}
	state := Waiting
	if t.Lasting {
		state = Failed
	}
	u.setState(state, t, time.Time{})
	u.log.Info("upstream: not connected", "state", state, "error", t.Error())
}

// about is a Trouble without places to be filled in.
func about(s talk.Say, cause string) *Trouble { return &Trouble{Told: s, Cause: cause} }
