package link

import (
	"context"
	"net"
	"sync"
)

// Conn is a connection of a client that came through a relay.
type Conn struct {
	net.Conn
	from   net.Addr
	closed func()
	once   sync.Once
}

// RemoteAddr returns the address of the client as the relay told it, or 192.0.0.8 if that was not a
// public one.
func (c *Conn) RemoteAddr() net.Addr { return c.from }

// Close closes the connection.
func (c *Conn) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}

// CloseWrite ends the direction to the client.
func (c *Conn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return c.Close()
}

// listener is a [net.Listener] of the connections that arrive by all relays.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newListener() *listener { return &listener{conns: make(chan net.Conn), done: make(chan struct{})} }

// offer waits until a connection is accepted. False: nobody accepts any more, or ctx has ended.
func (l *listener) offer(ctx context.Context, c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.done:
	case <-ctx.Done():
	}
	return false
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]. Connections that were not accepted are closed.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements [net.Listener]. The connections arrive elsewhere.
func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }
