package link

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/relay/wire"
)

// session is one control connection.
type session struct {
	link    *Link
	conn    *tls.Conn
	welcome wire.Welcome
	keys    *wire.Keys
	number  atomic.Uint64 // of the last data connection

	done  chan struct{} // closed when the connection has ended
	away  chan struct{} // closed when the relay sends this home away
	leave sync.Once

	writing sync.Mutex // frames are written whole
	pinged  atomic.Int64

	mu    sync.Mutex
	cause error
	ended bool
	waits map[net.Conn]bool // data connections without a stream

	dials   chan struct{} // bounds those that are being opened
	workers sync.WaitGroup
}

const (
	// maxDials bounds the data connections that are opened at the same time.
	maxDials = 64
	// maxWaits bounds those that are being opened or wait for a stream, of all sessions of a link:
	// a relay may not make a home open any number. It asks for 272 at most.
	maxWaits = 1024
	// maxStreams bounds the open connections of clients of a link.
	maxStreams = 2000
	// silences is how many intervals of the heartbeat may pass in silence.
	silences     = 3
	writeTimeout = 10 * time.Second
	// minHeartbeat and maxHeartbeat bound what a relay may ask for.
	minHeartbeat, maxHeartbeat = 20 * time.Millisecond, time.Minute
	// headerTimeout is how long the rest of a header may take after its first byte.
	headerTimeout = 10 * time.Second
)

func newSession(l *Link, conn *tls.Conn, w wire.Welcome, keys *wire.Keys) *session {
	return &session{link: l, conn: conn, welcome: w, keys: keys, done: make(chan struct{}), away: make(chan struct{}),
		waits: map[net.Conn]bool{}, dials: make(chan struct{}, maxDials)}
}

func (s *session) heartbeat() time.Duration {
	return min(max(time.Duration(s.welcome.Heartbeat)*time.Millisecond, minHeartbeat), maxHeartbeat)
}

// run serves the control connection until it or ctx ends.
func (s *session) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { s.end(context.Canceled) })
	s.workers.Go(func() { s.ping(ctx) })
	s.end(s.read(ctx))
	stop()
	cancel()
	s.workers.Wait()
	close(s.done)
}

func (s *session) problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// end closes the control connection and the data connections that wait. Streams go on.
func (s *session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended, s.cause = true, cause
	s.conn.NetConn().Close() //nolint:errcheck // it is over
	for c := range s.waits {
		c.Close() //nolint:errcheck // it is over
	}
}

// read handles the frames of the relay until an error.
func (s *session) read(ctx context.Context) error {
	buffer := make([]byte, wire.MaxPayload)
	for {
		s.conn.SetReadDeadline(time.Now().Add(silences * s.heartbeat())) //nolint:errcheck // TCP has it
		kind, payload, err := wire.ReadFrame(s.conn, buffer)
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			return errSilence
		}
		if err != nil {
			return err
		}
		switch kind {
		case wire.TypePing:
			err = s.write(wire.TypePong, nil)
		case wire.TypePong:
			s.measure()
		case wire.TypeDial:
			err = s.dial(ctx, payload)
		case wire.TypeGoAway:
			s.leave.Do(func() { close(s.away) })
		case wire.TypeRefused:
			err = refusal(payload)
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) write(t wire.Type, value any) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)) //nolint:errcheck // TCP has it
	return wire.WriteFrame(s.conn, t, value)
}

// ping sends heartbeats until ctx ends. The first one measures the way at once.
func (s *session) ping(ctx context.Context) {
	for {
		s.pinged.CompareAndSwap(0, time.Now().UnixNano())
		if err := s.write(wire.TypePing, nil); err != nil {
			s.end(err)
			return
		}
		if netx.Wait(ctx, s.heartbeat()) != nil {
			return
		}
	}
}

// measure takes the time of an answered ping.
func (s *session) measure() {
	sent := s.pinged.Swap(0)
	if sent == 0 {
		return
	}
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	if s.link.current == s {
		s.link.status.RoundTrip = time.Duration(time.Now().UnixNano() - sent)
	}
}

// dial opens the data connections that the relay asks for.
func (s *session) dial(ctx context.Context, payload []byte) error {
	n, err := wire.ParseDial(payload)
	if err != nil {
		return err
	}
	for range n {
		if !s.link.reserve() {
			s.link.Logger.Debug("the relay asks for too many data connections", "relay", s.link.server)
			break
		}
		s.workers.Go(func() {
			defer s.link.waits.Add(-1)
			select {
			case s.dials <- struct{}{}:
			case <-ctx.Done():
				return
			}
			conn, number, err := s.open(ctx)
			<-s.dials
			if err == nil {
				err = s.await(ctx, conn, number)
			}
			if err != nil && ctx.Err() == nil {
				s.link.Logger.Debug("a data connection to the relay ended", "relay", s.link.server, "error", err)
			}
		})
	}
	return nil
}

// open opens a data connection and sends its preamble.
func (s *session) open(ctx context.Context) (net.Conn, uint64, error) {
	limit, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	_, address := hostPort(s.link.server)
	conn, err := s.link.Dial(limit, "tcp", address)
	if err != nil {
		return nil, 0, err
	}
	keepAlive(conn)
	number := s.number.Add(1)
	conn.SetWriteDeadline(time.Now().Add(writeTimeout)) //nolint:errcheck // TCP has it
	if _, err := conn.Write(s.keys.Preamble(number)); err != nil {
		conn.Close() //nolint:errcheck // the first error is returned
		return nil, 0, err
	}
	return conn, number, nil
}

// await waits until a data connection becomes a stream, and hands it over.
func (s *session) await(ctx context.Context, conn net.Conn, number uint64) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return conn.Close()
	}
	s.waits[conn] = true
	s.mu.Unlock()
	kind, from, err := s.readHeader(conn, number)
	s.mu.Lock()
	delete(s.waits, conn)
	s.mu.Unlock()
	to := s.link.listeners[kind]
	switch {
	case err != nil:
	case to == nil:
		err = wire.ErrFrame
	case !s.link.begin():
		err = errStreams
	}
	if err != nil {
		conn.Close() //nolint:errcheck // the first error is returned
		return err
	}
	c := &Conn{Conn: conn, from: net.TCPAddrFromAddrPort(believed(from, s.link.Proxies)), closed: s.link.finish}
	conn.SetDeadline(time.Time{}) //nolint:errcheck // TCP has it
	if _, err := conn.Write([]byte{wire.Ack}); err != nil {
		c.Close() //nolint:errcheck // the first error is returned
		return err
	}
	if !to.offer(ctx, c) {
		return c.Close()
	}
	return nil
}

// readHeader reads the header of a data connection, which comes when there is a client for it.
func (s *session) readHeader(conn net.Conn, number uint64) (wire.Kind, netip.AddrPort, error) {
	var b [wire.HeaderSize]byte
	if _, err := io.ReadFull(conn, b[:1]); err != nil {
		return 0, netip.AddrPort{}, err
	}
	conn.SetReadDeadline(time.Now().Add(headerTimeout)) //nolint:errcheck // TCP has it
	if _, err := io.ReadFull(conn, b[1:]); err != nil {
		return 0, netip.AddrPort{}, err
	}
	return s.keys.OpenHeader(number, b[:])
}

// errStreams means that the relay passes too many connections on.
var errStreams = errors.New("relay: too many streams")

// reserve counts a data connection without a stream. False: there are too many.
func (l *Link) reserve() bool {
	if l.waits.Add(1) > maxWaits {
		l.waits.Add(-1)
		return false
	}
	return true
}

// begin counts a stream until finish. False: there are too many.
func (l *Link) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams >= maxStreams {
		return false
	}
	l.streams++
	return true
}

func (l *Link) finish() {
	l.mu.Lock()
	l.streams--
	l.mu.Unlock()
}

// keepAlive keeps an idle connection in the memory of the router at home, which may forget it after
// a minute, and finds one that is gone within 35 s.
func keepAlive(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetKeepAliveConfig(net.KeepAliveConfig{ //nolint:errcheck // it works without
			Enable: true, Idle: 20 * time.Second, Interval: 5 * time.Second, Count: 3})
	}
}
