package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/test/built"
)

// Addresses of the installation in the devices' settings. Nothing listens there: the dialer
// connects to an instance.
const (
	homeAddress   = "127.0.0.1:80"
	brokerAddress = "127.0.0.1:1883"
)

// checkInterval is the interval of readiness checks: half of what the manual asks for.
const checkInterval = time.Second

// connCounts count connections by result.
type connCounts struct {
	Connects int `json:"connects"` // with the expected response
	Refused  int `json:"refused"`  // with a refusal
	Broken   int `json:"broken"`   // closed without a response
	// Unreached counts connections that no instance accepted, although one had reported to be
	// ready.
	Unreached int `json:"unreached"`
}

// balancer selects an instance for each connection.
type balancer struct {
	mu       sync.Mutex
	backends []backend
	ready    []bool
	load     []int // connections per instance
	count    connCounts
}

func newBalancer(ctx context.Context, backends []backend) *balancer {
	b := &balancer{backends: backends, ready: make([]bool, len(backends)), load: make([]int, len(backends))}
	for i, p := range backends {
		b.ready[i] = built.IsReady(ctx, p.HTTP)
	}
	return b
}

// watch checks periodically which instances are ready.
func (b *balancer) watch(ctx context.Context) {
	var work sync.WaitGroup
	for i := range b.backends {
		work.Go(func() {
			for ctx.Err() == nil {
				ok := built.IsReady(ctx, b.backends[i].HTTP)
				b.mu.Lock()
				b.ready[i] = ok
				b.mu.Unlock()
				_ = netx.Wait(ctx, checkInterval)
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

// choose returns an instance that was not tried before: the pinned one if it is ready (-1: not
// pinned), or the one with the fewest connections; -1 if none is left.
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

// errNobody means that no instance is available for a connection.
var errNobody = errors.New("no instance is ready")

// dialer returns the dial function of one device.
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
				continue // like a load balancer
			}
			b.mu.Lock()
			b.load[i]++
			b.mu.Unlock()
			return &conn{Conn: c, b: b, at: i}, nil
		}
	}
}

// conn is a connection whose first response is counted.
type conn struct {
	net.Conn
	b    *balancer
	at   int
	read bool // used by the reader only
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

// judge counts a connection by its first response.
func (b *balancer) judge(first []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(first) == 0 && err != nil:
		b.count.Broken++
	case bytes.HasPrefix(first, []byte{0x20, 2}) && len(first) == 4 && first[3] != 0: // MQTT 3.1.1 §3.2
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
