// Package gateway is a gateway as OpenClaw has one, so that OpenClaw's command line,
// its apps and its node hosts can use Patchbay as their control plane: operators see
// nodes and call their commands, nodes are plugged into the board as providers of
// tools, and whatever else is plugged in there appears as a node.
//
//	conn      one WebSocket: a goroutine that reads; outbox.go writes
//	handshake who is it, and what may it do (credentials.go, admission.go)
//	methods   what operators call; nodes' calls are in nodecalls.go
//	node      a connected node
//	slots     where nodes are plugged into the board, connected or not
//	invoke    a call of a node's command, from an operator to the node and back
//	virtual   the other outlets of the board, as nodes
//	chat      conversations with the bots
//	events    who hears what, here and on other instances
//
// A call's way: node.invoke finds the outlet of the node and calls the board like
// every other caller, so that rules, rates and the audit trail are the same for all.
// The board calls the node's provider, on this instance or another one, which sends
// node.invoke.request and waits for the result.
//
// What a person has paired belongs to that person: others neither see nor reach it.
// Operators with the scope operator.admin, which only administrators get, reach
// everything.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

const (
	// maxHalfOpen bounds connections that have not said who they are, which strangers
	// can make, each of which may hold wire.MaxHandshake bytes; maxHalfOpenOf is the
	// same for one address.
	maxHalfOpen   = 1000
	maxHalfOpenOf = 200
	// DefaultConns bounds connections at a time, each of which costs some 20 KB.
	DefaultConns = 10_000
	// maxBufferedAll bounds what waits to be sent to all clients together, in bytes.
	maxBufferedAll = 512 << 20
	// databaseLimit bounds what is read and written for one request.
	databaseLimit = 10 * time.Second
	// farewell is how long a client may take to answer a Close frame.
	farewell = time.Second
)

// Options make a [Gateway]. Accounts, Store and Hub are required.
type Options struct {
	Accounts   *account.Service
	Store      *store.DB
	Hub        *board.Board
	Guard      *account.Guard // counts refused tokens by address; nil: nobody does
	Logger     *slog.Logger   // nil discards
	Registerer prometheus.Registerer
	Address    func(*http.Request) netip.Addr // who is at the other end; nil: the socket says
	Version    string                         // of the program

	// Allow and Deny are commands of nodes that the installation's owner allows beyond
	// what platforms may do anyway, and forbids.
	Allow, Deny []string
	// AutoApproveLocal lets programs on this machine that show a key become paired
	// without anybody being asked. What a node can do has to be approved nevertheless.
	AutoApproveLocal bool

	// Tell tells all other instances something, and Hear hands on what they tell; nil
	// if there are none.
	Tell func([]byte) error
	Hear func(func([]byte)) error

	Conns   int // at a time; 0: [DefaultConns]
	Timings Timings
}

// Timings are the waits of a gateway. A zero field means the protocol's.
type Timings struct {
	Handshake time.Duration // for a client to say who it is
	Tick      time.Duration // between ticks
	Ping      time.Duration // between WebSocket pings, and until an unanswered one ends the connection
	Health    time.Duration // between health events
	Fresh     time.Duration // between looks whether peers were changed by somebody else
	Delta     time.Duration // for which pieces of an answer are collected
	Delay     time.Duration // before the first wrong token is answered; doubled for each
	Write     time.Duration // for a client to take what is written at once
	Slow      time.Duration // for a client that has too much waiting to take it, before it is cut off
	Lately    time.Duration // for which a node's published tools stay listed that publishes none; by itself [board.AbsentFor]
}

func (t Timings) filled() Timings {
	or := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	or(&t.Handshake, wire.HandshakeTimeout)
	or(&t.Tick, wire.TickInterval)
	or(&t.Ping, wire.PingInterval)
	or(&t.Health, time.Minute)
	or(&t.Fresh, time.Second)
	or(&t.Delta, 75*time.Millisecond)
	or(&t.Slow, 5*farewell)
	or(&t.Lately, board.AbsentFor)
	or(&t.Delay, 250*time.Millisecond)
	or(&t.Write, 30*time.Second)
	return t
}

// Gateway serves operators and nodes. It is safe for concurrent use.
type Gateway struct {
	Options
	policy  wire.Policy
	metrics *metrics
	keys    *account.Recent
	// keysChanged wakes beat: some keys may not hold any more.
	keysChanged chan struct{}
	methods     map[string]method
	slow        slowdown
	repeats     repeats
	runs        runs
	lists       toolLists
	slots       slots
	outlets     outletIDs
	boot        string
	began       time.Time
	buffered    atomic.Int64

	ctx    context.Context // ends with Shutdown
	cancel context.CancelCauseFunc
	work   sync.WaitGroup
	jobs   chan func() // for goroutines that wait for something to do
	idle   atomic.Int32

	mu       sync.Mutex
	closing  bool
	conns    map[*conn]struct{}
	nodes    map[string]*node // by device id, those that count
	halfOpen int
	halfOf   map[netip.Addr]int
	// presence counts those who came and went; told is what was told of it.
	presence, told int64
}

// New makes a gateway. [Gateway.Shutdown] ends it.
func New(o Options) (*Gateway, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Address == nil {
		o.Address = socketAddress
	}
	if o.Conns <= 0 {
		o.Conns = DefaultConns
	}
	o.Timings = o.Timings.filled()
	g := &Gateway{
		Options: o, policy: wire.Policy{Allow: o.Allow, Deny: o.Deny}, keys: account.NewRecent(o.Accounts), keysChanged: make(chan struct{}, 1), boot: uuid.NewString(), began: time.Now(),
		conns: map[*conn]struct{}{}, nodes: map[string]*node{}, halfOf: map[netip.Addr]int{}, jobs: make(chan func()),
	}
	g.slots = slots{hub: o.Hub, lately: o.Timings.Lately, of: map[string]*slot{}}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	g.metrics = newMetrics(o.Registerer, g)
	g.methods = g.table()
	g.runs.init()
	g.repeats.init()
	g.slow.init(o.Timings.Delay)
	if o.Hear != nil {
		if err := o.Hear(g.heard); err != nil {
			g.cancel(err)
			return nil, err
		}
	}
	g.work.Go(g.beat)
	g.work.Go(g.keepFresh)
	return g, nil
}

// spawn runs f in a goroutine that Shutdown waits for. It reports false, and runs
// nothing, once Shutdown has begun.
func (g *Gateway) spawn(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return false
	}
	g.start(f)
	return true
}

// start is spawn for who knows that Shutdown waits for somebody else yet.
func (g *Gateway) start(f func()) {
	select {
	case g.jobs <- f:
	default:
		g.work.Go(func() { g.labour(f) })
	}
}

// maxIdle bounds the goroutines that wait for something to do, of which each keeps a
// stack of some 16 KB.
const maxIdle = 64

// labour runs f, and then whatever else comes: a call needs a large stack, and a
// goroutine that has one already need not make it.
func (g *Gateway) labour(f func()) {
	for {
		f()
		f = nil // what it holds is not kept
		if g.idle.Add(1) > maxIdle {
			g.idle.Add(-1)
			return
		}
		select {
		case f = <-g.jobs:
			g.idle.Add(-1)
		case <-g.ctx.Done():
			return
		}
	}
}

// Shutdown tells every client that the gateway stops, and waits until all of them
// and everything that was done for them are gone. When ctx ends first, what is left
// is cut off, and its error is returned. Calling again does nothing.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	again := g.closing
	g.closing = true
	g.mu.Unlock()
	if again {
		return nil
	}
	g.cancel(errShutdown)
	for _, c := range g.everybody() {
		c.event(wire.EventShutdown, []byte(`{"reason":"gateway stopping"}`), true)
		c.bye(wire.Restarting)
	}
	done := make(chan struct{})
	go func() {
		g.work.Wait()
		close(done)
	}()
	defer g.slots.close()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range g.everybody() {
		c.drop()
	}
	<-done
	return ctx.Err()
}

// Departures has a function for each node that is connected, which tells it to connect
// again, to whichever instance it finds then. While it carries something out it is left
// alone, unless at once is true; the function is false then.
func (g *Gateway) Departures() []func(atOnce bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []func(bool) bool
	for _, n := range g.nodes {
		out = append(out, func(atOnce bool) bool {
			if !atOnce && n.calls.any() {
				return false
			}
			n.c.event(wire.EventShutdown, []byte(`{"reason":"gateway restarting"}`), true)
			n.c.bye(wire.Restarting)
			return true
		})
	}
	return out
}

// everybody lists the connections of the moment.
func (g *Gateway) everybody() []*conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]*conn, 0, len(g.conns))
	for c := range g.conns {
		list = append(list, c)
	}
	return list
}

// operators lists the operators that may see what belongs to a person; an empty
// owner is everybody's.
func (g *Gateway) operators(owner string) []*conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []*conn
	for c := range g.conns {
		if c.role == wire.RoleOperator && (owner == "" || c.sees(owner)) {
			list = append(list, c)
		}
	}
	return list
}

// node finds the connection of a node here; nil if there is none.
func (g *Gateway) node(id string) *node {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes[id]
}

// Status is how a gateway is.
type Status struct {
	Operators int   `json:"operators"` // connected here
	Nodes     int   `json:"nodes"`     // connected here
	HalfOpen  int   `json:"half_open"` // have not said who they are
	Buffered  int64 `json:"buffered"`  // bytes that wait to be sent
}

// Status tells how the gateway is, on this instance.
func (g *Gateway) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := Status{HalfOpen: g.halfOpen, Buffered: g.buffered.Load()}
	for c := range g.conns {
		switch c.role {
		case wire.RoleOperator:
			s.Operators++
		case wire.RoleNode:
			s.Nodes++
		}
	}
	return s
}

// Connected says whether a peer is connected to this instance, in any role.
func (g *Gateway) Connected(peer string) bool {
	return slices.ContainsFunc(g.everybody(), func(c *conn) bool { return c.device == peer })
}

var errShutdown = errors.New("the gateway is stopping")
