package eyeclaw

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
)

// Why a socket ended, for metrics.
const (
	endClosed   = "closed"        // the far side closed it, or the network did
	endSlow     = "slow_consumer" // it does not read what we send
	endPong     = "pong_timeout"
	endWrite    = "write_failed"
	endOversize = "oversize"
	endGraceful = "goodbye" // we closed it in order
	endShutdown = "shutdown"
)

// closeReason is how we take leave of a client.
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
	draining    bool // it is about to be closed, and nobody is asked by it. With hub.mu held
	bot         *pluginBot
	ws          socket
	log         *slog.Logger
	baseURL     string // scheme and host by which the far side reached us
	session     string // our name for the socket, told in "connected"
	connectedAt time.Time

	out           chan outbound
	closeRequests chan closeReason
	done          chan struct{} // closed when the socket is gone
	closeOnce     sync.Once

	lastSeen   atomic.Int64 // when the last frame or pong came, in Unix nanoseconds
	pingSentAt atomic.Int64 // when the WebSocket ping went out that is not answered yet, or 0

	// Of the reader goroutine alone:
	subs      map[string]rawJSON // by decoded identifier, as the client spelled it
	lastProbe time.Time          // when the beat last probed (of the beat goroutine alone)
	dropLog   logThrottle

	// ident is the identifier under which commands are sent, empty while the
	// client has not subscribed. Guarded by hub.mu.
	ident rawJSON
}

// outbound is a frame that waits to be written.
type outbound struct {
	frame []byte
	// written, if not nil, is set when the frame is being written, and taken back if
	// the socket did not take all of it: then the far side cannot have read it.
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

// read handles what the client sends, frame by frame, until the socket ends.
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
		// The context never ends: kill closes the socket, which ends the read, and
		// costs nothing per frame.
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
			buf = bytes.Buffer{} // one large summary must not stay with the socket
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
	// Ending the socket ends the write, and says why before the reader can.
	slow := time.AfterFunc(c.s.opt.Timings.Write, c.dropSlowClient)
	err := c.ws.Write(context.Background(), websocket.MessageText, o.frame)
	slow.Stop()
	if err != nil {
		if o.written != nil {
			o.written.Store(false)
		}
		c.terminate(endWrite)
		return false
	}
	c.s.metrics.framesOut.Inc()
	return true
}

// dropSlowClient drops a client that does not read what it is sent.
func (c *conn) dropSlowClient() {
	c.bot.recordError(errSlow.With())
	c.terminate(endSlow)
}

// closeGracefully writes what is queued, then the disconnect frame, and closes.
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

// requestClose asks the writer to take leave. It does not wait.
func (c *conn) requestClose(b closeReason) {
	select {
	case c.closeRequests <- b:
	default: // it is leaving already
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

// send queues a frame. If the queue is full it waits as long as one write may
// take: a peer that does not read for so long is dropped. The reader goroutine
// may wait here too, as a client that does not read its acknowledgements need
// not be read either. It reports whether the frame was queued.
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

// heartbeat is called every few seconds by one goroutine for all sockets, so it never
// waits. A ping is left out if the queue is full: there are frames enough.
func (c *conn) heartbeat(ping []byte, now time.Time) {
	select {
	case c.out <- outbound{frame: ping}:
	default:
	}
	if now.Sub(c.lastProbe) >= c.s.opt.Timings.Probe {
		c.lastProbe = now
		c.probe()
	}
}

// probe sends a WebSocket ping, unless one is on its way, and drops the socket
// if the answer does not come in time.
func (c *conn) probe() {
	if !c.pingSentAt.CompareAndSwap(0, time.Now().UnixNano()) {
		return
	}
	started := c.s.start(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.s.opt.Timings.ProbeWait)
		defer cancel()
		if err := c.ws.Ping(ctx); err != nil {
			c.terminate(endPong) // no effect if the socket has ended otherwise
			return
		}
		c.lastSeen.Store(time.Now().UnixNano())
		c.pingSentAt.Store(0)
	})
	if !started {
		c.pingSentAt.Store(0)
	}
}

// isHealthy reports whether no ping has been waiting for an unusual time.
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

// recordDropped counts a frame that is of no use, and says so from time to time.
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
