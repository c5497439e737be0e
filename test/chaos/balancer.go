package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"patchbay/test/built"
)

// checkInterval is the interval of the balancer's readiness checks.
const checkInterval = 300 * time.Millisecond

// balancer is a TCP load balancer in front of the instances: it gives each new connection to a
// ready instance. Existing connections stay where they are.
type balancer struct {
	listener net.Listener
	inst     []*instance
	wg       sync.WaitGroup
	stop     context.CancelFunc

	mu    sync.Mutex
	ready map[*instance]bool
	next  int
	conns map[net.Conn]bool
}

func startBalancer(inst []*instance) (*balancer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &balancer{listener: l, inst: inst, ready: map[*instance]bool{}, conns: map[net.Conn]bool{}}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	for _, n := range inst {
		f.wg.Go(func() { f.watch(ctx, n) })
	}
	f.wg.Go(f.accept)
	return f, nil
}

// url returns the balancer's URL for a path.
func (f *balancer) url(path string) string { return "http://" + f.listener.Addr().String() + path }

func (f *balancer) close() {
	f.stop()
	f.listener.Close()
	f.drop()
	f.wg.Wait()
}

// drop closes all connections.
func (f *balancer) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.Close()
	}
}

// watch checks an instance's readiness periodically.
func (f *balancer) watch(ctx context.Context, n *instance) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		ok := built.IsReady(ctx, n.Address)
		f.mu.Lock()
		f.ready[n] = ok
		f.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// await waits until all instances are ready.
func (f *balancer) await(ctx context.Context) error {
	end := time.After(time.Minute)
	for {
		f.mu.Lock()
		n := 0
		for _, ok := range f.ready {
			if ok {
				n++
			}
		}
		f.mu.Unlock()
		if n == len(f.inst) {
			return nil
		}
		select {
		case <-time.After(checkInterval):
		case <-end:
			return errors.New("not all instances get ready")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// candidates returns the instances in the order in which a connection tries them: ready ones first,
// round robin.
func (f *balancer) candidates() (list []*instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	var rest []*instance
	for i := range f.inst {
		n := f.inst[(f.next+i)%len(f.inst)]
		if f.ready[n] {
			list = append(list, n)
		} else {
			rest = append(rest, n)
		}
	}
	return append(list, rest...)
}

// dial connects a voice board: to the MQTT address of the next instance, or to any other address it
// was given.
func (f *balancer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network == "tcp" && address != f.listener.Addr().String() {
		address = f.candidates()[0].mqtt
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (f *balancer) accept() {
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.wg.Go(func() { f.serve(c) })
	}
}

func (f *balancer) serve(c net.Conn) {
	defer f.forget(c)
	f.remember(c)
	for _, n := range f.candidates() {
		to, err := net.DialTimeout("tcp", n.Address, built.ReadyLimit)
		if err != nil {
			continue
		}
		defer f.forget(to)
		f.remember(to)
		var both sync.WaitGroup
		both.Go(func() { pass(to, c) })
		pass(c, to)
		both.Wait()
		return
	}
}

func (f *balancer) remember(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[c] = true
}

func (f *balancer) forget(c net.Conn) {
	c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

// pass copies data in one direction and passes on the end of the stream.
func pass(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	to.(*net.TCPConn).CloseWrite() //nolint:errcheck // it may be closed
}
