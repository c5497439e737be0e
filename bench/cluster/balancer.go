package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/test/built"
)

// Where devices believe that the installation is. Nothing is there: they are connected to an
// instance.
const (
	homeAddress   = "127.0.0.1:80"
	brokerAddress = "127.0.0.1:1883"
)

// checkInterval is how often it is looked which instances are ready: twice as often as the manual
// asks for.
const checkInterval = time.Second

// connCounts are what became of connections.
type connCounts struct {
	Connects int `json:"connects"` // that were answered as they have to be
	Refused  int `json:"refused"`  // that were answered with a refusal
	Broken   int `json:"broken"`   // that were cut off without an answer
	// Unreached are those that no instance took, although one had said that it is ready.
	Unreached int `json:"unreached"`
}

// balancer chooses an instance for each connection.
type balancer struct {
	mu       sync.Mutex
	backends []backend
	ready    []bool
	load     []int // connections
	count    connCounts
}

func newBalancer(ctx context.Context, backends []backend) *balancer {
	b := &balancer{backends: backends, ready: make([]bool, len(backends)), load: make([]int, len(backends))}
	for i, p := range backends {
		b.ready[i] = built.IsReady(ctx, p.HTTP)
	}
	return b
}

// watch looks again and again which instances are ready.
func (b *balancer) watch(ctx context.Context) {
	var work sync.WaitGroup
	for i := range b.backends {
		work.Go(func() {
			for ctx.Err() == nil {
				ok := built.IsReady(ctx, b.backends[i].HTTP)
				b.mu.Lock()
				b.ready[i] = ok
				b.mu.Unlock()
				pause(ctx, checkInterval)
			}
		})
	}
	work.Wait()
}

func (b *balancer) counted() connCounts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// choose chooses the instance for a connection that was not tried before: the pinned one if it
// is ready (none: -1), or the one with the fewest connections; -1 if none is left.
func (b *balancer) choose(pin int, tried []bool) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if pin >= 0 && b.ready[pin] && !tried[pin] {
		return pin
	}
	best := -1
	for i := range b.backends {
		if b.ready[i] && !tried[i] && (best < 0 || b.load[i] < b.load[best]) {
			best = i
		}
	}
	return best
}

// errNobody says that no instance is there for a connection.
var errNobody = errors.New("no instance is ready")

// dialer makes the connections of one device.
func (b *balancer) dialer(number, pin int) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := sim.DialFrom(number)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		tried := make([]bool, len(b.backends))
		for {
			i := b.choose(pin, tried)
			if i < 0 {
				b.mu.Lock()
				b.count.Unreached++
				b.mu.Unlock()
				return nil, errNobody
			}
			tried[i] = true
			to := b.backends[i].HTTP
			if address == brokerAddress {
				to = b.backends[i].MQTT
			}
			c, err := dial(ctx, network, to)
			if err != nil {
				continue // as a load balancer does
			}
			b.mu.Lock()
			b.load[i]++
			b.mu.Unlock()
			return &conn{Conn: c, b: b, at: i}, nil
		}
	}
}

// conn is a connection whose first answer is looked at.
type conn struct {
	net.Conn
	b    *balancer
	at   int
	read bool // with its reader alone
	once sync.Once
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.read {
		c.read = true
		c.b.judge(p[:n], err)
	}
	return n, err
}

// judge counts a connection by what is heard on it first.
func (b *balancer) judge(first []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(first) == 0 && err != nil:
		b.count.Broken++
	case bytes.HasPrefix(first, []byte{0x20, 2}) && len(first) == 4 && first[3] != 0: // CONNACK
		b.count.Refused++
	case bytes.HasPrefix(first, []byte("HTTP/1.1 ")) && !bytes.HasPrefix(first[9:], []byte("101")) &&
		!bytes.HasPrefix(first[9:], []byte("200")):
		b.count.Refused++
	default:
		b.count.Connects++
	}
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.b.mu.Lock()
		c.b.load[c.at]--
		c.b.mu.Unlock()
	})
	return c.Conn.Close()
}
