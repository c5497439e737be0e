package account

import (
	"net/netip"
	"sync"
	"time"
)

// Guard counts refused keys by address, so that guessing costs time. A good key
// is never held up: the clouds that call us come from few addresses, and one
// stranger's wrong key must not lock out everybody else who comes through them.
type Guard struct {
	limit int
	now   func() time.Time

	mu    sync.Mutex
	seen  map[netip.Prefix]*failures
	swept time.Time
}

type failures struct {
	n     int
	since time.Time
}

const (
	guardWindow = time.Minute
	// guardAddresses bounds the table: at 64 bytes an entry, 1.3 MB when
	// everybody in the world tries. Past it, new addresses count as one.
	guardAddresses = 20_000
)

// NewGuard allows limit refusals a minute and address.
func NewGuard(limit int, now func() time.Time) *Guard {
	if now == nil {
		now = time.Now
	}
	return &Guard{limit: limit, now: now, seen: map[netip.Prefix]*failures{}}
}

// Blocked says whether an address has had all the refusals that it may have. It is for
// passwords, which people choose: of those, even a good one is not looked at then.
func (g *Guard) Blocked(addr netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.seen[network(addr)]
	if f == nil && len(g.seen) >= guardAddresses {
		f = g.seen[netip.Prefix{}]
	}
	return f != nil && f.n >= g.limit && g.now().Sub(f.since) < guardWindow
}

// Refuse counts a refusal and says whether the address has had too many.
func (g *Guard) Refuse(addr netip.Addr) (tooMany bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	g.sweep(now)
	who := network(addr)
	f := g.seen[who]
	if f == nil && len(g.seen) >= guardAddresses {
		who = netip.Prefix{}
		f = g.seen[who]
	}
	if f == nil || now.Sub(f.since) >= guardWindow {
		f = &failures{since: now}
		g.seen[who] = f
	}
	f.n++
	return f.n > g.limit
}

func (g *Guard) sweep(now time.Time) {
	if now.Sub(g.swept) < guardWindow {
		return
	}
	g.swept = now
	for who, f := range g.seen {
		if now.Sub(f.since) >= guardWindow {
			delete(g.seen, who)
		}
	}
}

// network is what counts as one address: an IPv6 customer has a /64 of them.
func network(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
