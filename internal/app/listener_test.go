package app

import (
	"net"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// from is a connection from a given address.
type from struct {
	net.Conn
	address string
	closed  bool
}

func (f *from) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(f.address), 4711))
}
func (f *from) Close() error { f.closed = true; return nil }

// arrivals is a listener with a list of connections.
type arrivals struct {
	net.Listener
	list []*from
}

func (a *arrivals) Accept() (net.Conn, error) {
	if len(a.list) == 0 {
		return nil, net.ErrClosed
	}
	next := a.list[0]
	a.list = a.list[1:]
	return next, nil
}

// The connections of an address are limited, except those of this machine and of proxies.
func TestConnectionsOfAnAddress(t *testing.T) {
	come := &arrivals{}
	c := newPerAddressListener(come, 2, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, prometheus.NewRegistry())
	var in []net.Conn
	for _, step := range []struct {
		address string
		ok      bool
	}{
		{"203.0.113.1", true}, {"203.0.113.1", true}, {"203.0.113.1", false}, {"::ffff:203.0.113.1", false},
		{"203.0.113.2", true},
		{"2001:db8::1", true}, {"2001:db8::2", true}, {"2001:db8::3", false}, {"2001:db8:0:1::1", true},
		{"127.0.0.1", true}, {"127.0.0.1", true}, {"127.0.0.1", true}, {"10.1.2.3", true}, {"10.1.2.3", true},
		{"10.1.2.3", true},
	} {
		f := &from{address: step.address}
		come.list = []*from{f}
		conn, err := c.Accept()
		if (err == nil) != step.ok || f.closed == step.ok {
			t.Errorf("%s: %v, closed %v", step.address, err, f.closed)
		}
		if err == nil {
			in = append(in, conn)
		}
	}
	for _, conn := range in {
		conn.Close()
		conn.Close() // as servers do
	}
	if len(c.here) != 0 {
		t.Errorf("left behind are %v", c.here)
	}
}
