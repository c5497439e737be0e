package sockettest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Dialer opens the connections of an engine, and knows which are open. It is safe for concurrent
// use.
type Dialer struct{ open atomic.Int64 }

// Dial opens a connection.
func (d *Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	return &dialed{Conn: c, closed: sync.OnceFunc(func() { d.open.Add(-1) })}, nil
}

// Clean checks that no connection is left open.
func (d *Dialer) Clean(t testing.TB, name string) {
	t.Helper()
	Eventually(t, name+": a connection is left open", func() bool { return d.open.Load() == 0 })
}

// dialed is a connection of a [Dialer].
type dialed struct {
	net.Conn
	closed func()
}

func (c *dialed) Close() error {
	c.closed()
	return c.Conn.Close()
}
