package relay

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits protect a relay and the homes behind it. The zero value of a field means its default.
type Limits struct {
	// Connections bounds all connections of clients; further ones are closed. Each takes two open
	// files and about 8 KiB; up to six files while much waits for a slow reader (pipes).
	Connections int
	// Streams bounds the simultaneous connections of clients of one home.
	Streams int
	// StreamsOfAddress bounds those of one address to one home, so that nobody alone takes a home
	// off the net; an IPv6 /64 counts as one. The default is a quarter of Streams, and at least 8.
	StreamsOfAddress int
	// Hellos bounds the connections whose TLS hello is not there yet, and HellosOfAddress those of
	// one address; an IPv6 /64 counts as one.
	Hellos, HellosOfAddress int
	// AddressRate and HomeRate are new connections per second of an address and to a home; five
	// times as many may come at once.
	AddressRate, HomeRate int
	// HelloTimeout is how long a client may take for its hello.
	HelloTimeout time.Duration
	// Idle is how long nothing may pass on a connection before it is closed.
	Idle time.Duration
	// HalfClosed is how long a client may keep a connection open that the home has ended. Servers
	// of HTTPS and MQTT have nothing to hear then.
	HalfClosed time.Duration
	// Hold is how long a client waits for a home that is about to return.
	Hold time.Duration
	// Ack is how long a home may take to accept a stream. A spare connection that a router has
	// forgotten without a word takes that long, and then another one is tried.
	Ack time.Duration
}

func (l *Limits) defaults() {
	for _, d := range []struct {
		to    *int
		value int
	}{{&l.Connections, 50_000}, {&l.Streams, 500}, {&l.Hellos, 2000}, {&l.HellosOfAddress, 100}, {&l.AddressRate, 20},
		{&l.HomeRate, 100}} {
		if *d.to == 0 {
			*d.to = d.value
		}
	}
	if l.StreamsOfAddress == 0 {
		l.StreamsOfAddress = max(l.Streams/4, 8)
	}
	for _, d := range []struct {
		to    *time.Duration
		value time.Duration
	}{{&l.HelloTimeout, 10 * time.Second}, {&l.Idle, 15 * time.Minute},
		{&l.HalfClosed, 30 * time.Second}, {&l.Hold, 10 * time.Second},
		{&l.Ack, 3 * time.Second}} {
		if *d.to == 0 {
			*d.to = d.value
		}
	}
}

const (
	burst = 5 // times the rate
	// maxAddresses bounds the addresses whose rates are remembered; when there are more, those that
	// are full again are forgotten, and if none is, all are.
	maxAddresses = 100_000
)

// gate counts hellos and new connections. It is safe for concurrent use.
type gate struct {
	limits *Limits

	mu     sync.Mutex
	hellos int
	of     map[netip.Addr]*visitor
}

// visitor is what is known of an address.
type visitor struct {
	rate   *rate.Limiter
	hellos int
}

func newGate(l *Limits) *gate { return &gate{limits: l, of: map[netip.Addr]*visitor{}} }

// network returns what counts as one address: for IPv6 the network of one subscriber (/64).
func network(a netip.Addr) netip.Addr {
	if a = a.Unmap().WithZone(""); a.Is6() {
		a = netip.PrefixFrom(a, 64).Masked().Addr()
	}
	return a
}

// enter counts a connection until leave, while its hello is awaited. It returns why it is refused,
// or "".
func (g *gate) enter(a netip.Addr) (refused string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.visitor(network(a))
	switch {
	case g.hellos >= g.limits.Hellos:
		return refusedHellos
	case v.hellos >= g.limits.HellosOfAddress:
		return refusedAddress
	}
	g.hellos++
	v.hellos++
	return ""
}

func (g *gate) leave(a netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hellos--
	if v := g.of[network(a)]; v != nil {
		v.hellos--
	}
}

// allow reports whether an address may have a new connection to a home.
func (g *gate) allow(a netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.visitor(network(a)).rate.Allow()
}

func (g *gate) visitor(a netip.Addr) *visitor {
	v := g.of[a]
	if v == nil {
		if len(g.of) >= maxAddresses {
			g.forget()
		}
		r := g.limits.AddressRate
		v = &visitor{rate: rate.NewLimiter(rate.Limit(r), burst*r)}
		g.of[a] = v
	}
	return v
}

// forget drops addresses without a state. The caller holds mu.
func (g *gate) forget() {
	for a, v := range g.of {
		if v.hellos == 0 && v.rate.Tokens() >= float64(v.rate.Burst()) {
			delete(g.of, a)
		}
	}
	if len(g.of) < maxAddresses {
		return
	}
	for a, v := range g.of {
		if v.hellos == 0 {
			delete(g.of, a)
		}
	}
}
