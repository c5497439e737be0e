// Package proxytest provides a TCP proxy that fails like a network: it closes connections, delivers
// nothing, or is slow. It is for tests and for test/chaos.
package proxytest

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// mode is how a proxy treats connections and data.
type mode int

const (
	passing  mode = iota
	refusing      // connections are refused
	muting        // connections are accepted, and nothing is delivered
)

// Proxy forwards TCP connections to one address. It is safe for concurrent use.
type Proxy struct {
	to       string
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	mode    mode
	delay   time.Duration
	changed chan struct{} // closed and replaced when mode, delay or closed change
	closed  bool
	conns   map[*conn]bool
}

// conn is a connection of a client and the one to the server.
type conn struct {
	from, to net.Conn // to is nil until it is connected
	muted    bool     // delivers nothing, whatever the mode
	ended    chan struct{}
	end      sync.Once
}

// New starts a proxy to an address. It ends with the test.
func New(t testing.TB, to string) *Proxy {
	t.Helper()
	p, err := Start(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Start starts a proxy to an address, on a port of 127.0.0.1. The caller closes it.
func Start(to string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{to: to, listener: l, changed: make(chan struct{}), conns: map[*conn]bool{}}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is the address of the proxy: host and port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Pass delivers everything, as in the beginning. Muted connections continue with the data that was
// held back, except those of [Proxy.MuteExisting].
func (p *Proxy) Pass() { p.set(passing, 0) }

// Slow delivers everything with a delay.
func (p *Proxy) Slow(delay time.Duration) { p.set(passing, delay) }

// Mute accepts connections and data, and delivers nothing, like a network that loses all packets:
// neither side gets an error.
func (p *Proxy) Mute() { p.set(muting, 0) }

// MuteExisting mutes the current connections permanently, as after a failover to another machine,
// and delivers the data of new ones.
func (p *Proxy) MuteExisting() {
	p.mu.Lock()
	for c := range p.conns {
		c.muted = true
	}
	p.mu.Unlock()
	p.set(passing, 0)
}

// Cut closes all connections and refuses new ones.
func (p *Proxy) Cut() {
	p.set(refusing, 0)
	p.Drop()
}

// Drop closes all connections. The mode stays the same for new ones.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.reset()
	}
}

// Close stops the proxy and closes all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.set(refusing, 0)
	p.Drop()
	p.wg.Wait()
}

func (p *Proxy) set(m mode, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode, p.delay = m, delay
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) accept() {
	for {
		from, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.closed || p.mode == refusing {
			p.mu.Unlock()
			reset(from)
			continue
		}
		c := &conn{from: from, ended: make(chan struct{})}
		p.conns[c] = true
		p.wg.Go(func() { p.serve(c) })
		p.mu.Unlock()
	}
}

// serve connects to the server and forwards data in both directions.
func (p *Proxy) serve(c *conn) {
	defer func() {
		c.from.Close()
		if c.to != nil {
			c.to.Close()
		}
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	if !p.wait(c) {
		return
	}
	to, err := net.DialTimeout("tcp", p.to, 5*time.Second)
	if err != nil {
		return
	}
	p.mu.Lock()
	c.to = to
	p.mu.Unlock()
	select {
	case <-c.ended: // ended before c.to was set: nothing else closes it
		reset(to)
		return
	default:
	}
	var both sync.WaitGroup
	both.Go(func() { p.pass(c, to, c.from) })
	p.pass(c, c.from, to)
	both.Wait()
}

// pass copies one direction until its end, and then half-closes the other side.
func (p *Proxy) pass(c *conn, to, from net.Conn) {
	data := make([]byte, 64<<10)
	for {
		n, err := from.Read(data)
		if n > 0 {
			if !p.wait(c) {
				return
			}
			if _, err := to.Write(data[:n]); err != nil {
				c.reset()
				return
			}
		}
		switch {
		case err == nil:
		case !p.wait(c): // a muted connection does not deliver the end either
			return
		case errors.Is(err, io.EOF):
			to.(*net.TCPConn).CloseWrite() //nolint:errcheck // it is closed already
			return
		default:
			c.reset()
			return
		}
	}
}

// wait waits until data may be delivered. It reports whether the connection still exists.
func (p *Proxy) wait(c *conn) bool {
	late := false
	for {
		p.mu.Lock()
		changed, blocked, delay := p.changed, p.mode == muting || c.muted, p.delay
		p.mu.Unlock()
		var after <-chan time.Time
		switch {
		case blocked:
		case delay == 0 || late:
			return true
		default:
			after = time.After(delay)
		}
		select {
		case <-changed:
		case <-after:
			late = true
		case <-c.ended:
			return false
		}
	}
}

// reset closes both connections at once; unsent data is lost.
func (c *conn) reset() {
	c.end.Do(func() {
		close(c.ended)
		reset(c.from)
		if c.to != nil {
			reset(c.to)
		}
	})
}

func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0) //nolint:errcheck // it is closed in any case
	c.Close()
}
