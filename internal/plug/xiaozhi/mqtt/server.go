// Package mqtt is the server to which XiaoZhi voice boards keep a connection for messages in both
// directions. It serves the part of MQTT 3.1.1 that boards use, and is not a broker: it forwards
// nothing between clients.
//
// Boards do not subscribe, but get what is pushed on their connection, and all of them publish to
// the same topic (xiaozhi-esp32 main/protocols/mqtt_protocol.cc, MqttProtocol::StartMqttClient and
// SendText). So only the connection identifies the sender of a message.
//
//	Server           listens, authenticates, and keeps one connection per board.
//	Conn             one connection: a goroutine that reads, and calls the session.
//	nonblockingConn  its socket. Writes do not wait; a goroutine sends what the
//	                 socket does not take at once.
//
// An idle connection is a goroutine that waits for two bytes. Buffers are taken when a packet has
// begun.
//
// Package wire names the revisions of the sources that comments cite.
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

	"patchbay/internal/netx"
)

// DefaultTopic is the default topic that boards publish to (mqtt-gateway utils/mqtt_config_v2.js,
// publish_topic).
const DefaultTopic = "device-server"

// TopicPrefix is the prefix of the topic of messages to a board; the board's id follows, with
// underscores for colons (mqtt-gateway app.js, replyTo).
const TopicPrefix = "devices/p2p/"

const (
	// MaxPacket limits a packet of a client, in bytes. A longer one ends the connection, so that a
	// length field alone cannot allocate much memory.
	MaxPacket = 64 << 10
	// MaxPush limits a message to a board, in bytes. It has to fit into the queue.
	MaxPush = 64 << 10
	// maxQueue limits the bytes that wait for a slow board. If more would wait, the connection
	// ends; the board has missed an answer by then, and reconnects.
	maxQueue = 128 << 10
	// socketBuffer is the size of the socket's send buffer, in bytes. The system's default can be
	// megabytes, which would hide a slow board.
	socketBuffer = 64 << 10
	// maxConnect limits the CONNECT packet, in bytes: the only packet before authentication.
	maxConnect = 4 << 10
	// maxID limits the id of a board, in bytes; it is part of every message to the board.
	maxID = 128
	// packetTimeout limits the time for the rest of a packet, which occupies a buffer.
	packetTimeout = 10 * time.Second
	// defaultIdleTimeout is the idle timeout of a client without keepalive. Boards have one; see
	// wire.DefaultKeepalive.
	defaultIdleTimeout = time.Hour
)

var (
	// ErrTakenOver ends a connection whose board has a newer one.
	ErrTakenOver = errors.New("the board has connected again")
	// ErrSlow ends a connection that does not take what is sent.
	ErrSlow = errors.New("the board does not take what is sent to it")
	// ErrSilent ends a connection without a packet for one and a half times the keepalive (MQTT
	// 3.1.1 §3.1.2.10).
	ErrSilent = errors.New("the board was not heard of for too long")
	// ErrShutdown ends every connection of a server that stops.
	ErrShutdown = errors.New("the server stops")
	// ErrClosed ends a connection by [Conn.Close], and is the error of pushing to a closed
	// connection.
	ErrClosed = errors.New("the connection is closed")
	// ErrTooLong reports a message longer than [MaxPush].
	ErrTooLong = errors.New("the message is too long for a board")
)

// Refusal is a CONNACK return code other than 0. As an error of Auth, it selects the code.
type Refusal byte

// The return codes (MQTT 3.1.1 §3.2.2.3).
const (
	WrongVersion   Refusal = 1
	BadClientID    Refusal = 2
	Unavailable    Refusal = 3 // also for any other error of Auth
	BadCredentials Refusal = 4
	Forbidden      Refusal = 5
)

// Error implements error.
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

// ConnectInfo is what a client sends in CONNECT, and its address.
type ConnectInfo struct {
	ClientID, Username, Password string
	RemoteAddr                   netip.AddrPort // of the socket; zero if unknown
}

// Session handles the messages of a connection. Its methods are called by one goroutine, the reader
// of the connection.
type Session interface {
	// Message handles a message of the board, in the order of sending. The payload is valid until
	// Message returns. Nothing is read from the board meanwhile, so long work must be done
	// elsewhere.
	Message(payload []byte)
	// Closed is the last call. The error is nil after a DISCONNECT, or else one of this package or
	// of the network.
	Closed(err error)
}

// Options configure a [Server]. Auth and NewSession are required; a zero field means its default.
type Options struct {
	// Auth authenticates a client and returns its id, which is used in topics: a MAC address, for
	// example. An error with a [Refusal] in its chain selects the return code, any other means
	// Unavailable. It is called concurrently; its context ends after ConnectTimeout.
	Auth func(context.Context, ConnectInfo) (id string, err error)
	// NewSession is called after a successful CONNACK; it may push. Nil ends the connection.
	// Sessions of the same id do not overlap: Closed of the old one has returned before NewSession
	// is called for the newer connection.
	NewSession func(*Conn) Session
	// Topic is the topic that boards publish to; DefaultTopic. Messages to other topics are
	// dropped.
	Topic string
	// MaxConns limits the connections, each of which costs memory and a file; 20,000.
	MaxConns int
	// MaxPending limits the connections before authentication, so that strangers cannot use all;
	// 1,000.
	MaxPending int
	// MaxMessage limits a message of a board, in bytes; 8 KiB, as in mqtt-gateway mqtt-protocol.js
	// (max_mqtt_payload_size), and at most [MaxPacket]. Longer ones are dropped, and the connection
	// stays.
	MaxMessage int
	// Rate is the number of packets per second that are read from a connection, and Burst how many
	// at once; 50 and 200. Faster clients are slowed down.
	Rate  float64
	Burst int
	// ConnectTimeout limits everything up to the CONNACK; 10 s, the timeout of boards (esp-ml307
	// src/esp/esp_mqtt.h, MQTT_CONNECT_TIMEOUT_MS).
	ConnectTimeout time.Duration
	// WriteTimeout limits how long a board's socket may not take queued bytes; 10 s.
	WriteTimeout time.Duration
	// Spread is the duration over which Shutdown distributes the ends of the connections, so that
	// the boards do not all reconnect at once; 0 ends all at once.
	Spread time.Duration
	// Logger logs events, never content. Nil discards.
	Logger *slog.Logger
	// Registerer registers the metrics. Nil keeps them unregistered.
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
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

// Server serves boards. Its methods are safe for concurrent use.
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
	pending   int // those of conns that are not authenticated yet
	slots     map[string]*sessionSlot
}

// sessionSlot serializes the sessions of one id.
type sessionSlot struct {
	turn    chan struct{} // holds a token while a session is active
	current *Conn         // the newest connection
	users   int
}

// New makes a server.
func New(opt Options) *Server {
	s := &Server{
		opt: opt.withDefaults(), metrics: newMetrics(opt.Registerer),
		listeners: map[net.Listener]struct{}{}, conns: map[*Conn]struct{}{}, slots: map[string]*sessionSlot{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Serve accepts connections, with TLS if conf is not nil, until the context ends, Shutdown begins,
// or the listener fails. Only the last is an error. Serve closes the listener, not the connections.
// It may be called for several listeners.
func (s *Server) Serve(ctx context.Context, l net.Listener, conf *tls.Config) error {
	defer l.Close() //nolint:errcheck // often closed already
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
		case err != nil: // mostly too many open files, which passes
			if failures++; failures > 100 {
				return err
			}
			s.opt.Logger.Warn("MQTT connections are not accepted for the moment", "error", err)
			if !netx.WaitUnless(ctx, s.ctx.Done(), 100*time.Millisecond) {
				return nil
			}
		default:
			failures = 0
			s.admit(conn, conf)
		}
	}
}

// admit starts a connection, if there is room.
func (s *Server) admit(conn net.Conn, conf *tls.Config) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		// Clients send pings. TCP keep-alives would cost boards with a SIM card money.
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

// takeSlot gives a connection the slot of its id, and ends the connection that has it.
func (s *Server) takeSlot(c *Conn) *sessionSlot {
	s.mu.Lock()
	slot := s.slots[c.id]
	if slot == nil {
		slot = &sessionSlot{turn: make(chan struct{}, 1)}
		s.slots[c.id] = slot
	}
	slot.users++
	old := slot.current
	slot.current = c
	s.mu.Unlock()
	if old != nil {
		old.closeNow(ErrTakenOver)
	}
	return slot
}

// releaseSlot undoes takeSlot.
func (s *Server) releaseSlot(c *Conn, slot *sessionSlot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot.current == c {
		slot.current = nil
	}
	if slot.users--; slot.users == 0 {
		delete(s.slots, c.id)
	}
}

// markAccepted counts a connection as authenticated.
func (s *Server) markAccepted(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending--
	c.accepted = true
}

// remove forgets a connection that has ended.
func (s *Server) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if !c.accepted {
		s.pending--
	}
}

// Shutdown ends all connections, after sending what is queued, and waits for their sessions. If ctx
// ends first, it closes all connections, waits one more second, and returns ctx's error.
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
		if netx.Wait(ctx, time.Until(due)) != nil {
			break
		}
		c.closeAfterFlush(ErrShutdown)
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
		c.closeNow(ErrShutdown)
	}
	// Connections that waited for their socket end now.
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	return ctx.Err()
}
