package app

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// crowd is a listener that lets each address have some connections at a time, and closes
// what is beyond: one machine cannot take all that there are. This machine and proxies,
// behind which many people are, may have any number.
type crowd struct {
	net.Listener
	most    int // 0: any number
	proxies []netip.Prefix
	refused prometheus.Counter

	mu   sync.Mutex
	here map[netip.Addr]int
}

func newCrowd(l net.Listener, most int, proxies []netip.Prefix, reg prometheus.Registerer) *crowd {
	c := &crowd{Listener: l, most: most, proxies: proxies, here: map[netip.Addr]int{}, refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "patchbay_http_connections_refused_total", Help: "Connections that were closed because their address had too many.",
	})}
	reg.MustRegister(c.refused)
	return c
}

func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := c.counted(conn)
		if !from.IsValid() {
			return conn, nil
		}
		if c.enter(from) {
			return &guest{Conn: conn, crowd: c, from: from}, nil
		}
		c.refused.Inc()
		conn.Close() //nolint:errcheck // it is refused either way
	}
}

// counted is the address of which a connection counts, as an IPv6 network of one
// subscriber; not valid if it does not count.
func (c *crowd) counted(conn net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || c.most == 0 {
		return netip.Addr{}
	}
	from := at.Addr().Unmap().WithZone("")
	if from.IsLoopback() || slices.ContainsFunc(c.proxies, func(p netip.Prefix) bool { return p.Contains(from) }) {
		return netip.Addr{}
	}
	if from.Is6() {
		from = netip.PrefixFrom(from, 64).Masked().Addr()
	}
	return from
}

func (c *crowd) enter(from netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.here[from] >= c.most {
		return false
	}
	c.here[from]++
	return true
}

func (c *crowd) leave(from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.here[from]--; c.here[from] <= 0 {
		delete(c.here, from)
	}
}

// guest is a connection that counts.
type guest struct {
	net.Conn
	crowd *crowd
	from  netip.Addr
	once  sync.Once
}

func (g *guest) Close() error {
	g.once.Do(func() { g.crowd.leave(g.from) })
	return g.Conn.Close()
}
