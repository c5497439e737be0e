package relay

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/relay/wire"
)

// session is the control connection of a home.
type session struct {
	server   *Server
	home     *home
	conn     *tls.Conn
	instance string
	id       wire.SessionID
	keys     *wire.Keys

	// What the writer has to send; wake tells it so.
	wake    chan struct{}
	dials   atomic.Int32
	pongs   atomic.Bool
	leaving atomic.Bool
	refused atomic.Value // wire.Reason
	done    chan struct{}
	once    sync.Once

	// The following are protected by home.mu.
	spares []*dataConn
	asked  int
	window window
	closed bool
}

// controlTimeout bounds the handshake of a control connection, and each write to it.
const controlTimeout = 10 * time.Second

// silences is how many intervals of the heartbeat may pass in silence.
const silences = 3

// serveControl serves a control connection until it ends. It calls admitted when the home is one.
func (s *Server) serveControl(ctx context.Context, raw net.Conn, admitted func()) {
	raw.SetDeadline(time.Now().Add(controlTimeout)) //nolint:errcheck // TCP has it
	conn := tls.Server(raw, s.control)
	if err := conn.HandshakeContext(ctx); err != nil {
		s.refuse(raw, refusedIdentity, 0, err)
		return
	}
	x, reason, err := s.admit(conn)
	if err != nil || reason != "" {
		if reason != "" {
			wire.WriteFrame(conn, wire.TypeRefused, wire.Refused{Reason: reason}) //nolint:errcheck // it is closed anyway
			conn.CloseWrite()                                                     //nolint:errcheck // likewise
		}
		s.refuse(raw, refusedIdentity, 0, err, "why", reason)
		return
	}
	admitted()
	defer func() {
		x.end()
		s.displace(x)
	}()
	name := x.home.info().Name
	s.Logger.Info("home connected", "home", name, "from", raw.RemoteAddr(), "instance", x.instance)
	defer func() { s.Logger.Info("home disconnected", "home", name, "from", raw.RemoteAddr()) }()
	var writing sync.WaitGroup
	writing.Go(x.write)
	defer writing.Wait()
	defer x.end()
	x.read()
}

// admit reads the Hello and answers Welcome, or returns why the home is refused.
func (s *Server) admit(conn *tls.Conn) (*session, wire.Reason, error) {
	state := conn.ConnectionState()
	if _, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok {
		return nil, wire.ReasonUnknown, nil
	}
	print, err := wire.FingerprintOf(state)
	if err != nil {
		return nil, "", err
	}
	kind, payload, err := wire.ReadFrame(conn, make([]byte, wire.MaxPayload))
	if err != nil {
		return nil, "", err
	}
	greeting, err := wire.ParseHello(payload)
	if kind != wire.TypeHello || err != nil {
		return nil, wire.ReasonBroken, nil
	}
	h, reason := s.identify(print.String(), greeting.Secret)
	if reason != "" {
		return nil, reason, nil
	}
	x := &session{server: s, home: h, conn: conn, instance: greeting.Instance, id: wire.NewSessionID(),
		wake: make(chan struct{}, 1), done: make(chan struct{})}
	if x.keys, err = wire.NewKeys(state, x.id); err != nil {
		return nil, "", err
	}
	// It has its place before the Welcome: a home that is welcome may stay.
	if reason := s.place(x); reason != "" {
		return nil, reason, nil
	}
	about := h.info()
	err = wire.WriteFrame(conn, wire.TypeWelcome, wire.Welcome{Names: append([]string{s.hostOf(about)}, about.Also...),
		Session: x.id, Heartbeat: int(s.Heartbeat / time.Millisecond)})
	if err != nil {
		s.displace(x)
		return nil, "", err
	}
	conn.SetDeadline(time.Time{}) //nolint:errcheck // TCP has it
	return x, "", nil
}

// place gives a session its place among those of the server and of its home, or returns why there
// is none.
func (s *Server) place(x *session) wire.Reason {
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		return wire.ReasonStopping
	}
	s.sessions[x.id] = x
	s.mu.Unlock()
	reason := x.home.add(x)
	if reason != "" {
		s.displace(x)
	}
	return reason
}

// displace forgets a session and closes the data connections that came for it.
func (s *Server) displace(x *session) {
	x.home.remove(x)
	s.mu.Lock()
	delete(s.sessions, x.id)
	s.mu.Unlock()
}

// identify returns the home with a fingerprint, or lets it in with the secret of a join code.
func (s *Server) identify(print, secret string) (*home, wire.Reason) {
	if h := s.joined(print); h != nil {
		return h, ""
	}
	if secret == "" {
		return nil, wire.ReasonUnknown
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	s.refresh() // a code works at once
	hashed := hashSecret(secret)
	for _, h := range s.allHomes() {
		about := h.info()
		if !sameText(about.Code, hashed) {
			continue
		}
		if about.Joined != "" && about.Joined != print {
			return nil, wire.ReasonUsed
		}
		if err := s.Folder.join(about, print); err != nil {
			s.Logger.Warn("a home cannot join", "home", about.Name, "error", err)
			return nil, wire.ReasonUsed
		}
		about.Joined = print
		h.setInfo(about)
		s.Logger.Info("home joined", "home", about.Name)
		return h, ""
	}
	return nil, wire.ReasonUnknown
}

func (s *Server) joined(print string) *home {
	for _, h := range s.allHomes() {
		if sameText(h.info().Joined, print) {
			return h
		}
	}
	return nil
}

// read reads frames until the connection ends, or is silent for too long.
func (x *session) read() {
	buffer := make([]byte, wire.MaxPayload)
	for {
		x.conn.SetReadDeadline(time.Now().Add(silences * x.server.Heartbeat)) //nolint:errcheck // TCP has it
		kind, _, err := wire.ReadFrame(x.conn, buffer)
		if err != nil {
			return
		}
		if kind == wire.TypePing {
			x.pongs.Store(true)
			x.signal()
			x.home.retry(x)
		}
	}
}

// write sends what is to be sent until the session ends.
func (x *session) write() {
	for {
		select {
		case <-x.done:
			return
		case <-x.wake:
		}
		x.conn.SetWriteDeadline(time.Now().Add(controlTimeout)) //nolint:errcheck // TCP has it
		if err := x.send(); err != nil {
			x.end()
			return
		}
	}
}

// send writes a frame for everything that is pending.
func (x *session) send() error {
	if n := x.dials.Swap(0); n > 0 {
		if err := wire.WriteFrame(x.conn, wire.TypeDial, wire.Dial(n)); err != nil {
			return err
		}
	}
	if x.pongs.Swap(false) {
		if err := wire.WriteFrame(x.conn, wire.TypePong, nil); err != nil {
			return err
		}
	}
	if x.leaving.Swap(false) {
		if err := wire.WriteFrame(x.conn, wire.TypeGoAway, nil); err != nil {
			return err
		}
	}
	if reason, ok := x.refused.Load().(wire.Reason); ok {
		wire.WriteFrame(x.conn, wire.TypeRefused, wire.Refused{Reason: reason}) //nolint:errcheck // it ends now
		return net.ErrClosed
	}
	return nil
}

func (x *session) signal() {
	select {
	case x.wake <- struct{}{}:
	default: // it is awake
	}
}

// dial asks the home for n data connections.
func (x *session) dial(n int) {
	x.dials.Add(int32(n)) //nolint:gosec // bounded by maxSpares and maxWaiting
	x.signal()
}

func (x *session) goAway() {
	x.leaving.Store(true)
	x.signal()
}

// refuse ends the session with a reason.
func (x *session) refuse(r wire.Reason) {
	x.refused.Store(r)
	x.signal()
}

// end closes the connection. The network is not told properly, since it may not take anything.
func (x *session) end() {
	x.once.Do(func() {
		close(x.done)
		x.conn.NetConn().Close() //nolint:errcheck // it is over
	})
}
