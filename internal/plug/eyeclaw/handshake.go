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

// subprotocol is chosen if the client offers it, and otherwise no choice is
// sent: Rails clients insist on it, and a plugin that offered nothing breaks
// (under Node's own WebSocket its whole process does) if it is told one.
const subprotocol = "actioncable-v1-json"

// ServeHTTP answers GET /cable?sdk_token=…. The bot_id that plugins add is
// ignored: the token decides.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.ctx.Err() != nil {
		w.Header().Set("Retry-After", "2")
		http.Error(w, "the server is restarting", http.StatusServiceUnavailable)
		return
	}
	ip := s.opt.ClientIP(r)
	token := r.URL.Query().Get("sdk_token")
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
	case bot.Kind != Kind && bot.Kind != "":
		s.log.WarnContext(r.Context(), "cable: the token's bot is of another kind, no plugin can answer for it",
			"bot", bot.Number, "kind", bot.Kind, "ip", ip)
		s.refuse(w, r, closeInvalid)
		return
	}
	s.acceptConn(w, r, bot, ip)
}

// lookup asks who has the token, unless the answer was "nobody" a moment ago.
func (s *Server) lookup(ctx context.Context, token string) (Bot, error) {
	if token == "" || s.badTokens.isKnownBad(token) {
		return Bot{}, ErrUnknownToken
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.Timings.Handshake)
	defer cancel()
	return s.opt.Tokens.BotByToken(ctx, token)
}

// refuseToken turns a bad token away in the way that Rails clients understand,
// or, if too many came, in the way that costs us least. A good token from the
// same address is never turned away.
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

// abort ends the socket at once. CloseNow alone would wait for a closing handshake
// that is under way.
func (s socket) abort() {
	_ = s.raw.Close()
	_ = s.CloseNow()
}

// hijackRecorder remembers the connection that is taken over through it.
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
	// A peer that does not read must not hold the handler. The deadline falls away
	// when the connection is taken over; otherwise it must not outlast the answer.
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

// refuse upgrades, says why the client cannot stay, and closes.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, b closeReason) {
	ws, err := s.upgrade(w, r)
	if err != nil {
		return
	}
	ok := s.start(func() {
		// The far side has the same time to answer the close as it would have for
		// a write, and Shutdown does not wait longer for it.
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

// acceptConn upgrades and lets the socket in. The handler returns; the socket lives
// on in its own goroutines.
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

// startConn makes the socket known to the heartbeat and its hub, and starts it.
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

// removeConn is the end of admit.
func (s *Server) removeConn(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.metrics.connections.Dec()
}

// baseURLOf is the address by which the far side reached us. It goes back only to
// that same far side, so its word is good enough.
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
