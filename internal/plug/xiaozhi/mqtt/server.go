// Package mqtt is the server to which XiaoZhi voice boards keep a connection, for
// their messages and for ours. It serves what boards do of MQTT 3.1.1, and it is no
// broker: nothing goes from one client to another.
//
// Boards do not subscribe. They get what is pushed on their connection, and all of
// them publish to the same topic, so that a connection, and nothing in a message,
// says whose it is.
//
//	Server  listens, asks who may connect, knows one connection per board.
//	Conn    one connection: a goroutine that reads, and calls the session.
//	line    its socket. Writing does not wait; what the socket does not take at
//	        once has a goroutine until it is gone.
//
// An idle connection is a goroutine that waits for two bytes. Buffers are taken
// when a packet has begun.
package mqtt

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultTopic is the topic to which boards publish, if nothing else is said.
const DefaultTopic = "device-server"

// TopicPrefix is before the id of a board, with underscores for colons, in the topic
// of what it gets.
const TopicPrefix = "devices/p2p/"

const (
	// MaxPacket bounds what a client may send in one packet, in bytes. A longer one
	// ends the connection, as there is no memory to be had by a length field.
	MaxPacket = 64 << 10
	// MaxPush bounds a message to a board, in bytes. It has to fit into the queue.
	MaxPush = 64 << 10
	// maxQueue bounds what waits for a slow board, in bytes. The board is cut if
	// more would wait: it has missed an answer by then, and comes back.
	maxQueue = 128 << 10
	// socketBuffer is what the system keeps for a board that does not take what is
	// sent, in bytes. It could be megabytes, and the board would count as fast.
	socketBuffer = 64 << 10
	// maxConnect bounds the packet by which a client introduces itself, in bytes:
	// the first thing a stranger may send.
	maxConnect = 4 << 10
	// maxID bounds the id of a board, which is in every message to it.
	maxID = 128
	// packetTimeout bounds how long the rest of a packet may take once it has begun.
	// A buffer waits for it.
	packetTimeout = 10 * time.Second
	// silence is how long a client without keepalive may say nothing. Boards have
	// one.
	silence = time.Hour
)

var (
	// ErrTakenOver ends a connection whose board has a newer one.
	ErrTakenOver = errors.New("the board has connected again")
	// ErrSlow ends a connection that does not take what is sent.
	ErrSlow = errors.New("the board does not take what is sent to it")
	// ErrSilent ends a connection on which nothing came for one and a half times the
	// keepalive.
	ErrSilent = errors.New("the board was not heard of for too long")
	// ErrShutdown ends every connection of a server that stops.
	ErrShutdown = errors.New("the server stops")
	// ErrClosed ends a connection by [Conn.Close], and is what pushing into a
	// connection without an end says.
	ErrClosed = errors.New("the connection is closed")
	// ErrTooLong says that a message is longer than [MaxPush].
	ErrTooLong = errors.New("the message is too long for a board")
)

// Refusal is the code with which a CONNECT is refused. As an error of Auth it says
// which.
type Refusal byte

// What MQTT 3.1.1 has codes for.
const (
	WrongVersion   Refusal = 1
	BadClientID    Refusal = 2
	Unavailable    Refusal = 3 // for any other error of Auth, too
	BadCredentials Refusal = 4
	Forbidden      Refusal = 5
)

// Error is what it means.
func (r Refusal) Error() string {
	switch r {
	case WrongVersion:
		return "not version 3.1 or 3.1.1 of MQTT"
	case BadClientID:
		return "the client id is refused"
	case BadCredentials:
		return "bad user or password"
	case Forbidden:
		return "not allowed to connect"
	}
	return "the server cannot serve it now"
}

func (r Refusal) label() string {
	switch r {
	case WrongVersion:
		return "version"
	case BadClientID:
		return "client_id"
	case BadCredentials:
		return "credentials"
	case Forbidden:
		return "forbidden"
	}
	return "unavailable"
}

// ConnectInfo is what a client says about itself, and where it comes from.
type ConnectInfo struct {
	ClientID, Username, Password string
	RemoteAddr                   netip.AddrPort // of the socket; zero if it has none
}

// Session is whom the messages of a connection go to. Its methods are called by one
// goroutine, the one that reads the connection.
type Session interface {
	// Message is a message of the board, in the order of sending. The payload is
	// valid until Message returns. The board is not read meanwhile: whatever takes
	// long has to go elsewhere.
	Message(payload []byte)
	// Gone is the last call. The error is nil if the board said goodbye, one of this
	// package's, or the network's.
	Gone(err error)
}

// Options say how a [Server] works. Auth and Connected are required; a zero field
// means its default.
type Options struct {
	// Auth says which board it is, by an id that appears in topics: a MAC address,
	// say. An error that has a [Refusal] in it says how to refuse, any other means
	// Unavailable. It is called by many goroutines, and its context ends with
	// ConnectTimeout.
	Auth func(context.Context, ConnectInfo) (id string, err error)
	// Connected is called once a client knows that it is connected, and may push.
	// Nil ends the connection. Of one id there is one session at a time: Gone of an
	// old connection has returned before Connected of a newer one is called.
	Connected func(*Conn) Session
	// Topic is where boards publish to; DefaultTopic. Messages to other topics are
	// dropped.
	Topic string
	// MaxConns bounds all connections, each of which costs memory and a file; 20,000.
	MaxConns int
	// MaxPending bounds those that have not said who they are, so that strangers
	// cannot take all; 1,000.
	MaxPending int
	// MaxMessage bounds what a board says at once, in bytes; 8 KiB, and not above
	// [MaxPacket]. What is longer is dropped, and the connection stays.
	MaxMessage int
	// Rate is how many packets per second are read from a connection in the long run,
	// and Burst how many at once; 50 and 200. Who sends more is read more slowly.
	Rate  float64
	Burst int
	// ConnectTimeout is for everything up to the answer to CONNECT; 10 s, as boards
	// wait no longer.
	ConnectTimeout time.Duration
	// WriteTimeout is for the socket of a board to take what waits; 10 s.
	WriteTimeout time.Duration
	// Spread is over how long Shutdown spreads the ends of the connections, so that
	// not all boards come back at once; zero ends all at once.
	Spread time.Duration
	// Logger is told what happens, never what was said. Nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics. Nil keeps them private.
	Registerer prometheus.Registerer
}

func (o Options) filled() Options {
	o.Topic = cmp.Or(o.Topic, DefaultTopic)
	o.MaxConns = cmp.Or(o.MaxConns, 20_000)
	o.MaxPending = cmp.Or(o.MaxPending, 1_000)
	o.MaxMessage = min(cmp.Or(o.MaxMessage, 8<<10), MaxPacket)
	o.Rate = cmp.Or(o.Rate, 50)
	o.Burst = cmp.Or(o.Burst, 200)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 10*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server serves boards. Its methods may be called from many goroutines.
type Server struct {
	opt     Options
	metrics *metrics

	ctx  context.Context // ends when Shutdown begins
	stop context.CancelFunc
	wg   sync.WaitGroup // every connection, and every flush

	mu        sync.Mutex
	stopping  bool
	listeners map[net.Listener]struct{}
	conns     map[*Conn]struct{}
	pending   int // of conns, those that were not yet let in
	seats     map[string]*seat
}

// seat is where the connections of one id take turns.
type seat struct {
	turn    chan struct{} // holds one token: that of whose session is alive
	current *Conn         // the newest
	users   int
}

// New makes a server.
func New(opt Options) *Server {
	s := &Server{
		opt: opt.filled(), metrics: newMetrics(opt.Registerer),
		listeners: map[net.Listener]struct{}{}, conns: map[*Conn]struct{}{}, seats: map[string]*seat{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Serve accepts connections, with TLS if there is a configuration, until the context
// ends, or Shutdown begins, or the listener fails. Only the last is an error. The
// listener is closed; the connections stay. It may be called for several listeners.
func (s *Server) Serve(ctx context.Context, l net.Listener, conf *tls.Config) error {
	defer l.Close() //nolint:errcheck // nobody listens any more
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return nil
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	failures := 0
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil || s.ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // no files left, mostly; some are given back in a while
			if failures++; failures > 100 {
				return err
			}
			s.opt.Logger.Warn("MQTT connections are not accepted for the moment", "error", err)
			if !pause(ctx, s.ctx.Done(), 100*time.Millisecond) {
				return nil
			}
		default:
			failures = 0
			s.admit(conn, conf)
		}
	}
}

// pause waits. It is false if something ended meanwhile.
func pause(ctx context.Context, done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-done:
	}
	return false
}

// admit starts a connection, if there is room.
func (s *Server) admit(conn net.Conn, conf *tls.Config) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		// Clients send pings. What TCP sends on its own would cost those with a SIM
		// card money.
		_ = tcp.SetKeepAlive(false)
		_ = tcp.SetWriteBuffer(socketBuffer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping || len(s.conns) >= s.opt.MaxConns || s.pending >= s.opt.MaxPending {
		_ = conn.Close()
		s.metrics.refused.WithLabelValues(refusedFull).Inc()
		return
	}
	c := s.newConn(conn, conf)
	s.conns[c] = struct{}{}
	s.pending++
	s.wg.Go(c.run)
}

// sit gives a connection the seat of its id, and ends the one that has it.
func (s *Server) sit(c *Conn) *seat {
	s.mu.Lock()
	place := s.seats[c.id]
	if place == nil {
		place = &seat{turn: make(chan struct{}, 1)}
		s.seats[c.id] = place
	}
	place.users++
	old := place.current
	place.current = c
	s.mu.Unlock()
	if old != nil {
		old.cut(ErrTakenOver)
	}
	return place
}

// leave is the end of sit.
func (s *Server) leave(c *Conn, place *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if place.current == c {
		place.current = nil
	}
	if place.users--; place.users == 0 {
		delete(s.seats, c.id)
	}
}

// letIn counts a connection among those that said who they are.
func (s *Server) letIn(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending--
	c.known = true
}

// forget is the end of a connection.
func (s *Server) forget(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if !c.known {
		s.pending--
	}
}

// Shutdown ends all connections, after what waits has been sent, and waits for
// their sessions. If the context ends before, what waits is lost, and the error is
// the context's; a session that hangs is not waited for.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	s.stop()
	for l := range s.listeners {
		_ = l.Close()
	}
	conns := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()

	begin := time.Now()
	for i, c := range conns {
		due := begin.Add(s.opt.Spread * time.Duration(i) / time.Duration(len(conns)))
		if wait := time.Until(due); wait > 0 && !pause(ctx, nil, wait) {
			break
		}
		c.finish(ErrShutdown)
	}
	done := make(chan struct{})
	go func() { // it ends with the last session
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range conns {
		c.cut(ErrShutdown)
	}
	// What only waited for its socket ends now.
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	return ctx.Err()
}
