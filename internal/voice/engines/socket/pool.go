package socket

import (
	"context"
	"slices"
	"sync"
	"time"

	"patchbay/internal/voice/engine"
)

const (
	// maxIdle is how many connections wait for their next use. More than one is of use when several
	// people talk at once.
	maxIdle = 4
	// idleTime is how long a connection waits: services close it after a minute.
	idleTime = 50 * time.Second
	// freshTime is how long a connection waits until Warm opens a younger one beside it, so that
	// one is left when it is needed some seconds later.
	freshTime = idleTime / 2
	// staleTime is how long a connection that waited may take to answer. A router that forgot the
	// connection drops what is sent, and nobody would notice.
	staleTime = time.Second
	// drainTime is how long a connection may take to end its last use.
	drainTime = 2 * time.Second
)

// Pool keeps connections for their next use. The zero value with Open set is ready. It is safe for
// concurrent use.
type Pool struct {
	// Open returns a connection that is ready to be used. The error is an [*engine.Error], or that
	// of ctx.
	Open func(ctx context.Context) (*Conn, error)

	mu      sync.Mutex
	idle    []*idleConn // the one that waited least is last
	opening bool        // Warm opens one
	closed  chan struct{}
	ended   bool
	keepers sync.WaitGroup // the goroutines of idle connections
}

// idleConn is a connection that waits for its next use.
type idleConn struct {
	*Conn
	since time.Time
	taken chan struct{} // closed when somebody takes it
	stood chan bool     // gets whether it was of use, when its goroutine returns
}

// Begin returns a connection on which begin has succeeded. If one that waited turns out to be dead,
// it tries again with a new one.
func (p *Pool) Begin(ctx context.Context, begin func(context.Context, *Conn) error) (*Conn, error) {
	if c := p.take(); c != nil {
		limited, cancel := context.WithTimeoutCause(ctx, staleTime, errStale)
		err := begin(limited, c)
		cancel()
		if err == nil {
			return c, nil
		}
		c.Close()
		e := engine.AsError(err)
		if ctx.Err() != nil || e == nil || e.Class != engine.Closed && e.Class != engine.Timeout {
			return nil, err
		}
	}
	c, err := p.Open(ctx)
	if err != nil {
		return nil, err
	}
	if err := begin(ctx, c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

var errStale = engine.Errorf(engine.Timeout, "a connection that waited does not answer")

// Warm opens a connection unless a fresh one waits. What goes wrong is left to whoever needs one.
func (p *Pool) Warm(ctx context.Context) {
	p.mu.Lock()
	n := len(p.idle)
	if p.opening || p.ended || n > 0 && time.Since(p.idle[n-1].since) < freshTime {
		p.mu.Unlock()
		return
	}
	p.opening = true
	p.mu.Unlock()
	c, err := p.Open(ctx)
	p.mu.Lock()
	p.opening = false
	p.mu.Unlock()
	if err == nil {
		p.Put(c, nil)
	}
}

// Put keeps a connection for its next use, or closes it if there are enough. If its last use has
// not ended, ended reports which message ends it.
func (p *Pool) Put(c *Conn, ended func(Message) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed == nil {
		p.closed = make(chan struct{})
	}
	switch {
	case p.ended:
		c.Close()
	case ended == nil:
		p.add(c)
	default:
		p.keepers.Go(func() {
			if !p.drain(c, ended) {
				c.Close()
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.add(c)
		})
	}
}

// add lets a connection wait. Requires mu.
func (p *Pool) add(c *Conn) {
	if len(p.idle) >= maxIdle {
		p.keepers.Go(c.Close)
		return
	}
	i := &idleConn{c, time.Now(), make(chan struct{}), make(chan bool, 1)}
	p.idle = append(p.idle, i)
	p.keepers.Go(func() { p.keep(i) })
}

// drain waits for the end of the last use.
func (p *Pool) drain(c *Conn, ended func(Message) bool) bool {
	limit := time.NewTimer(drainTime)
	defer limit.Stop()
	for {
		select {
		case m := <-c.messages:
			if ended(m) {
				return true
			}
		case <-c.done:
			return false
		case <-limit.C:
			return false
		case <-p.closed:
			return false
		}
	}
}

// keep holds a connection until it is taken, has waited too long, or says something: then it is of
// no use.
func (p *Pool) keep(i *idleConn) {
	limit := time.NewTimer(idleTime)
	defer limit.Stop()
	select {
	case <-i.taken:
		i.stood <- true
		return
	case <-limit.C:
	case <-i.messages:
	case <-i.done:
	case <-p.closed:
	}
	i.Close()
	i.stood <- false
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(other *idleConn) bool { return other == i })
}

// take returns the connection that waited least, or nil.
func (p *Pool) take() *Conn {
	for {
		p.mu.Lock()
		if len(p.idle) == 0 {
			p.mu.Unlock()
			return nil
		}
		i := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		p.mu.Unlock()
		close(i.taken)
		if <-i.stood {
			return i.Conn
		}
	}
}

// Close closes the connections that wait. Those in use are closed when their use ends.
func (p *Pool) Close() {
	p.mu.Lock()
	if !p.ended {
		p.ended = true
		if p.closed == nil {
			p.closed = make(chan struct{})
		}
		close(p.closed)
	}
	p.mu.Unlock()
	p.keepers.Wait()
}
