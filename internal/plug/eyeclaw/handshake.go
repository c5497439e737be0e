package eyeclaw

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// subprotocol is selected only if the client offers it. @rails/actioncable requires it
// (actioncable/app/javascript/action_cable/internal.js, protocols). The EyeClaw plugin offers none,
// and a client that offered none fails the connection if the server selects one (RFC 6455 §4.1):
// the ws package reconnects forever, and with Node's own WebSocket the process dies of an
// exception.
const subprotocol = "actioncable-v1-json"

// ServeHTTP handles GET /cable?sdk_token=…, or with the token in an Authorization header. It
// ignores the bot_id that plugins add, as EyeClaw does
// (app/channels/application_cable/connection.rb): the token decides.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.ctx.Err() != nil {
		w.Header().Set("Retry-After", "2")
		http.Error(w, "the server is restarting", http.StatusServiceUnavailable)
		return
	}
	ip := s.opt.ClientIP(r)
	token := tokenOf(r)
	bot, err := s.lookup(r.Context(), token)
	switch {
	case errors.Is(err, ErrUnknownToken):
		s.refuseToken(w, r, ip, token)
		return
	case err != nil:
		s.log.ErrorContext(r.Context(), "cable: token lookup failed", "err", err)
		w.Header().Set("Retry-After", "5")
		http.Error(w, "cannot check the token now", http.StatusServiceUnavailable)
		return
	case bot.Kind != Kind && bot.Kind != ConnectorKind && bot.Kind != "":
		s.log.WarnContext(r.Context(), "cable: the token's bot is of another kind, no plugin can answer for it",
			"bot", bot.Number, "kind", bot.Kind, "ip", ip)
		s.refuse(w, r, closeInvalid)
		return
	}
	s.acceptConn(w, r, bot, ip)
}

// tokenOf returns the token of a request: a plugin's is in the address, our connector's in a
// header, which proxies do not log.
func tokenOf(r *http.Request) string {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return token
	}
	return r.URL.Query().Get("sdk_token")
}

// lookup returns the bot of a token, unless the token was unknown a moment ago.
func (s *Server) lookup(ctx context.Context, token string) (Bot, error) {
	if token == "" || s.badTokens.isKnownBad(token) {
		return Bot{}, ErrUnknownToken
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.Timings.Handshake)
	defer cancel()
	return s.opt.Tokens.BotByToken(ctx, token)
}

// refuseToken refuses a bad token with a disconnect frame, which Rails clients understand, or,
// after too many, with an HTTP error, which costs least. A valid token from the same address is
// never refused.
func (s *Server) refuseToken(w http.ResponseWriter, r *http.Request, ip, token string) {
	s.metrics.badTokens.Inc()
	v := s.badTokens.record(ip, token)
	if v.first {
		s.log.WarnContext(r.Context(), "cable: bad or missing token", "ip", ip, "earlier", v.before)
	}
	if v.tooMany {
		seconds := int(s.opt.Timings.Window / time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(max(1, seconds)))
		http.Error(w, "too many bad tokens", http.StatusTooManyRequests)
		return
	}
	s.refuse(w, r, closeUnauthorized)
}

// socket is an upgraded connection.
type socket struct {
	*websocket.Conn
	raw net.Conn
}

// abort ends the socket at once. CloseNow alone would wait for a closing handshake in progress.
func (s socket) abort() {
	_ = s.raw.Close()
	_ = s.CloseNow()
}

// hijackRecorder records the connection that is hijacked through it.
type hijackRecorder struct {
	http.ResponseWriter
	raw net.Conn
}

func (h *hijackRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.raw = raw
	return raw, rw, err
}

// upgrade upgrades the request, or answers it with an error.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) (socket, error) {
	// A client that does not read must not block the handler. The deadline ends when the connection
	// is hijacked; otherwise it must not outlast the response.
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(s.opt.Timings.Handshake))
	h := &hijackRecorder{ResponseWriter: w}
	ws, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		Subprotocols:    []string{subprotocol},
		OriginPatterns:  s.origins,
		CompressionMode: websocket.CompressionDisabled, // frames are short, and there are many sockets
	})
	if err != nil {
		_ = control.SetWriteDeadline(time.Time{})
		return socket{}, err
	}
	ws.SetReadLimit(maxFrame)
	return socket{ws, h.raw}, nil
}

// refuse upgrades, sends the disconnect frame and closes.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, b closeReason) {
	ws, err := s.upgrade(w, r)
	if err != nil {
		return
	}
	ok := s.start(func() {
		// The client has as much time to answer the close frame as for a write. Shutdown waits no
		// longer.
		ctx, cancel := context.WithTimeout(s.ctx, s.opt.Timings.Write)
		defer cancel()
		stop := context.AfterFunc(ctx, ws.abort)
		defer stop()
		if ws.Write(ctx, websocket.MessageText, b.frame()) == nil {
			s.metrics.framesOut.Inc()
			_ = ws.Close(b.code, b.reason)
		}
		ws.abort()
	})
	if !ok {
		ws.abort()
	}
}

// acceptConn upgrades and starts the socket. The handler returns; the socket runs in goroutines of
// its own.
func (s *Server) acceptConn(w http.ResponseWriter, r *http.Request, bot Bot, ip string) {
	h := s.pluginBot(bot)
	if h == nil {
		http.Error(w, "the server is restarting", http.StatusServiceUnavailable)
		return
	}
	if !h.hasRoom() {
		s.log.WarnContext(r.Context(), "cable: too many sockets of one bot", "bot", bot.Number, "ip", ip)
		s.refuse(w, r, closeTooMany)
		return
	}
	ws, err := s.upgrade(w, r)
	if err != nil {
		s.log.DebugContext(r.Context(), "cable: handshake failed", "bot", bot.Number, "ip", ip, "err", err)
		return
	}
	c := newConn(h, ws, ip, baseURLOf(r))
	if !s.startConn(c) {
		ws.abort()
	}
}

// startConn adds the socket to the heartbeat and to its bot, and starts it.
func (s *Server) startConn(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.bots[c.bot.info.Number] != c.bot || !c.bot.addConn(c) {
		return false
	}
	s.conns[c] = struct{}{}
	s.metrics.connections.Inc()
	s.wg.Go(c.read)
	s.wg.Go(c.write)
	return true
}

// removeConn undoes startConn.
func (s *Server) removeConn(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.metrics.connections.Dec()
}

// baseURLOf returns the address with which the client reached the server. It is sent only to the
// same client, so the client's own headers are good enough.
func baseURLOf(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	forwarded, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	switch strings.ToLower(strings.TrimSpace(forwarded)) {
	case "https", "wss":
		scheme = "https"
	case "http", "ws":
		scheme = "http"
	}
	return scheme + "://" + r.Host
}

func socketIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
