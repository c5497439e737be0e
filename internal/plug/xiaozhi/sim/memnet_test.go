package sim

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// memNet is a network in memory that works in a testing/synctest bubble: most of these tests depend
// on milliseconds, which a busy machine cannot guarantee in real time. A nil memNet is the real
// network.
type memNet struct {
	mu        sync.Mutex
	port      int
	listeners map[string]*memListener
	packets   map[string]*memPackets
}

func newMemNet() *memNet {
	return &memNet{port: 1000, listeners: map[string]*memListener{}, packets: map[string]*memPackets{}}
}

func (n *memNet) next() int { n.port++; return n.port }

func (n *memNet) listen() (net.Listener, error) {
	if n == nil {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &memListener{addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n.next()}, conns: make(chan net.Conn, 100),
		done: make(chan struct{})}
	n.listeners[l.addr.String()] = l
	return l, nil
}

func (n *memNet) listenPacket() (net.PacketConn, error) {
	if n == nil {
		return net.ListenPacket("udp4", "127.0.0.1:0")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &memPackets{addr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n.next()}, in: make(chan memPacket, 1000),
		done: make(chan struct{})}
	n.packets[p.addr.String()] = p
	return p, nil
}

func (n *memNet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n == nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.packets[address]; network == "udp4" && p != nil {
		return &memUDP{server: p, port: n.next(), in: make(chan []byte, 1000), done: make(chan struct{})}, nil
	}
	l := n.listeners[address]
	if l == nil {
		return nil, errors.New("connection refused")
	}
	a, b := newMemBuf(), newMemBuf()
	select {
	case l.conns <- &memConn{in: a, out: b, addr: l.addr}:
		return &memConn{in: b, out: a, addr: l.addr}, nil
	case <-l.done:
		return nil, errors.New("connection refused")
	}
}

type memListener struct {
	addr  *net.TCPAddr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *memListener) Addr() net.Addr { return l.addr }

// memBuf is one direction of a connection.
type memBuf struct {
	mu       sync.Mutex
	cond     *sync.Cond
	data     []byte
	ended    bool // the writer has closed it
	gone     bool // the reader has closed it
	deadline time.Time
	timer    *time.Timer
}

func newMemBuf() *memBuf {
	b := &memBuf{}
	b.cond = sync.NewCond(&b.mu)
	return b
}

type memConn struct {
	in, out *memBuf
	addr    net.Addr
}

func (c *memConn) Read(p []byte) (int, error) {
	b := c.in
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case b.gone:
			return 0, net.ErrClosed
		case !b.deadline.IsZero() && !time.Now().Before(b.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(b.data) > 0:
			n := copy(p, b.data)
			b.data = b.data[n:]
			return n, nil
		case b.ended:
			return 0, io.EOF
		}
		b.cond.Wait()
	}
}

func (c *memConn) Write(p []byte) (int, error) {
	b := c.out
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.gone {
		return 0, net.ErrClosed
	}
	b.data = append(b.data, p...)
	b.cond.Broadcast()
	return len(p), nil
}

func (c *memConn) Close() error {
	for _, b := range []*memBuf{c.in, c.out} {
		b.mu.Lock()
		if b == c.in {
			b.gone = true
		} else {
			b.ended = true
		}
		b.cond.Broadcast()
		b.mu.Unlock()
	}
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	b := c.in
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = t
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	if d := time.Until(t); !t.IsZero() && d > 0 {
		b.timer = time.AfterFunc(d, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.cond.Broadcast()
		})
	}
	b.cond.Broadcast()
	return nil
}

func (c *memConn) SetDeadline(t time.Time) error  { return c.SetReadDeadline(t) }
func (*memConn) SetWriteDeadline(time.Time) error { return nil }
func (c *memConn) LocalAddr() net.Addr            { return c.addr }
func (c *memConn) RemoteAddr() net.Addr           { return c.addr }

type memPacket struct {
	data []byte
	from *memUDP
}

// memPackets is the server's end of datagrams.
type memPackets struct {
	net.PacketConn // for deadlines, which are not used
	addr           *net.UDPAddr
	in             chan memPacket
	done           chan struct{}
	once           sync.Once
}

func (p *memPackets) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case m := <-p.in:
		return copy(b, m.data), m.from, nil
	case <-p.done:
		return 0, nil, net.ErrClosed
	}
}

func (p *memPackets) WriteTo(b []byte, to net.Addr) (int, error) {
	select {
	case to.(*memUDP).in <- append([]byte(nil), b...):
	default: // dropped
	}
	return len(b), nil
}

func (p *memPackets) Close() error        { p.once.Do(func() { close(p.done) }); return nil }
func (p *memPackets) LocalAddr() net.Addr { return p.addr }

// memUDP is a board's end of datagrams, with its address.
type memUDP struct {
	net.Conn // for deadlines, which are not used
	server   *memPackets
	port     int
	in       chan []byte
	done     chan struct{}
	once     sync.Once
}

func (u *memUDP) Network() string { return "udp" }
func (u *memUDP) String() string  { return "127.0.0.1:" + strconv.Itoa(u.port) }

func (u *memUDP) Read(b []byte) (int, error) {
	select {
	case d := <-u.in:
		return copy(b, d), nil
	case <-u.done:
		return 0, net.ErrClosed
	}
}

func (u *memUDP) Write(b []byte) (int, error) {
	select {
	case u.server.in <- memPacket{append([]byte(nil), b...), u}:
	default: // dropped
	}
	return len(b), nil
}

func (u *memUDP) Close() error { u.once.Do(func() { close(u.done) }); return nil }
