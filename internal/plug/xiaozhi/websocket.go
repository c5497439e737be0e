package xiaozhi

import (
	"bufio"
	"bytes"
	"cmp"
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
	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
)

const (
	// writeTimeout is how long writing a frame may take before the board counts as disconnected.
	writeTimeout = 5 * time.Second
	// closeTimeout is how long a board may take to answer a Close frame. Firmware does not answer,
	// and waits for the connection to end (esp-ml307 src/web_socket.cc, WebSocket::OnTcpData).
	closeTimeout = 250 * time.Millisecond
	// maxFrame limits a frame of a board, in bytes. Firmware cannot send more than wire.MaxText.
	maxFrame = wire.MaxText + 16
	// socketBuffer is the size of the socket's send buffer, in bytes: half a minute of speech. The
	// system's default can be megabytes, which would hide a slow board.
	socketBuffer = 64 << 10
	// readBufferSize is the memory that a connection keeps for reading, in bytes: more than audio
	// packets and almost all messages need.
	readBufferSize = 4 << 10
)

// newSessionID makes a random session id.
func newSessionID() string { return strings.ToLower(rand.Text()[:20]) }

// ServeSocket serves the WebSocket at [SocketPath]. A refused board gets an HTTP status before the
// upgrade.
func (h *Boards) ServeSocket(w http.ResponseWriter, r *http.Request) {
	id, ok := DeviceFromRequest(r)
	if !ok {
		h.metrics.refused.WithLabelValues("nobody").Inc()
		http.Error(w,
			"the headers Device-Id (a MAC address) and Client-Id (a UUID) say who connects, and one is missing or wrong", http.StatusBadRequest)
		return
	}
	d, err := h.Accounts.CheckSocket(r.Context(), id, socketToken(r))
	switch {
	case account.Refused(err):
		h.refuseToken(w, r, id, err)
		return
	case err != nil:
		if r.Context().Err() == nil {
			h.Logger.ErrorContext(r.Context(), "a board's token could not be checked", "board", id.Hardware,
				"error", err)
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
	if !h.acquireSocket() {
		h.metrics.refused.WithLabelValues("full").Inc()
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many boards are connected, or the server stops; try again later",
			http.StatusServiceUnavailable)
		return
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	s := &webSocket{boards: h, framing: framing, sessionID: newSessionID(), began: time.Now()}
	tap := &hijacker{ResponseWriter: w}
	s.conn, err = websocket.Accept(tap, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // [Origins] has checked the origin
		Subprotocols:       offeredProtocols(r),
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		h.releaseSocket()
		h.metrics.refused.WithLabelValues("handshake").Inc()
		h.Logger.DebugContext(r.Context(), "a WebSocket handshake failed", "board", id.Hardware, "error", err)
		return
	}
	s.raw = tap.conn
	if t, ok := underlyingConn(s.raw).(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(socketBuffer)
	}
	s.conn.SetReadLimit(maxFrame)
	s.from = netip.AddrPortFrom(h.Address(r), 0)
	s.server = h.requestServerURL(r, local)
	s.device = withoutFeatures(d)
	// Not in the handler's goroutine, so that the memory of the HTTP request is freed.
	if !h.spawn(func() {
		defer h.releaseSocket()
		s.run(b)
	}) {
		h.releaseSocket()
		_ = s.conn.CloseNow() // not used yet
	}
}

// socketToken returns the token in the header of a board or, since pages cannot set headers, in the
// query, as the test page of xiaozhi-esp32-server sends it.
func socketToken(r *http.Request) string {
	query := r.URL.Query()
	token := cmp.Or(r.Header.Get("Authorization"), query.Get("authorization"), query.Get("token"))
	return strings.TrimSpace(strings.TrimPrefix(token, "Bearer "))
}

// offeredProtocols returns the subprotocols that a client offers. The first is accepted, whatever
// it is: boards offer none, and browsers close a connection whose server accepts none of a page's
// (https://websockets.spec.whatwg.org/#concept-websocket-establish).
func offeredProtocols(r *http.Request) (names []string) {
	for name := range strings.SplitSeq(strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ","), ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// requestServerURL returns where the board that made a request finds the HTTP server.
func (h *Boards) requestServerURL(r *http.Request, local net.Addr) serverURL {
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	host := r.Host
	// Boards omit the port in the Host header (esp-ml307 src/web_socket.cc, WebSocket::Connect).
	if a, ok := local.(*net.TCPAddr); ok && !strings.Contains(host, ":") && h.Port != "" && a.Port != 80 &&
		a.Port != 443 {
		host = net.JoinHostPort(host, h.Port)
	}
	p, err := newServerURL(secure, host, "")
	if err != nil {
		return serverURL{}
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

// refuseToken refuses a request with a wrong token.
func (h *Boards) refuseToken(w http.ResponseWriter, r *http.Request, id account.DeviceID, err error) {
	h.metrics.refused.WithLabelValues("token").Inc()
	h.Logger.WarnContext(r.Context(), "a board's token was refused", "board", id.Hardware, "cause", err,
		"address", h.Address(r))
	if h.Guard != nil && h.Guard.Refuse(h.Address(r)) {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many refused tokens from this address; wait a minute", http.StatusTooManyRequests)
		return
	}
	http.Error(w, "the token is not good for this board; restart the board, so that it gets another",
		http.StatusUnauthorized)
}

func (h *Boards) acquireSocket() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining || h.sockets >= h.MaxSockets {
		return false
	}
	h.sockets++
	return true
}

func (h *Boards) releaseSocket() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sockets--
}

// hijacker remembers the network connection of a WebSocket, so that it can be closed without
// waiting for the peer.
type hijacker struct {
	http.ResponseWriter
	conn net.Conn
}

// Unwrap supports http.ResponseController.
func (h *hijacker) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// webSocket is the transport of a conversation by WebSocket. Each WebSocket is one conversation.
type webSocket struct {
	boards    *Boards
	conn      *websocket.Conn
	raw       net.Conn
	framing   wire.Framing
	sessionID string
	from      netip.AddrPort
	server    serverURL
	began     time.Time
	device    store.Device // as of the authentication
	pcm       *pcmCodec    // nil: the client speaks Opus

	write  sync.Mutex
	frame  []byte // buffer; guarded by write
	closed sync.Once
}

// run serves a WebSocket from the hello to its end.
func (s *webSocket) run(b *Board) {
	defer s.conn.CloseNow()                         //nolint:errcheck // it is closed
	defer context.AfterFunc(s.boards.ctx, s.drop)() // the only way to stop a read
	hello, err := s.awaitHello(b)
	if err != nil {
		s.boards.metrics.refused.WithLabelValues("hello").Inc()
		s.boards.Logger.Info("a board said no hello", "device", b.number, "error", err)
		s.Close(false)
		return
	}
	announced, out, refusal := s.negotiate(b, &hello)
	if refusal != nil {
		s.boards.metrics.refused.WithLabelValues("format").Inc()
		s.boards.Logger.Warn("a board wants to talk in a format that is not spoken", "device", b.number,
			"format", hello.Audio.Format)
		_ = s.Text(refusal.Append(nil)) // the connection ends in any case
		s.Close(false)
		return
	}
	if s.pcm != nil {
		defer s.boards.releasePCM()
		defer s.pcm.Close()
	}
	answer := wire.Hello{Transport: wire.WebSocket, SessionID: s.sessionID, Audio: announced}
	l := b.newConnection(store.TransportSocket, s.from, s.server, s.Text, func(error) { s.drop() })
	if err := s.Text(answer.AppendServer(nil)); err != nil {
		l.end(err)
		return
	}
	s.boards.metrics.hello.Observe(time.Since(s.began).Seconds())
	if !b.attach(l) {
		s.Close(false)
		return
	}
	c := newConversation(b, s.device, s.sessionID, store.TransportSocket, hello, out, s)
	if !b.attachConversation(l, c) {
		b.detach(l, errReconnected)
		c.end(errReconnected, false)
		return
	}
	c.run()
	s.boards.spawn(func() { b.onConnect(l, hello.Features.MCP) })
	err = s.read(l, c)
	c.end(errors.Join(errBoardDisconnected, err), false)
	b.detach(l, errBoardDisconnected)
}

// awaitHello waits for the board's hello. A newer connection of the same board ends it: a board
// opens only one at a time.
func (s *webSocket) awaitHello(b *Board) (wire.Hello, error) {
	ctx, cancel := context.WithTimeout(s.boards.ctx, wire.HelloTimeout)
	defer cancel()
	b.mu.Lock()
	old := b.pendingSocket
	b.pendingSocket = s
	b.mu.Unlock()
	if old != nil {
		old.drop()
	}
	defer func() {
		b.mu.Lock()
		if b.pendingSocket == s {
			b.pendingSocket = nil
		}
		b.mu.Unlock()
	}()
	for range 10 { // web pages send other messages first
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

// read handles what the board sends until the connection ends. It uses no context that can end,
// which would cost memory for each frame.
func (s *webSocket) read(l *connection, c *Conversation) error {
	buf := bytes.NewBuffer(make([]byte, 0, readBufferSize))
	for {
		kind, r, err := s.conn.Reader(context.Background())
		if err != nil {
			return err
		}
		buf.Reset()
		if buf.Cap() > readBufferSize {
			buf = bytes.NewBuffer(make([]byte, 0, readBufferSize))
		}
		if _, err := buf.ReadFrom(r); err != nil {
			return err
		}
		if kind == websocket.MessageText {
			s.boards.onSocketMessage(l, c, buf.Bytes())
			continue
		}
		sound, _, err := s.framing.Parse(buf.Bytes())
		switch {
		case err != nil:
			c.intake.Dropped(1)
		case s.pcm == nil:
			c.onAudio(sound, time.Now())
		default:
			if err := s.pcm.Encode(sound, func(packet []byte) { c.onAudio(packet, time.Now()) }); err != nil {
				return err
			}
		}
	}
}

// onSocketMessage handles a text message of a conversation.
func (h *Boards) onSocketMessage(l *connection, c *Conversation, data []byte) {
	m, err := wire.Parse(data)
	if err != nil {
		h.metrics.malformed.Inc()
		return
	}
	if m.Type == wire.TypeMCP {
		if m.Payload != nil {
			l.remote.HandleMessage(bytes.Clone(m.Payload))
		}
		return
	}
	c.onMessage(&m)
}

// lang returns the language of the board.
func (s *webSocket) lang() i18n.Lang { return i18n.ParseLang(s.device.Language, s.boards.Lang) }

// Text implements transport.
func (s *webSocket) Text(message []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	return s.send(websocket.MessageText, message)
}

// Audio implements transport.
func (s *webSocket) Audio(packet []byte, at time.Duration) error {
	s.write.Lock()
	defer s.write.Unlock()
	if s.pcm != nil {
		sound, err := s.pcm.Decode(packet)
		if err != nil {
			return nil // one packet less; the conversation goes on
		}
		packet = sound
	}
	if s.framing == wire.FramingBare {
		return s.send(websocket.MessageBinary, packet)
	}
	s.frame = s.framing.Append(s.frame[:0], uint32(time.Since(s.began).Milliseconds()), packet)
	return s.send(websocket.MessageBinary, s.frame)
}

// send writes a frame. Requires write. It sets the socket's deadline, since a context's would cost
// a timer for each packet, and clears it afterwards, since pongs and the Close frame are written
// too. If writing fails, it drops the connection.
func (s *webSocket) send(kind websocket.MessageType, data []byte) error {
	_ = s.raw.SetWriteDeadline(time.Now().Add(writeTimeout)) // if the connection is closed, Write fails
	err := s.conn.Write(context.Background(), kind, data)
	if err != nil {
		s.drop()
		return err
	}
	_ = s.raw.SetWriteDeadline(time.Time{})
	return nil
}

// Close implements transport.
func (s *webSocket) Close(quietly bool) {
	if quietly {
		s.drop()
		return
	}
	s.closed.Do(func() {
		timer := time.AfterFunc(closeTimeout, s.drop)
		defer timer.Stop()
		_ = s.conn.Close(websocket.StatusNormalClosure, "") // the board need not answer
	})
}

// drop closes the connection without a Close frame, and without TLS's close_notify, which could
// block.
func (s *webSocket) drop() { _ = underlyingConn(s.raw).Close() }

// underlyingConn returns the connection below TLS.
func underlyingConn(conn net.Conn) net.Conn {
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
