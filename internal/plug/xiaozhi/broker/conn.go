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

// Prober is a session that knows how to make its board say something. Probe is called
// by the goroutine that calls Message.
type Prober interface{ Probe() }

// Conn is a board behind the broker. Its methods may be called from many goroutines.
type Conn struct {
	c     *Client
	id    string
	after <-chan struct{} // closed when the board's session before has ended; or nil
	began time.Time
	heard atomic.Int64 // Unix nanoseconds

	// Guarded by the client's mutex.
	since  int64 // when it connected to the broker, as the broker says, in ms; 0: not known
	probed time.Time
	known  bool

	mu     sync.Mutex
	name   string // the client id
	remote netip.AddrPort
	queue  [][]byte
	probe  bool // the board is to be made to say something
	pace   *rate.Limiter

	wake  chan struct{} // holds one if there may be something
	once  sync.Once
	cause error         // why it ended; valid when ended is closed
	ended chan struct{} // closed when it is to end
	over  chan struct{} // closed when it has
}

// ID is the board's MAC address, with colons.
func (c *Conn) ID() string { return c.id }

// ClientID is what the board calls itself, and is in the names of its topics.
func (c *Conn) ClientID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

// RemoteAddr is from where the board has connected to the broker, as the broker says,
// often without a port. Mostly it is not known.
func (c *Conn) RemoteAddr() netip.AddrPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.remote
}

// LastHeard is when the board said something, or was said to have connected.
func (c *Conn) LastHeard() time.Time { return time.Unix(0, c.heard.Load()) }

// Push sends a message. It does not wait: what the broker does not take at once waits
// in a queue of 16 MiB for all boards, and the Conn ends with [mqtt.ErrSlow] when
// there is no room. While there is no connection to the broker messages wait, too. A
// nil error does not mean that the board has it. Other errors are [mqtt.ErrTooLong]
// and [mqtt.ErrClosed].
func (c *Conn) Push(payload []byte) error {
	if len(payload) > MaxPush {
		return mqtt.ErrTooLong
	}
	if c.isEnded() {
		return mqtt.ErrClosed
	}
	err := c.c.out.put(c.c.opt.PushPrefix+"/"+c.ClientID(), payload)
	if err != nil {
		c.end(err)
	}
	return err
}

// Close ends the session. It does not wait for that. The board itself stays connected
// to the broker, and gets a new session when it says something, if it is known still.
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

// run is the life of a Conn.
func (c *Conn) run() {
	defer c.c.leave(c)
	if c.after != nil {
		<-c.after
	}
	session := c.begin()
	if session == nil {
		return
	}
	m, log := c.c.metrics, c.c.opt.Logger
	m.boards.Inc()
	defer m.boards.Dec()
	log.Debug("a board is there behind the MQTT broker", "board", c.id)
	for c.next(session) {
	}
	m.closed.WithLabelValues(ending(c.cause)).Inc()
	log.Debug("a board behind the MQTT broker is gone", "board", c.id, "error", c.cause)
	session.Gone(c.cause)
}

// begin finds out whether the board is approved, and begins its session. Nil refuses.
func (c *Conn) begin() mqtt.Session {
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
		c.c.estrange(c)
		return nil
	}
	c.c.letIn(c)
	session := c.c.opt.Connected(c)
	if session == nil {
		refused.WithLabelValues("closed").Inc()
		c.c.estrange(c)
	}
	return session
}

func (c *Conn) lookUp() (bool, error) {
	ctx, cancel := context.WithTimeout(c.c.ctx, lookupTimeout)
	defer cancel()
	return c.c.opt.Known(ctx, c.id, c.ClientID())
}

// next does one thing with the session, or waits for one. It is false at the end.
func (c *Conn) next(session mqtt.Session) bool {
	if c.isEnded() {
		return false
	}
	payload, probe := c.take()
	switch {
	case payload != nil:
		c.c.metrics.received.Inc()
		session.Message(payload)
	case probe:
		c.c.metrics.knocks.Inc()
		if p, ok := session.(Prober); ok {
			p.Probe()
		} else {
			_ = c.Push([]byte(c.c.opt.Knock)) // it has ended then
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

// take is the next message, or whether the board is to be made to say something.
func (c *Conn) take() (payload []byte, probe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) > 0 {
		payload = c.queue[0]
		c.queue[0] = nil
		if c.queue = c.queue[1:]; len(c.queue) == 0 {
			c.queue = nil
		}
		c.c.queued.Add(-int64(len(payload)))
		return payload, false
	}
	probe = c.probe
	c.probe = false
	return nil, probe
}

// put gives the session a message, in its own time.
func (c *Conn) put(payload []byte) {
	c.heard.Store(time.Now().UnixNano())
	c.mu.Lock()
	defer c.mu.Unlock()
	dropped := c.c.metrics.dropped
	switch {
	case !c.pace.Allow():
		dropped.WithLabelValues("rate").Inc()
		return
	case len(payload) == 0: // it says nothing
		dropped.WithLabelValues("empty").Inc()
		return
	case c.c.queued.Load()+int64(len(payload)) > maxQueued:
		dropped.WithLabelValues("memory").Inc()
		return
	}
	if len(c.queue) >= maxQueue {
		dropped.WithLabelValues("slow").Inc()
		c.c.queued.Add(-int64(len(c.queue[0])))
		c.queue = append(c.queue[:0], c.queue[1:]...)
	}
	c.queue = append(c.queue, payload)
	c.c.queued.Add(int64(len(payload)))
	c.rouse()
}

// ask makes the session make the board say something.
func (c *Conn) ask() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probe = true
	c.rouse()
}

func (c *Conn) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// discard throws away what waits. The caller holds the client's mutex, so that
// nothing is put any more.
func (c *Conn) discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, payload := range c.queue {
		c.c.queued.Add(-int64(len(payload)))
	}
	c.queue = nil
}
