package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

// Conn is the connection of a board. Its methods may be called from many
// goroutines.
type Conn struct {
	s      *Server
	line   *line
	rw     net.Conn // line, or TLS on it
	id     string
	client string
	topic  string
	idle   time.Duration // without a packet until the board counts as gone
	pace   *rate.Limiter
	two    [2]byte // where the start of a packet is waited for
	known  bool    // guarded by the server's mutex

	once  sync.Once
	cause error         // why this side ended it; valid when ended is closed
	ended chan struct{} // closed when this side ends it
}

func (s *Server) newConn(conn net.Conn, conf *tls.Config) *Conn {
	c := &Conn{s: s, ended: make(chan struct{}), pace: rate.NewLimiter(rate.Limit(s.opt.Rate), s.opt.Burst)}
	c.line = newLine(conn, maxQueue, s.opt.WriteTimeout, s.wg.Go)
	c.rw = c.line
	if conf != nil {
		c.rw = tls.Server(c.line, conf)
	}
	return c
}

// ID is the board's, as Auth said.
func (c *Conn) ID() string { return c.id }

// ClientID is what the board calls itself.
func (c *Conn) ClientID() string { return c.client }

// Topic is the topic of what is pushed.
func (c *Conn) Topic() string { return c.topic }

// RemoteAddr is the other end of the socket.
func (c *Conn) RemoteAddr() netip.AddrPort { return addrOf(c.line.Conn) }

// LocalAddr is this end of the socket: where the board found the server.
func (c *Conn) LocalAddr() netip.AddrPort { return portOf(c.line.Conn.LocalAddr()) }

func addrOf(conn net.Conn) netip.AddrPort { return portOf(conn.RemoteAddr()) }

func portOf(addr net.Addr) netip.AddrPort {
	if a, ok := addr.(*net.TCPAddr); ok {
		at := a.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return netip.AddrPort{}
}

// Push sends a message. It does not wait: what the socket does not take at once
// waits in a queue of 128 KiB, and the connection ends with [ErrSlow] when more
// would, or when it waits for longer than WriteTimeout. A nil error does not mean
// that the board has it. Other errors are [ErrTooLong] and [ErrClosed].
func (c *Conn) Push(payload []byte) error {
	if len(payload) > MaxPush {
		return ErrTooLong
	}
	buf := takeBuffer(8 + len(c.topic) + len(payload))
	defer giveBuffer(buf)
	*buf = appendPublish(*buf, c.topic, payload)
	if _, err := c.rw.Write(*buf); err != nil {
		if errors.Is(err, ErrSlow) {
			return ErrSlow
		}
		return ErrClosed
	}
	c.s.metrics.pushed.Inc()
	return nil
}

// Close ends the connection after what waits has been sent. It does not wait for
// that, nor for the session.
func (c *Conn) Close() { c.finish(ErrClosed) }

// cut ends the connection at once.
func (c *Conn) cut(why error) {
	c.end(why)
	_ = c.line.Close()
}

// finish ends the connection after what waits has been sent.
func (c *Conn) finish(why error) {
	c.end(why)
	if t, ok := c.rw.(*tls.Conn); ok {
		_ = t.CloseWrite()
	}
	c.line.finish()
}

func (c *Conn) end(why error) {
	c.once.Do(func() {
		c.cause = why
		close(c.ended)
	})
}

// run is the life of a connection. Almost all of that is waiting in serve, with what
// run, attend and serve have on the stack: 4 KB more for each board if it is half a
// kilobyte more. So what they tell the log is told elsewhere.
func (c *Conn) run() {
	defer c.s.forget(c)
	defer c.line.Close() //nolint:errcheck // it has no error
	place, err := c.arrive()
	if err != nil {
		c.refused(err)
	}
	if place == nil {
		return
	}
	defer c.s.leave(c, place)
	if err == nil {
		defer func() { <-place.turn }()
		c.attend()
	}
}

// attend is the life of a connection that was let in.
func (c *Conn) attend() {
	c.s.metrics.connections.Inc()
	defer c.s.metrics.connections.Dec()
	session := c.s.opt.Connected(c)
	if session == nil {
		c.s.metrics.closed.WithLabelValues(ending(ErrClosed)).Inc()
		c.finish(ErrClosed)
		return
	}
	c.arrived()
	err := c.reason(c.serve(session))
	c.left(err)
	session.Gone(err)
}

func (c *Conn) refused(err error) {
	why := refusal(err)
	c.s.metrics.refused.WithLabelValues(why).Inc()
	c.s.opt.Logger.Debug("MQTT connection refused", "reason", why, "client", c.client, "remote", c.RemoteAddr(), "error", err)
}

func (c *Conn) arrived() {
	c.s.opt.Logger.Debug("board connected over MQTT", "board", c.id, "remote", c.RemoteAddr())
}

func (c *Conn) left(err error) {
	c.finish(err)
	c.s.metrics.closed.WithLabelValues(ending(err)).Inc()
	c.s.opt.Logger.Debug("board left MQTT", "board", c.id, "error", err)
}

// arrive lets a client in, or says why not. If there is a seat it has to be left;
// without an error, the turn is this connection's.
func (c *Conn) arrive() (*seat, error) {
	limit := time.Now().Add(c.s.opt.ConnectTimeout)
	ctx, cancel := context.WithDeadline(c.s.ctx, limit)
	defer cancel()
	_ = c.rw.SetReadDeadline(limit)
	if t, ok := c.rw.(*tls.Conn); ok {
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, errTLS{err}
		}
	}
	p, err := c.introduction()
	if err == nil {
		c.client = p.clientID
		err = c.identify(ctx, p)
	}
	var code Refusal
	if err != nil {
		if errors.As(err, &code) {
			c.answer(code)
		}
		return nil, err
	}
	place := c.s.sit(c)
	select {
	case place.turn <- struct{}{}:
	case <-c.ended:
		return place, c.cause
	case <-ctx.Done(): // the session of the old connection hangs
		c.answer(Unavailable)
		return place, Unavailable
	}
	if c.s.ctx.Err() != nil { // and Shutdown has not seen it, or is about to
		<-place.turn
		return place, ErrShutdown
	}
	c.s.letIn(c)
	c.answer(0)
	return place, nil
}

// introduction waits for the CONNECT.
func (c *Conn) introduction() (connectPacket, error) {
	h, err := readHead(c.rw, &c.two)
	if err != nil {
		return connectPacket{}, err
	}
	if h.kind != kindConnect || h.flags != 0 || h.length > maxConnect {
		return connectPacket{}, broken("the first packet is no CONNECT")
	}
	buf, err := c.body(h.length)
	defer giveBuffer(buf)
	if err != nil {
		return connectPacket{}, err
	}
	return parseConnect(*buf)
}

// identify asks who a client is.
func (c *Conn) identify(ctx context.Context, p connectPacket) error {
	id, err := c.s.opt.Auth(ctx, ConnectInfo{ClientID: p.clientID, Username: p.username, Password: p.password, RemoteAddr: c.RemoteAddr()})
	var code Refusal
	switch {
	case errors.As(err, &code):
		return err
	case err != nil:
		c.s.opt.Logger.Warn("an MQTT client could not be told by its password", "error", err)
		return errors.Join(Unavailable, err)
	case id == "" || len(id) > maxID || strings.ContainsAny(id, "+#/\x00") || !utf8.ValidString(id):
		c.s.opt.Logger.Error("a board's id does not fit into a topic", "id", id)
		return Unavailable
	}
	c.id = id
	c.topic = TopicPrefix + strings.ReplaceAll(id, ":", "_")
	c.idle = silence
	if p.keepalive > 0 {
		c.idle = time.Duration(p.keepalive) * time.Second * 3 / 2
	}
	return nil
}

// answer writes a CONNACK. Sessions are never kept, so none is present.
func (c *Conn) answer(code Refusal) { _, _ = c.rw.Write([]byte{kindConnAck << 4, 2, 0, byte(code)}) }

// body reads the rest of a packet. The buffer is to be given back in any case.
func (c *Conn) body(length int) (*[]byte, error) {
	buf := takeBuffer(length)
	*buf = (*buf)[:length]
	_, err := io.ReadFull(c.rw, *buf)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return buf, err
}

// serve reads packets until the end. The error is nil after a DISCONNECT.
func (c *Conn) serve(session Session) error {
	for {
		_ = c.rw.SetReadDeadline(time.Now().Add(c.idle))
		h, err := readHead(c.rw, &c.two)
		switch {
		case timedOut(err):
			return ErrSilent
		case err != nil:
			return err
		case h.length > MaxPacket:
			return broken("a packet that is too long")
		}
		if h.kind == kindDisconnect && h.length == 0 {
			return nil
		}
		if err := c.packet(session, h); err != nil {
			return err
		}
		if c.pace.Allow() {
			continue
		}
		c.s.metrics.held.Inc()
		if !pause(context.Background(), c.ended, c.pace.Reserve().Delay()) {
			return c.cause
		}
	}
}

// packet reads the rest of a packet and does what it wants.
func (c *Conn) packet(session Session, h head) error {
	if h.length == 0 {
		if h.kind != kindPingReq || h.flags != 0 {
			return broken("a packet without contents")
		}
		_, err := c.rw.Write([]byte{kindPingResp << 4, 0})
		return err
	}
	_ = c.rw.SetReadDeadline(time.Now().Add(packetTimeout))
	buf, err := c.body(h.length)
	defer giveBuffer(buf)
	switch {
	case timedOut(err):
		return ErrSilent
	case err != nil:
		return err
	}
	var out []byte
	switch h.kind {
	case kindPublish:
		return c.published(session, h.flags, *buf)
	case kindPubAck: // of nothing that was sent
		return nil
	case kindSubscribe:
		out, err = appendSubAck(nil, h.flags, *buf, c.topic)
	case kindUnsubscribe:
		out, err = appendUnsubAck(nil, h.flags, *buf)
	default:
		return broken("a packet that clients do not send")
	}
	if err == nil {
		_, err = c.rw.Write(out)
	}
	return err
}

// published is a message of the board.
func (c *Conn) published(session Session, flags byte, body []byte) error {
	p, err := parsePublish(flags, body)
	if err != nil {
		return err
	}
	switch m := c.s.metrics; {
	case string(p.topic) != c.s.opt.Topic:
		m.dropped.WithLabelValues("topic").Inc()
	case len(p.payload) > c.s.opt.MaxMessage:
		m.dropped.WithLabelValues("length").Inc()
	default:
		m.received.Inc()
		session.Message(p.payload)
	}
	if p.qos == 0 {
		return nil
	}
	_, err = c.rw.Write([]byte{kindPubAck << 4, 2, byte(p.id >> 8), byte(p.id)})
	return err
}

// reason is why a connection ended: what this side did comes before what reading
// says then.
func (c *Conn) reason(err error) error {
	select {
	case <-c.ended:
		return c.cause
	default:
	}
	if err != nil && errors.Is(c.line.why(), ErrSlow) {
		return ErrSlow
	}
	return err
}

// errTLS says that no TLS came about.
type errTLS struct{ error }

func (e errTLS) Unwrap() error { return e.error }

func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
