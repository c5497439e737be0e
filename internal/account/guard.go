package account

import (
	"net/netip"
	"sync"
	"time"
)

// Guard counts refused keys by address, so that guessing takes time. A valid key is never delayed:
// the clouds that call us use few addresses, and one stranger's wrong key must not lock out
// everybody else behind them.
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
	// guardAddresses bounds the table: at 64 bytes an entry it needs at most 1.3 MB. When it is
	// full, all new addresses share one entry.
	guardAddresses = 20_000
)

// NewGuard returns a guard that allows limit refusals per minute and address.
func NewGuard(limit int, now func() time.Time) *Guard {
	if now == nil {
		now = time.Now
	}
	return &Guard{limit: limit, now: now, seen: map[netip.Prefix]*failures{}}
}

// Take counts a try before it is made, so that concurrent tries count too, and reports whether the
// address may make it. It is meant for passwords, which people choose: past the limit even a
// correct one is not checked.
func (g *Guard) Take(addr netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.count(addr)
	if f.n >= g.limit {
		return false
	}
	f.n++
	return true
}

// GiveBack takes back one try that succeeded or was not made.
func (g *Guard) GiveBack(addr netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.count(addr); f.n > 0 {
		f.n--
	}
}

// Refuse counts a refusal and reports whether the address has had too many.
func (g *Guard) Refuse(addr netip.Addr) (tooMany bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.count(addr)
	f.n++
	return f.n > g.limit
}

// count returns the counter of an address in the current window. The caller holds the lock.
func (g *Guard) count(addr netip.Addr) *failures {
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
	return f
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

// network returns the prefix that counts as one address. It is a /64 for IPv6, because one customer
// has that many.
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
