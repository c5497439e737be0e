package eyeclaw

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
)

// Reasons why a socket ended, for metrics.
const (
	endClosed   = "closed"        // the client or the network closed it
	endSlow     = "slow_consumer" // the client does not read
	endPong     = "pong_timeout"
	endWrite    = "write_failed"
	endOversize = "oversize"
	endGraceful = "goodbye" // the server closed it after a disconnect frame
	endShutdown = "shutdown"
)

// closeReason is a reason to disconnect a client: the disconnect frame's reason and reconnect flag
// (Rails, actioncable/lib/action_cable.rb, INTERNAL), and the status code of the WebSocket close
// frame (RFC 6455 §7.4.1).
type closeReason struct {
	reason    string
	reconnect bool
	code      websocket.StatusCode
}

var (
	closeUnauthorized = closeReason{"unauthorized", false, websocket.StatusPolicyViolation}
	closeInvalid      = closeReason{"invalid_request", false, websocket.StatusPolicyViolation}
	closeRestart      = closeReason{"server_restart", true, websocket.StatusServiceRestart}
	closeTooMany      = closeReason{"remote", true, websocket.StatusTryAgainLater}
)

// conn is one socket of a bot.
type conn struct {
	s           *Server
	draining    bool // it will be closed soon and gets no questions; guarded by pluginBot.mu
	bot         *pluginBot
	ws          socket
	log         *slog.Logger
	baseURL     string // scheme and host with which the client reached the server
	session     string // the server's name for the socket, sent in "connected"
	connectedAt time.Time

	out           chan outbound
	closeRequests chan closeReason
	done          chan struct{} // closed when the socket has ended
	closeOnce     sync.Once

	lastSeen   atomic.Int64 // time of the last frame or pong, in Unix nanoseconds
	pingSentAt atomic.Int64 // time of the unanswered WebSocket ping, in Unix nanoseconds, or 0

	// Used by the reader goroutine only:
	subs      map[string]rawJSON // identifiers as the client wrote them, by decoded identifier
	lastProbe time.Time          // last probe (used by the heartbeat goroutine only)
	dropLog   logThrottle

	version, openClaw string // what a connector says about itself; guarded by pluginBot.mu
	stopped           bool   // a connector has closed it because it stops; guarded by pluginBot.mu

	// ident is the identifier for commands, empty until the client has subscribed. Guarded by
	// pluginBot.mu.
	ident rawJSON
}

// outbound is a queued frame.
type outbound struct {
	frame []byte
	// written, if not nil, is set when the frame is being written, and cleared if the socket did
	// not accept all of it: then the client cannot have read it.
	written *atomic.Bool
}

func newConn(h *pluginBot, ws socket, ip, base string) *conn {
	now := time.Now()
	c := &conn{
		s:             h.s,
		bot:           h,
		ws:            ws,
		baseURL:       base,
		session:       uuid.NewString(),
		connectedAt:   now,
		out:           make(chan outbound, maxQueue),
		closeRequests: make(chan closeReason, 1),
		done:          make(chan struct{}),
		subs:          make(map[string]rawJSON, 1),
		lastProbe:     now,
		dropLog:       logThrottle{every: 10 * time.Second},
	}
	c.log = h.s.log.With("bot", h.info.Number, "socket", c.session, "ip", ip)
	c.lastSeen.Store(now.UnixNano())
	c.out <- outbound{frame: welcomeFrame}
	return c
}

// read handles the client's frames in order until the socket ends.
func (c *conn) read() {
	c.log.Info("cable: plugin connected")
	defer func() {
		c.terminate(endClosed)
		c.bot.removeConn(c)
		c.s.removeConn(c)
		c.log.Info("cable: plugin disconnected", "after", time.Since(c.connectedAt).Round(time.Millisecond))
	}()
	var buf bytes.Buffer
	for {
		// The context never ends: terminate closes the socket, which ends the read and costs
		// nothing per frame.
		typ, r, err := c.ws.Reader(context.Background())
		if err == nil {
			buf.Reset()
			_, err = buf.ReadFrom(r)
		}
		if err != nil {
			if errors.Is(err, websocket.ErrMessageTooBig) {
				c.bot.recordError(errOversize.With())
				c.terminate(endOversize)
			}
			if c.bot.isConnector() && websocket.CloseStatus(err) == websocket.StatusNormalClosure {
				c.bot.mu.Lock()
				c.stopped = true
				c.bot.mu.Unlock()
			}
			return
		}
		c.lastSeen.Store(time.Now().UnixNano())
		c.s.metrics.framesIn.Inc()
		if typ == websocket.MessageText {
			c.handle(buf.Bytes())
		} else {
			c.recordDropped(dropBinary)
		}
		if buf.Cap() > 64<<10 {
			buf = bytes.Buffer{} // do not keep the memory of one large summary
		}
	}
}

// write is the only goroutine that writes messages.
func (c *conn) write() {
	for {
		select {
		case o := <-c.out:
			if !c.writeFrame(o) {
				return
			}
		case b := <-c.closeRequests:
			c.closeGracefully(b)
			return
		case <-c.done:
			return
		}
	}
}

func (c *conn) writeFrame(o outbound) bool {
	if o.written != nil {
		o.written.Store(true)
	}
	// A timeout ends the socket and thereby the write, and records its reason before the reader
	// can.
	slow := time.AfterFunc(c.s.opt.Timings.Write, c.dropSlowClient)
	err := c.ws.Write(context.Background(), websocket.MessageText, o.frame)
	slow.Stop()
	if err != nil {
		if o.written != nil {
			o.written.Store(false)
		}
		c.endAfter(err, endWrite)
		return false
	}
	c.s.metrics.framesOut.Inc()
	return true
}

// dropSlowClient terminates the socket of a client that does not read.
func (c *conn) dropSlowClient() {
	c.bot.recordError(errSlow.With())
	c.terminate(endSlow)
}

// closeGracefully writes the queued frames and the disconnect frame, and closes.
func (c *conn) closeGracefully(b closeReason) {
	for {
		select {
		case o := <-c.out:
			if !c.writeFrame(o) {
				return
			}
			continue
		default:
		}
		break
	}
	if c.writeFrame(outbound{frame: b.frame()}) {
		_ = c.ws.Close(b.code, b.reason)
		c.terminate(endGraceful)
	}
}

// requestClose makes the writer close gracefully. It does not wait.
func (c *conn) requestClose(b closeReason) {
	select {
	case c.closeRequests <- b:
	default: // it is closing already
	}
}

// terminate ends the socket at once. The first reason counts.
func (c *conn) terminate(reason string) {
	c.closeOnce.Do(func() {
		c.s.metrics.closed.WithLabelValues(reason).Inc()
		if reason != endClosed && reason != endGraceful {
			c.log.Warn("cable: socket dropped", "reason", reason)
		}
		close(c.done)
		c.ws.abort()
	})
}

// endAfter ends the socket after a write or a ping failed: because the client has closed it, or for
// another reason. A socket that is closed here already has a reader that knows why.
func (c *conn) endAfter(err error, reason string) {
	switch {
	case errors.Is(err, net.ErrClosed):
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		c.terminate(endClosed)
	default:
		c.terminate(reason)
	}
}

// send queues a frame and reports whether it was queued. If the queue is full, it waits as long as
// one write may take, and then drops the client. The reader goroutine may wait here too: a client
// that does not read its acknowledgements need not be read either.
func (c *conn) send(o outbound) bool {
	if c.isDone() {
		return false
	}
	select {
	case c.out <- o:
		return true
	default:
	}
	timer := time.NewTimer(c.s.opt.Timings.Write)
	defer timer.Stop()
	select {
	case c.out <- o:
		return true
	case <-c.done:
		return false
	case <-timer.C:
		c.dropSlowClient()
		return false
	}
}

// heartbeat queues a ping frame and probes the socket from time to time. One goroutine calls it for
// all sockets, so it never waits. The ping is omitted if the queue is full, since other frames
// reach the client.
func (c *conn) heartbeat(ping []byte, now time.Time) {
	if c.isSilent() {
		c.terminate(endPong)
		return
	}
	select {
	case c.out <- outbound{frame: ping}:
	default:
	}
	if now.Sub(c.lastProbe) >= c.s.opt.Timings.Probe {
		c.lastProbe = now
		c.probe()
	}
}

// probe sends a WebSocket ping, unless one is unanswered, and drops the socket if the pong is late.
func (c *conn) probe() {
	if !c.pingSentAt.CompareAndSwap(0, time.Now().UnixNano()) {
		return
	}
	started := c.s.start(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.s.opt.Timings.ProbeWait)
		defer cancel()
		if err := c.ws.Ping(ctx); err != nil {
			c.endAfter(err, endPong)
			return
		}
		c.lastSeen.Store(time.Now().UnixNano())
		c.pingSentAt.Store(0)
	})
	if !started {
		c.pingSentAt.Store(0)
	}
}

// isHealthy reports whether the socket is open and no ping has been unanswered unusually long.
func (c *conn) isHealthy() bool {
	at := c.pingSentAt.Load()
	return !c.isDone() && (at == 0 || time.Since(time.Unix(0, at)) < c.s.opt.Timings.ProbeWait/3)
}

func (c *conn) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// silentFor returns the time since the last frame or pong of the peer.
func (c *conn) silentFor() time.Duration {
	return time.Since(time.Unix(0, c.lastSeen.Load()))
}

// recordDropped counts a dropped frame and logs it from time to time.
func (c *conn) recordDropped(reason string) {
	c.s.metrics.dropped.WithLabelValues(reason).Inc()
	if suppressed, ok := c.dropLog.allow(); ok {
		c.log.Info("cable: frame ignored", "reason", reason, "more", suppressed)
	}
}

// logThrottle lets one message through per period.
type logThrottle struct {
	every      time.Duration
	next       time.Time
	suppressed int
}

func (n *logThrottle) allow() (suppressed int, ok bool) {
	now := time.Now()
	if now.Before(n.next) {
		n.suppressed++
		return 0, false
	}
	suppressed, n.suppressed, n.next = n.suppressed, 0, now.Add(n.every)
	return suppressed, true
}
