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
	endGoodbye  = "goodbye" // we closed it in order
	endShutdown = "shutdown"
)

// bye is how we take leave of a client.
type bye struct {
	reason    string
	reconnect bool
	code      websocket.StatusCode
}

var (
	byeUnauthorized = bye{"unauthorized", false, websocket.StatusPolicyViolation}
	byeInvalid      = bye{"invalid_request", false, websocket.StatusPolicyViolation}
	byeRestart      = bye{"server_restart", true, websocket.StatusServiceRestart}
	byeTooMany      = bye{"remote", true, websocket.StatusTryAgainLater}
)

// conn is one socket of a bot.
type conn struct {
	s       *Server
	going   bool // it is about to be closed, and nobody is asked by it. With hub.mu held
	hub     *hub
	ws      socket
	log     *slog.Logger
	base    string // scheme and host by which the far side reached us
	session string // our name for the socket, told in "connected"
	since   time.Time

	out  chan outbound
	byes chan bye
	dead chan struct{} // closed when the socket is gone
	end  sync.Once

	seen   atomic.Int64 // when the last frame or pong came, in Unix nanoseconds
	probed atomic.Int64 // when the WebSocket ping went out that is not answered yet, or 0

	// Of the reader goroutine alone:
	subs   map[string]rawJSON // by decoded identifier, as the client spelled it
	probes time.Time          // when the beat last probed (of the beat goroutine alone)
	noise  noise

	// ident is the identifier under which commands are sent, empty while the
	// client has not subscribed. Guarded by hub.mu.
	ident rawJSON
}

// outbound is a frame that waits to be written.
type outbound struct {
	frame []byte
	// taken, if not nil, is set when the frame is being written, and taken back if
	// the socket did not take all of it: then the far side cannot have read it.
	taken *atomic.Bool
}

func newConn(h *hub, ws socket, ip, base string) *conn {
	now := time.Now()
	c := &conn{
		s:       h.s,
		hub:     h,
		ws:      ws,
		base:    base,
		session: uuid.NewString(),
		since:   now,
		out:     make(chan outbound, maxQueue),
		byes:    make(chan bye, 1),
		dead:    make(chan struct{}),
		subs:    make(map[string]rawJSON, 1),
		probes:  now,
		noise:   noise{every: 10 * time.Second},
	}
	c.log = h.s.log.With("bot", h.bot.Number, "socket", c.session, "ip", ip)
	c.seen.Store(now.UnixNano())
	c.out <- outbound{frame: welcomeFrame}
	return c
}

// read handles what the client sends, frame by frame, until the socket ends.
func (c *conn) read() {
	c.log.Info("cable: plugin connected")
	defer func() {
		c.kill(endClosed)
		c.hub.leave(c)
		c.s.forget(c)
		c.log.Info("cable: plugin disconnected", "after", time.Since(c.since).Round(time.Millisecond))
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
				c.hub.blame(errOversize)
				c.kill(endOversize)
			}
			return
		}
		c.seen.Store(time.Now().UnixNano())
		c.s.metrics.framesIn.Inc()
		if typ == websocket.MessageText {
			c.handle(buf.Bytes())
		} else {
			c.drop(dropBinary)
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
			if !c.put(o) {
				return
			}
		case b := <-c.byes:
			c.goodbye(b)
			return
		case <-c.dead:
			return
		}
	}
}

func (c *conn) put(o outbound) bool {
	if o.taken != nil {
		o.taken.Store(true)
	}
	// Ending the socket ends the write, and says why before the reader can.
	slow := time.AfterFunc(c.s.opt.Timings.Write, c.tooSlow)
	err := c.ws.Write(context.Background(), websocket.MessageText, o.frame)
	slow.Stop()
	if err != nil {
		if o.taken != nil {
			o.taken.Store(false)
		}
		c.kill(endWrite)
		return false
	}
	c.s.metrics.framesOut.Inc()
	return true
}

// tooSlow drops a client that does not read what it is sent.
func (c *conn) tooSlow() {
	c.hub.blame(errSlow)
	c.kill(endSlow)
}

// goodbye writes what is queued, then the disconnect frame, and closes.
func (c *conn) goodbye(b bye) {
	for {
		select {
		case o := <-c.out:
			if !c.put(o) {
				return
			}
			continue
		default:
		}
		break
	}
	if c.put(outbound{frame: b.frame()}) {
		_ = c.ws.Close(b.code, b.reason)
		c.kill(endGoodbye)
	}
}

// leave asks the writer to take leave. It does not wait.
func (c *conn) leave(b bye) {
	select {
	case c.byes <- b:
	default: // it is leaving already
	}
}

// kill ends the socket at once. The first reason counts.
func (c *conn) kill(reason string) {
	c.end.Do(func() {
		c.s.metrics.closed.WithLabelValues(reason).Inc()
		if reason != endClosed && reason != endGoodbye {
			c.log.Warn("cable: socket dropped", "reason", reason)
		}
		close(c.dead)
		c.ws.cut()
	})
}

// send queues a frame. If the queue is full it waits as long as one write may
// take: a peer that does not read for so long is dropped. The reader goroutine
// may wait here too, as a client that does not read its acknowledgements need
// not be read either. It reports whether the frame was queued.
func (c *conn) send(o outbound) bool {
	if c.ended() {
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
	case <-c.dead:
		return false
	case <-timer.C:
		c.tooSlow()
		return false
	}
}

// beat is called every few seconds by one goroutine for all sockets, so it never
// waits. A ping is left out if the queue is full: there are frames enough.
func (c *conn) beat(ping []byte, now time.Time) {
	select {
	case c.out <- outbound{frame: ping}:
	default:
	}
	if now.Sub(c.probes) >= c.s.opt.Timings.Probe {
		c.probes = now
		c.probe()
	}
}

// probe sends a WebSocket ping, unless one is on its way, and drops the socket
// if the answer does not come in time.
func (c *conn) probe() {
	if !c.probed.CompareAndSwap(0, time.Now().UnixNano()) {
		return
	}
	started := c.s.start(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.s.opt.Timings.ProbeWait)
		defer cancel()
		if err := c.ws.Ping(ctx); err != nil {
			c.kill(endPong) // no effect if the socket has ended otherwise
			return
		}
		c.seen.Store(time.Now().UnixNano())
		c.probed.Store(0)
	})
	if !started {
		c.probed.Store(0)
	}
}

// healthy says that nothing speaks against the socket: no ping has been waiting
// for an unusual time.
func (c *conn) healthy() bool {
	at := c.probed.Load()
	return !c.ended() && (at == 0 || time.Since(time.Unix(0, at)) < c.s.opt.Timings.ProbeWait/3)
}

func (c *conn) ended() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

// quietFor is how long nothing was heard from the far side.
func (c *conn) quietFor() time.Duration {
	return time.Since(time.Unix(0, c.seen.Load()))
}

// drop counts a frame that is of no use, and says so from time to time.
func (c *conn) drop(reason string) {
	c.s.metrics.dropped.WithLabelValues(reason).Inc()
	if hushed, ok := c.noise.allow(); ok {
		c.log.Info("cable: frame ignored", "reason", reason, "more", hushed)
	}
}

// noise lets one message through per period.
type noise struct {
	every  time.Duration
	next   time.Time
	hushed int
}

func (n *noise) allow() (hushed int, ok bool) {
	now := time.Now()
	if now.Before(n.next) {
		n.hushed++
		return 0, false
	}
	hushed, n.hushed, n.next = n.hushed, 0, now.Add(n.every)
	return hushed, true
}
