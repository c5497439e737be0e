package broker

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

// Prober is a session that probes its board itself. The goroutine that calls Message calls Probe.
type Prober interface{ Probe() }

// Conn is a board behind the broker. Its methods are safe for concurrent use.
type Conn struct {
	c         *Client
	id        string
	previous  <-chan struct{} // closed when the board's previous session has ended; nil: none
	began     time.Time
	lastHeard atomic.Int64 // Unix nanoseconds

	// Guarded by the client's mutex.
	connectedAt int64 // time of its connection to the broker, from the broker, in ms; 0: unknown
	probedAt    time.Time
	approved    bool

	mu             sync.Mutex
	clientID       string // may change while the board stays present
	remote         netip.AddrPort
	queue          [][]byte
	probeRequested bool // the board is to be probed
	limiter        *rate.Limiter

	wake  chan struct{} // has a token if the queue or probeRequested changed
	once  sync.Once
	cause error         // valid after ended is closed
	ended chan struct{} // closed when the Conn is to end
	done  chan struct{} // closed when it has ended
}

// ID returns the board's MAC address, with colons.
func (c *Conn) ID() string { return c.id }

// ClientID returns the board's client id, which is part of its topics.
func (c *Conn) ClientID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clientID
}

// RemoteAddr returns the board's address as reported by the broker, often without a port. It is
// zero if the broker reports none.
func (c *Conn) RemoteAddr() netip.AddrPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.remote
}

// LastHeard returns when the board last sent a message or connected.
func (c *Conn) LastHeard() time.Time { return time.Unix(0, c.lastHeard.Load()) }

// Push sends a message. It does not wait: messages that the broker does not take at once are
// queued, up to 16 MiB for all boards, also while there is no connection to the broker. The Conn
// ends with [mqtt.ErrSlow] when the queue is full. Nil does not mean that the board has received
// the message. Other errors are [mqtt.ErrTooLong] and [mqtt.ErrClosed].
func (c *Conn) Push(payload []byte) error {
	if len(payload) > MaxPush {
		return mqtt.ErrTooLong
	}
	if c.isEnded() {
		return mqtt.ErrClosed
	}
	err := c.c.outbox.put(c.c.opt.PushPrefix+"/"+c.ClientID(), payload)
	if err != nil {
		c.end(err)
	}
	return err
}

// Close ends the session, without waiting. The board stays connected to the broker, and gets a new
// session when it sends something, if it is still approved.
func (c *Conn) Close() { c.end(mqtt.ErrClosed) }

func (c *Conn) end(why error) {
	c.once.Do(func() {
		c.cause = why
		close(c.ended)
	})
}

func (c *Conn) isEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// run serves the Conn until it ends.
func (c *Conn) run() {
	defer c.c.remove(c)
	if c.previous != nil {
		<-c.previous
	}
	session := c.openSession()
	if session == nil {
		return
	}
	m, log := c.c.metrics, c.c.opt.Logger
	m.boards.Inc()
	defer m.boards.Dec()
	log.Debug("a board is there behind the MQTT broker", "board", c.id)
	for c.handleNext(session) {
	}
	m.closed.WithLabelValues(closeReason(c.cause)).Inc()
	log.Debug("a board behind the MQTT broker is gone", "board", c.id, "error", c.cause)
	session.Closed(c.cause)
}

// openSession looks the board up and begins its session. Nil: the board was refused.
func (c *Conn) openSession() mqtt.Session {
	refused := c.c.metrics.refused
	select {
	case c.c.lookups <- struct{}{}:
	case <-c.ended:
		return nil
	}
	known, err := c.lookUp()
	<-c.c.lookups
	switch {
	case c.isEnded():
		return nil
	case err != nil:
		c.c.opt.Logger.Warn("it is not known whether a board is approved", "board", c.id, "error", err)
		refused.WithLabelValues("unavailable").Inc()
		c.end(mqtt.ErrClosed)
		return nil
	case !known:
		refused.WithLabelValues("unknown").Inc()
		c.c.refuse(c)
		return nil
	}
	c.c.markApproved(c)
	session := c.c.opt.NewSession(c)
	if session == nil {
		refused.WithLabelValues("closed").Inc()
		c.c.refuse(c)
	}
	return session
}

func (c *Conn) lookUp() (bool, error) {
	ctx, cancel := context.WithTimeout(c.c.ctx, lookupTimeout)
	defer cancel()
	return c.c.opt.IsApproved(ctx, c.id, c.ClientID())
}

// handleNext handles one message or probe, or waits for one. It returns false at the end.
func (c *Conn) handleNext(session mqtt.Session) bool {
	if c.isEnded() {
		return false
	}
	payload, probe := c.dequeue()
	switch {
	case payload != nil:
		c.c.metrics.received.Inc()
		session.Message(payload)
	case probe:
		c.c.metrics.probes.Inc()
		if p, ok := session.(Prober); ok {
			p.Probe()
		} else {
			_ = c.Push([]byte(c.c.opt.ProbePayload)) // if it fails, the Conn ends
		}
	default:
		select {
		case <-c.wake:
		case <-c.ended:
			return false
		}
	}
	return true
}

// dequeue returns the next message, or else whether a probe is due.
func (c *Conn) dequeue() (payload []byte, probe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) > 0 {
		payload = c.queue[0]
		c.queue[0] = nil
		if c.queue = c.queue[1:]; len(c.queue) == 0 {
			c.queue = nil
		}
		c.c.queuedBytes.Add(-int64(len(payload)))
		return payload, false
	}
	probe = c.probeRequested
	c.probeRequested = false
	return nil, probe
}

// enqueue queues a message for the session.
func (c *Conn) enqueue(payload []byte) {
	c.lastHeard.Store(time.Now().UnixNano())
	c.mu.Lock()
	defer c.mu.Unlock()
	dropped := c.c.metrics.dropped
	switch {
	case !c.limiter.Allow():
		dropped.WithLabelValues("rate").Inc()
		return
	case len(payload) == 0: // not a message
		dropped.WithLabelValues("empty").Inc()
		return
	case c.c.queuedBytes.Load()+int64(len(payload)) > maxQueued:
		dropped.WithLabelValues("memory").Inc()
		return
	}
	if len(c.queue) >= maxQueue {
		dropped.WithLabelValues("slow").Inc()
		c.c.queuedBytes.Add(-int64(len(c.queue[0])))
		c.queue = append(c.queue[:0], c.queue[1:]...)
	}
	c.queue = append(c.queue, payload)
	c.c.queuedBytes.Add(int64(len(payload)))
	c.signal()
}

// requestProbe has the session's goroutine probe the board.
func (c *Conn) requestProbe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probeRequested = true
	c.signal()
}

func (c *Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// clearQueue drops all messages. The caller holds the client's mutex, so that no message is added
// later.
func (c *Conn) clearQueue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, payload := range c.queue {
		c.c.queuedBytes.Add(-int64(len(payload)))
	}
	c.queue = nil
}
