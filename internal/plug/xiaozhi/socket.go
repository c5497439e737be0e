package xiaozhi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/account"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

const (
	// writeLimit is how long a board's socket may take a frame. A board that takes
	// longer has gone.
	writeLimit = 5 * time.Second
	// closeWait is how long a board may take to answer a Close frame. Firmware does
	// not, and waits for the connection to end.
	closeWait = 250 * time.Millisecond
	// maxFrame bounds a frame of a board, in bytes. Firmware cannot send longer ones
	// than wire.MaxText.
	maxFrame = wire.MaxText + 16
	// socketBuffer is what the system keeps for a board that does not take what is
	// sent, in bytes: half a minute of speech. It could be megabytes, and the board
	// would count as fast.
	socketBuffer = 64 << 10
	// smallFrame is how much memory a connection keeps for reading, in bytes: more
	// than audio and almost all messages have.
	smallFrame = 4 << 10
)

// newSession makes the id of a session.
func newSession() string { return strings.ToLower(rand.Text()[:20]) }

// ServeSocket is the WebSocket at [SocketPath]. A board that is not let in gets a
// status before the connection is upgraded.
func (h *Boards) ServeSocket(w http.ResponseWriter, r *http.Request) {
	id, ok := Who(r)
	if !ok {
		h.metrics.refused.WithLabelValues("nobody").Inc()
		http.Error(w, "the headers Device-Id (a MAC address) and Client-Id (a UUID) say who connects, and one is missing or wrong", http.StatusBadRequest)
		return
	}
	token := r.Header.Get("Authorization")
	if token == "" {
		token = r.URL.Query().Get("authorization")
	}
	d, err := h.Accounts.CheckSocket(r.Context(), id, strings.TrimSpace(strings.TrimPrefix(token, "Bearer ")))
	switch {
	case account.Refused(err):
		h.refuseToken(w, r, id, err)
		return
	case err != nil:
		if r.Context().Err() == nil {
			h.Logger.ErrorContext(r.Context(), "a board's token could not be checked", "board", id.Hardware, "error", err)
		}
		h.metrics.refused.WithLabelValues("failed").Inc()
		http.Error(w, "try again later", http.StatusServiceUnavailable)
		return
	}
	framing, err := framingOf(r)
	if err != nil {
		h.metrics.refused.WithLabelValues("framing").Inc()
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b, err := h.admit(r.Context(), d)
	if err != nil {
		h.metrics.refused.WithLabelValues("failed").Inc()
		http.Error(w, "try again later", http.StatusServiceUnavailable)
		return
	}
	if !h.takeSocket() {
		h.metrics.refused.WithLabelValues("full").Inc()
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many boards are connected, or the server stops; try again later", http.StatusServiceUnavailable)
		return
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	s := &socket{house: h, framing: framing, session: newSession(), began: time.Now()}
	tap := &hijacker{ResponseWriter: w}
	s.conn, err = websocket.Accept(tap, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		h.freeSocket()
		h.metrics.refused.WithLabelValues("handshake").Inc()
		h.Logger.DebugContext(r.Context(), "a WebSocket handshake failed", "board", id.Hardware, "error", err)
		return
	}
	s.raw = tap.conn
	if t, ok := under(s.raw).(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(socketBuffer)
	}
	s.conn.SetReadLimit(maxFrame)
	s.from = netip.AddrPortFrom(h.Address(r), 0)
	s.at = h.placeOf(r, local)
	s.device = slim(d)
	// Off the handler, so that what the HTTP server keeps for a request is freed.
	if !h.spawn(func() {
		defer h.freeSocket()
		s.run(b)
	}) {
		h.freeSocket()
		_ = s.conn.CloseNow() // nobody has used it
	}
}

// placeOf is where a board that made a request finds the HTTP server.
func (h *Boards) placeOf(r *http.Request, local net.Addr) place {
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	host := r.Host
	// Boards leave the port out of the Host header.
	if a, ok := local.(*net.TCPAddr); ok && !strings.Contains(host, ":") && h.Port != "" && a.Port != 80 && a.Port != 443 {
		host = net.JoinHostPort(host, h.Port)
	}
	p, err := newPlace(secure, host, "")
	if err != nil {
		return place{}
	}
	return p
}

func framingOf(r *http.Request) (wire.Framing, error) {
	text := r.Header.Get(wire.HeaderFraming)
	if text == "" {
		text = r.URL.Query().Get(strings.ToLower(wire.HeaderFraming))
	}
	if text == "" {
		return wire.FramingBare, nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if f := wire.Framing(n); err == nil && f.Valid() {
		return f, nil
	}
	return 0, fmt.Errorf("%s is 1, 2 or 3", wire.HeaderFraming)
}

// refuseToken turns away whoever shows a wrong token.
func (h *Boards) refuseToken(w http.ResponseWriter, r *http.Request, id account.DeviceID, err error) {
	h.metrics.refused.WithLabelValues("token").Inc()
	h.Logger.WarnContext(r.Context(), "a board's token was refused", "board", id.Hardware, "cause", err, "address", h.Address(r))
	if h.Guard != nil && h.Guard.Refuse(h.Address(r)) {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many refused tokens from this address; wait a minute", http.StatusTooManyRequests)
		return
	}
	http.Error(w, "the token is not good for this board; restart the board, so that it gets another", http.StatusUnauthorized)
}

func (h *Boards) takeSocket() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining || h.sockets >= h.Sockets {
		return false
	}
	h.sockets++
	return true
}

func (h *Boards) freeSocket() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sockets--
}

// hijacker keeps the connection below a WebSocket, to be able to end it without
// waiting for the far side.
type hijacker struct {
	http.ResponseWriter
	conn net.Conn
}

// Unwrap is for http.ResponseController.
func (h *hijacker) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// socket is a WebSocket, which is one conversation.
type socket struct {
	house   *Boards
	conn    *websocket.Conn
	raw     net.Conn
	framing wire.Framing
	session string
	from    netip.AddrPort
	at      place
	began   time.Time
	device  store.Device // as it was when it was let in

	write  sync.Mutex
	frame  []byte // with write held
	closed sync.Once
}

// run is the life of a WebSocket.
func (s *socket) run(b *Board) {
	defer s.conn.CloseNow()                        //nolint:errcheck // it is closed
	defer context.AfterFunc(s.house.ctx, s.drop)() // reading waits for nothing else
	hello, err := s.greet(b)
	if err != nil {
		s.house.metrics.refused.WithLabelValues("hello").Inc()
		s.house.Logger.Info("a board said no hello", "device", b.number, "error", err)
		s.Close(false)
		return
	}
	if refusal := refused(&hello, talk.ParseLang(s.device.Language, s.house.Lang)); refusal != nil {
		s.house.metrics.refused.WithLabelValues("format").Inc()
		s.house.Logger.Warn("a board wants to talk in a format that is not spoken", "device", b.number, "format", hello.Audio.Format)
		_ = s.Text(refusal.Append(nil)) // the connection ends in any case
		s.Close(false)
		return
	}
	out := b.output()
	answer := wire.Hello{Transport: wire.WebSocket, SessionID: s.session, Audio: out}
	l := b.newLine(store.TransportSocket, s.from, s.at, s.Text, func(error) { s.drop() })
	if err := s.Text(answer.AppendServer(nil)); err != nil {
		l.end(err)
		return
	}
	s.house.metrics.hello.Observe(time.Since(s.began).Seconds())
	if !b.attach(l) {
		s.Close(false)
		return
	}
	c := newConversation(b, s.device, s.session, store.TransportSocket, hello, out, s)
	if !b.begins(l, c) {
		b.detach(l, errNewer)
		c.end(errNewer, false)
		return
	}
	c.run()
	s.house.spawn(func() { b.greet(l, hello.Features.MCP) })
	err = s.read(l, c)
	c.end(errors.Join(errBoardGone, err), false)
	b.detach(l, errBoardGone)
}

// greet waits for the board's hello. A board waits for one connection at a time: one
// that was opened later ends this one.
func (s *socket) greet(b *Board) (wire.Hello, error) {
	ctx, cancel := context.WithTimeout(s.house.ctx, wire.HelloTimeout)
	defer cancel()
	b.mu.Lock()
	old := b.greets
	b.greets = s
	b.mu.Unlock()
	if old != nil {
		old.drop()
	}
	defer func() {
		b.mu.Lock()
		if b.greets == s {
			b.greets = nil
		}
		b.mu.Unlock()
	}()
	for range 10 { // pages in browsers say other things first
		kind, data, err := s.conn.Read(ctx)
		if err != nil {
			return wire.Hello{}, err
		}
		if kind != websocket.MessageText {
			continue
		}
		if hello, err := wire.ParseHello(data); err == nil {
			return hello, nil
		}
	}
	return wire.Hello{}, errors.New("there is no hello among the first messages")
}

// read takes what the board says, until the connection ends. There is no context: one
// that can end would cost memory for each frame.
func (s *socket) read(l *line, c *Conversation) error {
	buf := bytes.NewBuffer(make([]byte, 0, smallFrame))
	for {
		kind, r, err := s.conn.Reader(context.Background())
		if err != nil {
			return err
		}
		buf.Reset()
		if buf.Cap() > smallFrame {
			buf = bytes.NewBuffer(make([]byte, 0, smallFrame))
		}
		if _, err := buf.ReadFrom(r); err != nil {
			return err
		}
		if kind == websocket.MessageText {
			s.house.hear(l, c, buf.Bytes())
			continue
		}
		packet, _, err := s.framing.Parse(buf.Bytes())
		if err != nil {
			c.intake.Dropped(1)
			continue
		}
		c.sound(packet, time.Now())
	}
}

// hear takes a message of a conversation.
func (h *Boards) hear(l *line, c *Conversation, data []byte) {
	m, err := wire.Parse(data)
	if err != nil {
		h.metrics.odd.Inc()
		return
	}
	if m.Type == wire.TypeMCP {
		if m.Payload != nil {
			l.remote.Heard(bytes.Clone(m.Payload))
		}
		return
	}
	c.message(&m)
}

// Text implements channel.
func (s *socket) Text(message []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	return s.send(websocket.MessageText, message)
}

// Audio implements channel.
func (s *socket) Audio(packet []byte, at time.Duration) error {
	s.write.Lock()
	defer s.write.Unlock()
	if s.framing == wire.FramingBare {
		return s.send(websocket.MessageBinary, packet)
	}
	s.frame = s.framing.Append(s.frame[:0], uint32(time.Since(s.began).Milliseconds()), packet)
	return s.send(websocket.MessageBinary, s.frame)
}

// send writes a frame. With write held. The deadline is the socket's own: one of a
// context would cost a timer for each packet. It is taken back, since pongs and the
// Close frame are written too. A board that does not take a frame has gone.
func (s *socket) send(kind websocket.MessageType, data []byte) error {
	_ = s.raw.SetWriteDeadline(time.Now().Add(writeLimit)) // it fails if the connection is closed, which writing says
	err := s.conn.Write(context.Background(), kind, data)
	if err != nil {
		s.drop()
		return err
	}
	_ = s.raw.SetWriteDeadline(time.Time{})
	return nil
}

// Close implements channel.
func (s *socket) Close(quietly bool) {
	if quietly {
		s.drop()
		return
	}
	s.closed.Do(func() {
		timer := time.AfterFunc(closeWait, s.drop)
		defer timer.Stop()
		_ = s.conn.Close(websocket.StatusNormalClosure, "") // whether it answers or not
	})
}

// drop ends the connection without a word, and without the one that TLS would say,
// which can wait.
func (s *socket) drop() { _ = under(s.raw).Close() }

// under is the connection below TLS.
func under(conn net.Conn) net.Conn {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return conn
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.conn = conn
	return conn, rw, err
}
