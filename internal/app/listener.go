package app

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// perAddressListener limits the concurrent connections per address and closes further ones, so that
// one machine cannot take them all. This machine, and proxies that serve many people, have no
// limit. Several listeners may count together.
type perAddressListener struct {
	net.Listener
	*addressLimit
}

// addressLimit is what the listeners of a server share.
type addressLimit struct {
	most    int // 0 means no limit
	proxies []netip.Prefix
	refused prometheus.Counter

	mu   sync.Mutex
	here map[netip.Addr]int
}

// with returns another listener, whose connections count together with those of c.
func (c *perAddressListener) with(l net.Listener) *perAddressListener {
	return &perAddressListener{l, c.addressLimit}
}

func newPerAddressListener(l net.Listener, most int, proxies []netip.Prefix,
	reg prometheus.Registerer) *perAddressListener {
	c := &perAddressListener{l, &addressLimit{most: most, proxies: proxies, here: map[netip.Addr]int{},
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "patchbay_http_connections_refused_total",
			Help: "Connections that were closed because their address had too many.",
		})}}
	reg.MustRegister(c.refused)
	return c
}

func (c *perAddressListener) Accept() (net.Conn, error) {
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
			return &countedConn{Conn: conn, listener: c, from: from}, nil
		}
		c.refused.Inc()
		conn.Close() //nolint:errcheck // it is refused either way
	}
}

// counted returns the address that a connection counts for: for IPv6 the network of one subscriber
// (/64). It is invalid if the connection does not count.
func (c *addressLimit) counted(conn net.Conn) netip.Addr {
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

func (c *addressLimit) enter(from netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.here[from] >= c.most {
		return false
	}
	c.here[from]++
	return true
}

func (c *addressLimit) leave(from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.here[from]--; c.here[from] <= 0 {
		delete(c.here, from)
	}
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	listener *perAddressListener
	from     netip.Addr
	once     sync.Once
}

func (g *countedConn) Close() error {
	g.once.Do(func() { g.listener.leave(g.from) })
	return g.Conn.Close()
}
