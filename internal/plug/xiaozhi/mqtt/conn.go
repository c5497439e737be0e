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

	"patchbay/internal/netx"
)

// Conn is the connection of a board. Its methods are safe for concurrent use.
type Conn struct {
	s           *Server
	socket      *nonblockingConn
	rw          net.Conn // socket, or TLS on it
	id          string
	client      string
	topic       string
	idleTimeout time.Duration // silence after which the board counts as gone
	limiter     *rate.Limiter
	headBuf     [2]byte // receives the start of the next packet
	accepted    bool    // guarded by the server's mutex

	once  sync.Once
	cause error         // why this side ended it; valid after ended is closed
	ended chan struct{} // closed when this side ends it
}

func (s *Server) newConn(conn net.Conn, conf *tls.Config) *Conn {
	c := &Conn{s: s, ended: make(chan struct{}), limiter: rate.NewLimiter(rate.Limit(s.opt.Rate), s.opt.Burst)}
	c.socket = newNonblockingConn(conn, maxQueue, s.opt.WriteTimeout, s.wg.Go)
	c.rw = c.socket
	if conf != nil {
		c.rw = tls.Server(c.socket, conf)
	}
	return c
}

// ID returns the board's id, as returned by Auth.
func (c *Conn) ID() string { return c.id }

// Topic returns the topic of messages to the board.
func (c *Conn) Topic() string { return c.topic }

// RemoteAddr returns the address of the peer.
func (c *Conn) RemoteAddr() netip.AddrPort { return addrOf(c.socket.Conn) }

// LocalAddr returns the address that the board connected to.
func (c *Conn) LocalAddr() netip.AddrPort { return portOf(c.socket.Conn.LocalAddr()) }

func addrOf(conn net.Conn) netip.AddrPort { return portOf(conn.RemoteAddr()) }

func portOf(addr net.Addr) netip.AddrPort {
	if a, ok := addr.(*net.TCPAddr); ok {
		at := a.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return netip.AddrPort{}
}

// Push sends a message. It does not wait: what the socket does not take at once is queued, up to
// 128 KiB. The connection ends with [ErrSlow] when the queue is full, or not taken within
// WriteTimeout. Nil does not mean that the board has received the message. Other errors are
// [ErrTooLong] and [ErrClosed].
func (c *Conn) Push(payload []byte) error {
	if len(payload) > MaxPush {
		return ErrTooLong
	}
	buf := getBuffer(8 + len(c.topic) + len(payload))
	defer putBuffer(buf)
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

// Close ends the connection after sending what is queued. It waits neither for that nor for the
// session.
func (c *Conn) Close() { c.closeAfterFlush(ErrClosed) }

// closeNow ends the connection at once.
func (c *Conn) closeNow(why error) {
	c.end(why)
	_ = c.socket.Close()
}

// closeAfterFlush ends the connection after sending what is queued.
func (c *Conn) closeAfterFlush(why error) {
	c.end(why)
	if t, ok := c.rw.(*tls.Conn); ok {
		_ = t.CloseWrite()
	}
	c.socket.closeAfterFlush()
}

func (c *Conn) end(why error) {
	c.once.Do(func() {
		c.cause = why
		close(c.ended)
	})
}

// run serves a connection. It spends almost all its time in serve, with the stack frames of run,
// runSession and serve: half a kilobyte more of them costs 4 KB more per board. Therefore logging
// is in functions of its own.
func (c *Conn) run() {
	defer c.s.remove(c)
	defer c.socket.Close() //nolint:errcheck // it has no error
	slot, err := c.handshake()
	if err != nil {
		c.logRefused(err)
	}
	if slot == nil {
		return
	}
	defer c.s.releaseSlot(c, slot)
	if err == nil {
		defer func() { <-slot.turn }()
		c.runSession()
	}
}

// runSession serves an authenticated connection.
func (c *Conn) runSession() {
	c.s.metrics.connections.Inc()
	defer c.s.metrics.connections.Dec()
	session := c.s.opt.NewSession(c)
	if session == nil {
		c.s.metrics.closed.WithLabelValues(closeReason(ErrClosed)).Inc()
		c.closeAfterFlush(ErrClosed)
		return
	}
	c.logConnected()
	err := c.closeCause(c.serve(session))
	c.onDisconnected(err)
	session.Closed(err)
}

func (c *Conn) logRefused(err error) {
	why := refusalReason(err)
	c.s.metrics.refused.WithLabelValues(why).Inc()
	c.s.opt.Logger.Debug("MQTT connection refused", "reason", why, "client", c.client, "remote", c.RemoteAddr(),
		"error", err)
}

func (c *Conn) logConnected() {
	c.s.opt.Logger.Debug("board connected over MQTT", "board", c.id, "remote", c.RemoteAddr())
}

func (c *Conn) onDisconnected(err error) {
	c.closeAfterFlush(err)
	c.s.metrics.closed.WithLabelValues(closeReason(err)).Inc()
	c.s.opt.Logger.Debug("board left MQTT", "board", c.id, "error", err)
}

// handshake authenticates a client. If it returns a slot, the caller releases it; without an error,
// this connection has the slot's turn.
func (c *Conn) handshake() (*sessionSlot, error) {
	limit := time.Now().Add(c.s.opt.ConnectTimeout)
	ctx, cancel := context.WithDeadline(c.s.ctx, limit)
	defer cancel()
	_ = c.rw.SetReadDeadline(limit)
	if t, ok := c.rw.(*tls.Conn); ok {
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, tlsError{err}
		}
	}
	p, err := c.readConnect()
	if err == nil {
		c.client = p.clientID
		err = c.authenticate(ctx, p)
	}
	var code Refusal
	if err != nil {
		if errors.As(err, &code) {
			c.sendConnAck(code)
		}
		return nil, err
	}
	slot := c.s.takeSlot(c)
	select {
	case slot.turn <- struct{}{}:
	case <-c.ended:
		return slot, c.cause
	case <-ctx.Done(): // the session of the old connection hangs
		c.sendConnAck(Unavailable)
		return slot, Unavailable
	}
	if c.s.ctx.Err() != nil { // Shutdown may not have seen this connection
		<-slot.turn
		return slot, ErrShutdown
	}
	c.s.markAccepted(c)
	c.sendConnAck(0)
	return slot, nil
}

// readConnect reads the CONNECT packet.
func (c *Conn) readConnect() (connectPacket, error) {
	h, err := readHead(c.rw, &c.headBuf)
	if err != nil {
		return connectPacket{}, err
	}
	if h.kind != kindConnect || h.flags != 0 || h.length > maxConnect {
		return connectPacket{}, protocolError("the first packet is no CONNECT")
	}
	buf, err := c.readBody(h.length)
	defer putBuffer(buf)
	if err != nil {
		return connectPacket{}, err
	}
	return parseConnect(*buf)
}

// authenticate calls Auth.
func (c *Conn) authenticate(ctx context.Context, p connectPacket) error {
	id, err := c.s.opt.Auth(ctx, ConnectInfo{ClientID: p.clientID, Username: p.username, Password: p.password,
		RemoteAddr: c.RemoteAddr()})
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
	c.idleTimeout = defaultIdleTimeout
	if p.keepalive > 0 {
		c.idleTimeout = time.Duration(p.keepalive) * time.Second * 3 / 2
	}
	return nil
}

// sendConnAck writes a CONNACK (MQTT 3.1.1 §3.2). Session Present is never set, since sessions are
// not kept.
func (c *Conn) sendConnAck(code Refusal) {
	_, _ = c.rw.Write([]byte{kindConnAck << 4, 2, 0, byte(code)})
}

// readBody reads the rest of a packet. The caller releases the buffer in any case.
func (c *Conn) readBody(length int) (*[]byte, error) {
	buf := getBuffer(length)
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
		_ = c.rw.SetReadDeadline(time.Now().Add(c.idleTimeout))
		h, err := readHead(c.rw, &c.headBuf)
		switch {
		case timedOut(err):
			return ErrSilent
		case err != nil:
			return err
		case h.length > MaxPacket:
			return protocolError("a packet that is too long")
		}
		if h.kind == kindDisconnect && h.length == 0 {
			return nil
		}
		if err := c.handlePacket(session, h); err != nil {
			return err
		}
		if c.limiter.Allow() {
			continue
		}
		c.s.metrics.throttled.Inc()
		if !netx.WaitUnless(context.Background(), c.ended, c.limiter.Reserve().Delay()) {
			return c.cause
		}
	}
}

// handlePacket reads the rest of a packet and handles it.
func (c *Conn) handlePacket(session Session, h head) error {
	if h.length == 0 {
		if h.kind != kindPingReq || h.flags != 0 {
			return protocolError("a packet without contents")
		}
		_, err := c.rw.Write([]byte{kindPingResp << 4, 0})
		return err
	}
	_ = c.rw.SetReadDeadline(time.Now().Add(packetTimeout))
	buf, err := c.readBody(h.length)
	defer putBuffer(buf)
	switch {
	case timedOut(err):
		return ErrSilent
	case err != nil:
		return err
	}
	var out []byte
	switch h.kind {
	case kindPublish:
		return c.handlePublish(session, h.flags, *buf)
	case kindPubAck: // no QoS 1 is ever sent
		return nil
	case kindSubscribe:
		out, err = appendSubAck(nil, h.flags, *buf, c.topic)
	case kindUnsubscribe:
		out, err = appendUnsubAck(nil, h.flags, *buf)
	default:
		return protocolError("a packet that clients do not send")
	}
	if err == nil {
		_, err = c.rw.Write(out)
	}
	return err
}

// handlePublish handles a message of the board.
func (c *Conn) handlePublish(session Session, flags byte, body []byte) error {
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

// closeCause returns why a connection ended: the reason of this side, if it ended the connection,
// or else the read error.
func (c *Conn) closeCause(err error) error {
	select {
	case <-c.ended:
		return c.cause
	default:
	}
	if err != nil && errors.Is(c.socket.closeError(), ErrSlow) {
		return ErrSlow
	}
	return err
}

// tlsError is a failed TLS handshake.
type tlsError struct{ error }

func (e tlsError) Unwrap() error { return e.error }

func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
