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

// lookEvery is how often the front looks which instances are ready.
const lookEvery = 300 * time.Millisecond

// front is what stands before the instances, as a reverse proxy does: it gives each connection
// to one that is ready. Connections that there are stay where they are.
type front struct {
	listener net.Listener
	inst     []*instance
	wg       sync.WaitGroup
	stop     context.CancelFunc

	mu    sync.Mutex
	ready map[*instance]bool
	next  int
	conns map[net.Conn]bool
}

func startFront(inst []*instance) (*front, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &front{listener: l, inst: inst, ready: map[*instance]bool{}, conns: map[net.Conn]bool{}}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	for _, n := range inst {
		f.wg.Go(func() { f.look(ctx, n) })
	}
	f.wg.Go(f.accept)
	return f, nil
}

// url is its address, with a path.
func (f *front) url(path string) string { return "http://" + f.listener.Addr().String() + path }

func (f *front) close() {
	f.stop()
	f.listener.Close()
	f.drop()
	f.wg.Wait()
}

// drop ends all connections.
func (f *front) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.Close()
	}
}

// look looks again and again whether an instance is ready.
func (f *front) look(ctx context.Context, n *instance) {
	tick := time.NewTicker(lookEvery)
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
func (f *front) await(ctx context.Context) error {
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
		case <-time.After(lookEvery):
		case <-end:
			return errors.New("not all instances get ready")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// order are the instances in the order in which a connection tries them: first those that
// are ready, in turns.
func (f *front) order() (list []*instance) {
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

// dial connects a voice board: to the MQTT address of an instance whose turn it is, or to
// whatever else it was told.
func (f *front) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network == "tcp" && address != f.listener.Addr().String() {
		address = f.order()[0].mqtt
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (f *front) accept() {
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.wg.Go(func() { f.serve(c) })
	}
}

func (f *front) serve(c net.Conn) {
	defer f.forget(c)
	f.remember(c)
	for _, n := range f.order() {
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

func (f *front) remember(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[c] = true
}

func (f *front) forget(c net.Conn) {
	c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

// pass copies one way, and tells the other side of its end.
func pass(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	to.(*net.TCPConn).CloseWrite() //nolint:errcheck // it is gone already
}
