package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/relay/wire"
)

// keepAlive keeps idle connections in the memory of routers, most of which forget them after some
// minutes, and finds those that are gone within 35 s.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 20 * time.Second, Interval: 5 * time.Second, Count: 3}

// handle serves a new connection in a goroutine of its own.
func (s *Server) handle(ctx context.Context, conn net.Conn, kind wire.Kind) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetKeepAliveConfig(keepAlive) //nolint:errcheck // it works without
	}
	if !s.track(conn) {
		return
	}
	s.handlers.Go(func() { s.serve(ctx, conn, kind) })
}

// goClose forgets and closes a connection without waiting for the server's lock.
func (s *Server) goClose(conn net.Conn) { s.handlers.Go(func() { s.untrack(conn) }) }

func addressOf(c net.Conn) netip.AddrPort {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// helloBuffer is the size of the first read: most hellos fit.
const helloBuffer = 2 << 10

// serve finds out what a connection is: one of the public, of a home, or for the relay itself.
func (s *Server) serve(ctx context.Context, conn net.Conn, kind wire.Kind) {
	keep := false // another owner closes the connection
	defer func() {
		if !keep {
			s.untrack(conn)
		}
	}()
	from := addressOf(conn).Addr()
	if why := s.gate.enter(from); why != "" {
		s.refuse(conn, why, alertInternal, nil)
		return
	}
	left := sync.OnceFunc(func() { s.gate.leave(from) })
	defer left()
	conn.SetReadDeadline(time.Now().Add(s.Limits.HelloTimeout)) //nolint:errcheck // TCP has it
	var r helloReader
	for done := false; !done; {
		r.raw = slices.Grow(r.raw, helloBuffer)
		n, err := conn.Read(r.raw[len(r.raw):cap(r.raw)])
		r.raw = r.raw[:len(r.raw)+n]
		switch {
		case n == 0 && err != nil:
			s.refuse(conn, refusedBroken, 0, err)
			return
		case n > 0 && wire.IsPreamble(r.raw[0]):
			keep = s.dataConn(conn, r.raw)
			return
		}
		if done, err = r.next(); err != nil {
			s.refuse(conn, refusedBroken, alertOf(err), err)
			return
		}
	}
	h, err := r.hello()
	if err != nil {
		s.refuse(conn, refusedBroken, alertHandshake, err)
		return
	}
	conn.SetReadDeadline(time.Time{}) //nolint:errcheck // TCP has it
	keep = s.route(ctx, conn, kind, h, r.raw, left)
}

// alertOf returns the alert for a hello that cannot be read; 0: the client does not know alerts.
func alertOf(err error) byte {
	if errors.Is(err, errNotTLS) {
		return 0
	}
	return alertHandshake
}

// route passes a connection on by the name in its hello. It reports whether another owner closes
// it. It calls left when the client has shown that it belongs somewhere: until then it counts as
// one whose hello is awaited.
func (s *Server) route(ctx context.Context, conn net.Conn, kind wire.Kind, h hello, raw []byte, left func()) bool {
	own, home := h.Name == s.Domain, s.homeOf(h.Name)
	control := (own || h.Name == "") && slices.Contains(h.ALPN, wire.ALPN) // a home may know the address alone
	switch {
	case control, own && s.web != nil, home != nil:
		if !s.gate.allow(addressOf(conn).Addr()) {
			s.refuse(conn, refusedAddress, alertInternal, nil)
			return false
		}
	case own:
		s.refuse(conn, refusedNobody, alertUnrecognized, nil)
		return false
	case h.Name == "":
		s.refuse(conn, refusedUnnamed, alertUnrecognized, nil)
		return false
	default:
		s.refuse(conn, refusedUnknown, alertUnrecognized, nil)
		return false
	}
	if control {
		s.serveControl(ctx, &prefixed{Conn: conn, prefix: raw}, left)
		return false
	}
	left()
	if own {
		return s.showPages(conn, raw)
	}
	s.pass(ctx, conn, home, kind, raw)
	return false
}

// maxPages bounds the connections to the relay's own pages.
const maxPages = 256

// showPages gives a connection to the relay's own pages. It reports whether they close it.
func (s *Server) showPages(conn net.Conn, raw []byte) bool {
	if s.pages.Add(1) > maxPages {
		s.pages.Add(-1)
		s.refuse(conn, refusedTotal, alertInternal, nil)
		return false
	}
	closed := sync.OnceFunc(func() {
		s.untrack(conn)
		s.pages.Add(-1)
	})
	if s.web.offer(&prefixed{Conn: conn, prefix: raw, closed: closed}) {
		return true
	}
	s.pages.Add(-1)
	return false
}

// refuse counts and logs a refused connection, and sends an alert unless it is 0. The caller closes
// the connection.
func (s *Server) refuse(conn net.Conn, reason string, code byte, err error, about ...any) {
	s.metrics.refused.WithLabelValues(reason).Inc()
	s.Logger.Debug("connection refused", append([]any{"reason", reason, "from", conn.RemoteAddr(), "error", err},
		about...)...)
	if code == 0 {
		return
	}
	conn.SetWriteDeadline(time.Now().Add(time.Second)) //nolint:errcheck // TCP has it
	conn.Write(alert(code))                            //nolint:errcheck // the client may be gone
	if c, ok := conn.(*net.TCPConn); ok {
		// The alert would be lost if bytes of the client were unread at the close (RFC 2525, 2.17).
		c.CloseWrite()                                        //nolint:errcheck // likewise
		c.SetReadDeadline(time.Now().Add(refuseLinger))       //nolint:errcheck // TCP has it
		io.Copy(io.Discard, io.LimitReader(c, maxHelloBytes)) //nolint:errcheck // likewise
	}
}

// refuseLinger is how long a refused client may take to read its alert.
const refuseLinger = 200 * time.Millisecond

// dataConn is a connection of a home for one stream.
type dataConn struct {
	conn   net.Conn
	keys   *wire.Keys
	number uint64
}

// dataConn reads the preamble of a data connection, of which some bytes were read, and gives it to
// its home. It reports whether the home has taken it.
func (s *Server) dataConn(conn net.Conn, read []byte) bool {
	var b [wire.PreambleSize]byte
	if len(read) > len(b) { // homes say nothing more before the header
		s.refuse(conn, refusedPreamble, 0, nil)
		return false
	}
	if _, err := io.ReadFull(conn, b[copy(b[:], read):]); err != nil {
		s.refuse(conn, refusedPreamble, 0, err)
		return false
	}
	id, number, err := wire.ReadPreamble(b[:])
	s.mu.Lock()
	x := s.sessions[id]
	s.mu.Unlock()
	if err != nil || x == nil || x.keys.CheckPreamble(b[:]) != nil {
		s.refuse(conn, refusedPreamble, 0, err)
		return false
	}
	conn.SetReadDeadline(time.Time{}) //nolint:errcheck // TCP has it
	if !x.home.arrive(x, &dataConn{conn, x.keys, number}) {
		s.Logger.Debug("data connection not needed", "from", conn.RemoteAddr())
		return false
	}
	return true
}

// tries is how many data connections are tried for a client.
const tries = 4

// stream is a connection of a client that is passed on.
type stream struct {
	client, home net.Conn
	began        time.Time    // times are since then, because the clock on the wall may be set
	last         atomic.Int64 // when bytes were passed last, a duration
	homeEnded    atomic.Int64 // when the home ended its direction, a duration; 0: it has not
	uncounted    atomic.Int64 // bytes that are not in the usage yet

	mu    sync.Mutex
	ended bool
}

// network is that of the client.
func (t *stream) network() netip.Addr { return network(addressOf(t.client).Addr()) }

// isOver reports whether a stream has lasted too long: in silence, or after the home's end.
func (t *stream) isOver(age time.Duration, l *Limits) bool {
	ended := time.Duration(t.homeEnded.Load())
	return age-time.Duration(t.last.Load()) > l.Idle || ended > 0 && age-ended > l.HalfClosed
}

// end closes both connections.
func (t *stream) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.client.Close() //nolint:errcheck // it is over
	if t.home != nil {
		t.home.Close() //nolint:errcheck // it is over
	}
}

// attach sets the connection of the home. False: the stream has ended.
func (t *stream) attach(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.home = c
	return !t.ended
}

// pass passes a connection on to its home until one side ends.
func (s *Server) pass(ctx context.Context, conn net.Conn, h *home, kind wire.Kind, raw []byte) {
	if s.busy.Add(1); s.busy.Load() > int64(s.Limits.Connections) {
		s.busy.Add(-1)
		s.refuse(conn, refusedTotal, alertInternal, nil)
		return
	}
	defer s.busy.Add(-1)
	t := &stream{client: conn, began: time.Now()}
	if why := h.begin(t, t.began); why != "" {
		s.refuse(conn, why, alertInternal, nil, "home", h.info().Name)
		return
	}
	defer h.finish(t)
	d := s.reach(ctx, h, t, kind, raw)
	if d == nil {
		s.refuse(conn, refusedOffline, alertInternal, nil, "home", h.info().Name)
		return
	}
	defer s.untrack(d.conn)
	s.metrics.accepted.Inc()
	s.metrics.waited.Observe(time.Since(t.began).Seconds())
	t.uncounted.Add(int64(len(raw)))
	s.metrics.in.Add(float64(len(raw)))
	var back sync.WaitGroup
	back.Go(func() {
		s.copy(t, conn, d.conn, s.metrics.out)
		t.homeEnded.Store(int64(time.Since(t.began)))
	})
	s.copy(t, d.conn, conn, s.metrics.in)
	back.Wait()
}

// reach returns a data connection whose home has accepted the stream, or nil.
func (s *Server) reach(ctx context.Context, h *home, t *stream, kind wire.Kind, raw []byte) *dataConn {
	limit, cancel := context.WithTimeout(ctx, s.Limits.Hold)
	defer cancel()
	client := addressOf(t.client)
	for range tries {
		d := h.take(limit)
		if d == nil {
			return nil
		}
		if !t.attach(d.conn) {
			s.untrack(d.conn)
			return nil
		}
		d.conn.SetDeadline(time.Now().Add(s.Limits.Ack)) //nolint:errcheck // TCP has it
		_, err := d.conn.Write(append(d.keys.Header(d.number, kind, client), raw...))
		var ack [1]byte
		if err == nil {
			_, err = io.ReadFull(d.conn, ack[:])
		}
		if err == nil && ack[0] == wire.Ack {
			d.conn.SetDeadline(time.Time{}) //nolint:errcheck // TCP has it
			return d
		}
		s.Logger.Debug("data connection was dead", "error", err)
		s.untrack(d.conn)
	}
	return nil
}

// prefixed is a connection of which some bytes were read already.
type prefixed struct {
	net.Conn
	prefix []byte
	closed func() // called by Close in place of it; may be nil
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.prefix) > 0 {
		n := copy(b, p.prefix)
		p.prefix = p.prefix[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// Close closes the connection.
func (p *prefixed) Close() error {
	if p.closed != nil {
		p.closed()
		return nil
	}
	return p.Conn.Close()
}

// handover is a listener whose connections come from elsewhere.
type handover struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHandover() *handover { return &handover{conns: make(chan net.Conn), done: make(chan struct{})} }

// offer gives a connection to whoever accepts. False: the listener is closed.
func (h *handover) offer(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.done:
		return false
	}
}

// Accept implements [net.Listener].
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (h *handover) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr implements [net.Listener].
func (h *handover) Addr() net.Addr { return &net.TCPAddr{} }
