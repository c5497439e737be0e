package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/wire"
)

const (
	// openers is the number of nodes that connect at a time. A gateway limits the unauthenticated
	// connections of one address (maxHalfOpenPerAddr in plug/openclaw/gateway).
	openers = 32
	// warm is the number of nodes that connect before anything is measured, to exclude what is
	// created once.
	warm = 10
	// idleBuffer is the size of a node's read buffer, in bytes. It does not affect the server.
	idleBuffer = 4 << 10
)

// simNodes are connected and approved nodes.
type simNodes struct {
	at      *process
	took    time.Duration  // time to connect all of them
	serving sync.WaitGroup // one goroutine per node

	mu    sync.Mutex
	nodes []*client
	who   []wire.Identity
	wait  map[string]chan string // by node: receives the id of its pairing request
}

// connect connects a node, which answers pings and calls from then on.
func (f *simNodes) connect(ctx context.Context, me wire.Identity) (*client, error) {
	node, err := dialNode(ctx, f.at, me, idleBuffer)
	if err != nil {
		return nil, err
	}
	node.limit(time.Time{})
	f.serving.Go(func() { serveNode(node, me.ID(), answerInvoke) }) //nolint:errcheck // closed at the end
	return node, nil
}

// close disconnects all of them.
func (f *simNodes) close() {
	for _, n := range f.nodes {
		n.close()
	}
	f.serving.Wait()
}

// each calls do n times, several at a time.
func (f *simNodes) each(ctx context.Context, n int, do func(i int) error) error {
	start := time.Now()
	var next atomic.Int64
	errs := make([]error, openers)
	var work sync.WaitGroup
	for k := range openers {
		work.Go(func() {
			for i := int(next.Add(1)); errs[k] == nil && i <= n && ctx.Err() == nil; i = int(next.Add(1)) {
				errs[k] = do(i - 1)
			}
		})
	}
	work.Wait()
	f.took = time.Since(start)
	return errors.Join(append(errs, ctx.Err())...)
}

// connectAll connects and approves nodes.
func (f *simNodes) connectAll(ctx context.Context, n int) error {
	operator, err := dialOperator(ctx, f.at)
	if err != nil {
		return err
	}
	defer operator.close()
	hears, err := dialOperator(ctx, f.at)
	if err != nil {
		return err
	}
	operator.limit(time.Time{})
	hears.limit(time.Time{})
	f.wait = map[string]chan string{}
	var listening sync.WaitGroup
	listening.Go(func() { f.listen(hears) })
	defer listening.Wait()
	defer hears.close()
	var approving sync.Mutex
	return f.each(ctx, n, func(int) error {
		request, err := f.add(ctx)
		if err != nil {
			return err
		}
		approving.Lock()
		defer approving.Unlock()
		_, err = operator.request(wire.MethodNodeApprove, map[string]string{"requestId": request})
		return err
	})
}

// reconnectAll disconnects all nodes, and connects them again when the gateway has noticed it.
func (f *simNodes) reconnectAll(ctx context.Context, others int) error {
	f.close()
	if err := f.count(ctx, others); err != nil {
		return err
	}
	err := f.each(ctx, len(f.nodes), func(i int) error {
		node, err := f.connect(ctx, f.who[i])
		if err == nil {
			f.nodes[i] = node
		}
		return err
	})
	if err != nil {
		return err
	}
	return f.count(ctx, others+len(f.nodes))
}

// count waits until the given number of nodes is connected to the gateway.
func (f *simNodes) count(ctx context.Context, want int) error {
	operator, err := dialOperator(ctx, f.at)
	if err != nil {
		return err
	}
	defer operator.close()
	for began := time.Now(); ; _ = netx.Wait(ctx, 10*time.Millisecond) {
		var status struct {
			Nodes int `json:"nodes"`
		}
		data, err := operator.request(wire.MethodStatus, struct{}{})
		if err == nil {
			err = json.Unmarshal(data, &status)
		}
		switch {
		case err != nil || status.Nodes == want:
			return err
		case time.Since(began) > patience/2:
			return fmt.Errorf("%d nodes are connected, instead of %d", status.Nodes, want)
		}
	}
}

// listen passes on pairing requests of nodes until the connection ends.
func (f *simNodes) listen(c *client) {
	for {
		data, err := c.read()
		if err != nil {
			return
		}
		frame, err := wire.Parse(data)
		if err != nil || frame.Event != wire.EventNodeRequested {
			continue
		}
		var r wire.NodeRequest
		if json.Unmarshal(frame.Payload, &r) != nil {
			continue
		}
		f.mu.Lock()
		wait := f.wait[r.NodeID]
		f.mu.Unlock()
		if wait != nil {
			wait <- r.RequestID // it has a buffer of one
		}
	}
}

// add connects one node, and returns the id of its pairing request.
func (f *simNodes) add(ctx context.Context) (request string, err error) {
	me := wire.NewIdentity()
	told := make(chan string, 1)
	f.mu.Lock()
	f.wait[me.ID()] = told
	f.mu.Unlock()
	node, err := f.connect(ctx, me)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	f.nodes, f.who = append(f.nodes, node), append(f.who, me)
	f.mu.Unlock()
	select {
	case id := <-told:
		return id, nil
	case <-time.After(patience):
		return "", errors.New("nobody was told what a node wants")
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// measureIdle prints the cost of nodes that are only connected.
func measureIdle(ctx context.Context, out io.Writer, o options) error {
	folder, err := os.MkdirTemp("", "patchbay-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	at, err := startOpen(ctx, filepath.Join(folder, "patchbay"), o.program)
	if err != nil {
		return err
	}
	defer at.stop()
	first := &simNodes{at: at}
	defer first.close()
	if err := first.connectAll(ctx, warm); err != nil {
		return err
	}
	if _, _, err := first.calls(ctx, warm*10, time.Second); err != nil {
		return err
	}
	before, err := at.memory(ctx)
	if err != nil {
		return err
	}
	rss := at.rss()
	cpu, own := at.cpu(), cpuOf(os.Getpid())
	f := &simNodes{at: at}
	if o.profile != "" {
		go at.saveProfile(ctx, "profile?seconds=10", o.profile+".connect") //nolint:errcheck // profiles are optional
	}
	defer f.close()
	if err := f.connectAll(ctx, o.idle); err != nil {
		return err
	}
	cpu, own = at.cpu()-cpu, cpuOf(os.Getpid())-own
	peak := at.rss()
	if err := f.count(ctx, warm+o.idle); err != nil {
		return err
	}
	after, err := at.memory(ctx)
	if err != nil {
		return err
	}
	n := float64(len(f.nodes))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	f.printConnects(w, "new nodes", cpu, own)
	fmt.Fprintf(w, "memory each\t%.1f KiB RSS\t%.1f KiB heap, %.1f KiB stacks, %.1f goroutines; RSS was %.0f MiB before garbage collection\n", (at.rss()-rss)*1024/n,
		(float64(after.Heap)-float64(before.Heap))/n/1024, (float64(after.Stacks)-float64(before.Stacks))/n/1024,
		float64(after.Goroutines-before.Goroutines)/n, peak)
	w.Flush() //nolint:errcheck // standard output
	if err := at.saveProfile(ctx, "heap", o.profile); err != nil {
		return err
	}
	cpu, own = at.cpu(), cpuOf(os.Getpid())
	if err := f.reconnectAll(ctx, warm); err != nil {
		return err
	}
	f.printConnects(w, "known nodes", at.cpu()-cpu, cpuOf(os.Getpid())-own)
	_ = netx.Wait(ctx, 2*time.Second) // all nodes are notified
	if o.profile != "" {
		go at.saveProfile(ctx, fmt.Sprintf("profile?seconds=%d", max(1, int(o.span.Seconds()))), o.profile+".idle") //nolint:errcheck // profiles are optional
	}
	cpu, own = at.cpu(), cpuOf(os.Getpid())
	_ = netx.Wait(ctx, o.span)
	fmt.Fprintf(w, "while idle\t%.2f %% of a core\tthe nodes %.2f %%\n", share(at.cpu()-cpu, o.span),
		share(cpuOf(os.Getpid())-own, o.span))
	w.Flush() //nolint:errcheck // standard output
	cpu, own = at.cpu(), cpuOf(os.Getpid())
	took, real, err := f.calls(ctx, 1<<30, o.span)
	if err != nil {
		return err
	}
	c := float64(len(took))
	fmt.Fprintf(w, "calls of random nodes\tp50 %v\tp99 %v, one after the other, %.0f a second; the server used %.0f µs each, the nodes %.0f µs\n", quantile(took, .5), quantile(took, .99), c/real.Seconds(),
		micros(at.cpu()-cpu)/c, micros(cpuOf(os.Getpid())-own)/c)
	return w.Flush()
}

// printConnects prints the cost of connecting.
func (f *simNodes) printConnects(w io.Writer, what string, server, own time.Duration) {
	n := float64(len(f.nodes))
	fmt.Fprintf(w, "%s\t%d in %v\t%.0f a second, %d at a time; the server used %.2f ms each, the nodes %.2f ms\n", what,
		len(f.nodes), f.took.Round(time.Millisecond), n/f.took.Seconds(), openers,
		micros(server)/1000/n, micros(own)/1000/n)
}

// calls calls a command of random nodes, one after the other.
func (f *simNodes) calls(ctx context.Context, most int, span time.Duration) (took []time.Duration, real time.Duration,
	err error) {
	operator, err := dialOperator(ctx, f.at)
	if err != nil {
		return nil, 0, err
	}
	defer operator.close()
	operator.limit(time.Now().Add(span + patience))
	start := time.Now()
	for ctx.Err() == nil && len(took) < most && time.Since(start) < span {
		c := newCalls(operator, f.who[rand.IntN(len(f.who))].ID(), acting)
		one, err := c.run(1, start)
		if err != nil {
			return nil, 0, err
		}
		took = append(took, one...)
	}
	return took, time.Since(start), ctx.Err()
}

// memory runs the server's garbage collector, and returns what is left.
func (p *process) memory(ctx context.Context) (m memory, err error) {
	text, err := p.debug(ctx, "/collect")
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// share is the percentage of one processor that was used.
func share(used, span time.Duration) float64 { return 100 * float64(used) / float64(span) }
