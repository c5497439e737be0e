package gateway_test

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// Clients with many invented devices fill no more than the list of requests.
func TestInventedDevices(t *testing.T) {
	if testing.Short() {
		t.Skip("connects a thousand times")
	}
	r := newRig(t, func(o *gateway.Options) { o.AutoApproveLocal = false })
	_, key := r.person("bob", account.ScopeNode)
	const devices = 1000
	var work sync.WaitGroup
	next := make(chan int)
	for range 8 {
		work.Go(func() {
			for range next {
				me := wire.NewIdentity()
				hello := sim.Operator(key)
				hello.Role, hello.Client = wire.RoleNode, wire.Client{ID: wire.ClientNode, Mode: wire.ModeNode,
					Version: "1", Platform: "linux", DeviceFamily: "Linux"}
				_, err := r.dial(hello, &me)
				var e *wire.Error
				if !errors.As(err, &e) || e.Detail() != wire.DetailPairing {
					t.Error(err)
				}
			}
		})
	}
	for i := range devices {
		next <- i
	}
	close(next)
	work.Wait()
	list, err := r.Store.Peers.Requests(t.Context(), store.RequestDevice, "", time.Now())
	must(t, err)
	if len(list) != store.MaxPeerRequests {
		t.Errorf("%d requests are kept", len(list))
	}
	must(t, eventually(t, func() bool { return r.g.Status() == gateway.Status{} }))
}

// Each of many concurrent calls gets its own result, and events stay in order. When the gateway
// stops meanwhile, no caller waits forever.
func TestConcurrentCalls(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) { o.Timings.Tick = 5 * time.Millisecond })
	n := r.node(sim.Options{}, true)
	op := r.operator(r.token)
	const callers, calls = 48, 20
	load := func(calls int) (failed int64) {
		var failures atomic.Int64
		var work sync.WaitGroup
		for i := range callers {
			work.Go(func() {
				for j := range calls {
					var got invoked
					want := strconv.Itoa(i) + "-" + strconv.Itoa(j)
					if err := op.Call(op.ctx, wire.MethodNodeInvoke, invokeParams(n.ID(), "kitchen.echo", want),
						&got); err != nil {
						failures.Add(1)
						return
					}
					if string(got.Payload) != `"`+want+`"` {
						t.Errorf("%s was answered with %s", want, got.Payload)
					}
				}
			})
		}
		work.Wait()
		return failures.Load()
	}
	if failed := load(calls); failed > 0 {
		t.Errorf("%d callers failed", failed)
	}
	op.await(wire.EventTick, nil)
	op.mu.Lock()
	seq := int64(0)
	for _, f := range op.events {
		if f.Seq > 0 && f.Seq <= seq {
			t.Errorf("event %d came after %d", f.Seq, seq)
		}
		seq = max(seq, f.Seq)
	}
	op.mu.Unlock()
	began := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		close(began)
		load(1 << 20)
	})
	<-began
	op.await(wire.EventTick, nil)
	must(t, r.g.Shutdown(limited(t)))
	work.Wait()
}

// The memory of an idle node. PATCHBAY_NODES=5000 measures with that many.
func TestIdleNodes(t *testing.T) {
	count := 300
	if s := os.Getenv("PATCHBAY_NODES"); s != "" {
		var err error
		count, err = strconv.Atoi(s)
		must(t, err)
	}
	if testing.Short() || raceDetector {
		t.Skip("measures memory")
	}
	r := newRig(t, func(o *gateway.Options) { o.Logger = nil })
	commands := strings.Fields("desktop.stream dir.fetch dir.list file.fetch fs.listDir mcp.tools.call.v1 ollama.chat ollama.models system.execApprovals.get system.execApprovals.set " +
		"system.run system.run.prepare system.which terminal.upload workspace.memory workspace.skills")
	far := newFarNodes(t, r, commands)
	connect := func(n int) {
		for range n {
			far.connect()
		}
		all := len(far.open)
		must(t, eventuallyIn(t, time.Minute+time.Duration(all)*20*time.Millisecond,
			func() bool { return r.g.Status().Nodes == all }))
	}
	connect(100) // the cost of the first ones is shared by all: pools, prepared statements, the page cache
	before := memory()
	began := time.Now()
	connect(count)
	t.Logf("%d nodes connected in %v", count, time.Since(began).Round(time.Millisecond))
	each := (memory() - before) / int64(count)
	t.Logf("each costs %d bytes, its own end included", each)
	const most, end = 20 << 10, 3 << 10 // end: the memory of the client's side, see farNodes
	if each > most+end {
		t.Errorf("an idle node costs %d bytes", each)
	}
}

// memory returns the memory in use, of heap and stacks, in bytes.
func memory() int64 {
	for range 4 { // stacks shrink by half each time
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
