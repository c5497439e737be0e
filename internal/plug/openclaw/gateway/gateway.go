// Package gateway implements an OpenClaw gateway, so that OpenClaw's command line, apps and node
// hosts can use Patchbay as their control plane: operators list nodes and call their commands,
// nodes are registered with the hub as tool providers, and every other provider of the hub appears
// as a virtual node.
//
//	conn      one WebSocket: a goroutine that reads; outbox.go writes
//	handshake authentication and admission (credentials.go, admission.go)
//	methods   methods of operators; those of nodes are in nodecalls.go
//	node      a connected node
//	slots     the hub registrations of nodes, connected or not
//	invoke    a call of a node's command, from an operator to the node and back
//	virtual   the other providers of the hub, as nodes
//	chat      conversations with the bots
//	events    delivery of events, here and on other instances
//
// A call takes this path: node.invoke finds the node's provider and calls the hub like every other
// caller, so that rules, rates and the audit trail are the same for all. The hub calls the node's
// provider, on this instance or another one, which sends node.invoke.request and waits for the
// result.
//
// A paired device belongs to the person who paired it; others neither see nor reach it. Operators
// with the scope operator.admin, which only administrators get, reach everything.
//
// Package wire names the version of OpenClaw that comments cite.
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
	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/tracing"
)

const (
	// maxHalfOpen limits unauthenticated connections, each of which may hold wire.MaxHandshake
	// bytes; maxHalfOpenPerAddr is the limit per address.
	maxHalfOpen        = 1000
	maxHalfOpenPerAddr = 200
	// DefaultMaxConns limits concurrent connections, each of which costs some 20 KB.
	DefaultMaxConns = 10_000
	// maxBufferedAll limits the data queued for all clients together, in bytes.
	maxBufferedAll = 512 << 20
	// databaseTimeout limits the database work of one request.
	databaseTimeout = 10 * time.Second
	// closeTimeout is how long a client may take to answer a Close frame.
	closeTimeout = time.Second
)

// Options make a [Gateway]. Accounts, Store and Hub are required.
type Options struct {
	Accounts   *account.Service
	Store      *store.DB
	Hub        *hub.Hub
	Guard      *account.Guard // counts refused tokens by address; nil: no limit
	Logger     *slog.Logger   // nil discards
	Registerer prometheus.Registerer
	Tracer     *tracing.Tracer                // continues the traces of operators; nil: nothing is traced
	Address    func(*http.Request) netip.Addr // the client's address; nil: the socket's
	Origin     func(*http.Request) string     // this gateway's address as the client knows it; nil: unknown
	Version    string                         // of the program
	// Fingerprint is that of the server's own certificate if clients trust it by its fingerprint
	// only; empty: by its issuer, or there is none.
	Fingerprint string

	// Allow and Deny are node commands that the owner of the installation allows beyond the
	// platform defaults, and forbids.
	Allow, Deny []string
	// AutoApproveLocal pairs programs on this machine that show a key without asking anybody.
	// The commands of a node need approval nevertheless.
	AutoApproveLocal bool

	// OnChange is called after an operator has changed something about devices over its connection,
	// before the response; nil: nobody is told.
	OnChange func(context.Context, Change)

	// Decide decides about a call that waits, for [Decision.Person]; nil: not possible here.
	Decide func(context.Context, Decision) error

	// Broadcast sends data to all other instances, and Hear passes on their broadcasts; nil with
	// a single instance.
	Broadcast func([]byte) error
	Subscribe func(func([]byte)) error

	MaxConns int // concurrent; 0: [DefaultMaxConns]
	Timings  Timings
}

// Timings are the timeouts and intervals of a gateway. A zero field means the protocol's
// default.
type Timings struct {
	Handshake   time.Duration // for a client to authenticate
	Tick        time.Duration // between ticks
	Ping        time.Duration // between WebSocket pings, and until an unanswered one ends the connection
	Health      time.Duration // between health events
	PeerRefresh time.Duration // between polls for changed peers
	// DeltaInterval is for which pieces of an answer are coalesced (src/gateway/server-chat.ts,
	// LIVE_TEXT_PACING_MS).
	DeltaInterval   time.Duration
	RefusalDelay    time.Duration // before the first wrong token is answered; doubled for each
	Write           time.Duration // for one write to a client
	SlowClientGrace time.Duration // for a client over its queue limit to catch up before it is disconnected
	// for which published tools of an absent node stay listed; default [hub.AbsentRetention]
	PublishedToolsTTL time.Duration
}

func (t Timings) withDefaults() Timings {
	or := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	or(&t.Handshake, wire.HandshakeTimeout)
	or(&t.Tick, wire.TickInterval)
	or(&t.Ping, wire.PingInterval)
	or(&t.Health, time.Minute)
	or(&t.PeerRefresh, time.Second)
	or(&t.DeltaInterval, 75*time.Millisecond)
	or(&t.SlowClientGrace, 5*closeTimeout)
	or(&t.PublishedToolsTTL, hub.AbsentRetention)
	or(&t.RefusalDelay, 250*time.Millisecond)
	or(&t.Write, 30*time.Second)
	return t
}

// Gateway serves operators and nodes. It is safe for concurrent use.
type Gateway struct {
	Options
	policy  wire.Policy
	metrics *metrics
	keys    *account.Recent
	// keysChanged wakes heartbeat: some keys may have been revoked.
	keysChanged   chan struct{}
	methods       map[string]method
	refusalDelays refusalDelays
	invokeCache   invokeCache
	runs          runs
	toolLists     toolLists
	slots         slots
	virtualIDs    virtualIDs
	bootID        string
	startedAt     time.Time
	buffered      atomic.Int64

	ctx    context.Context // ends with Shutdown
	cancel context.CancelCauseFunc
	work   sync.WaitGroup
	jobs   chan func() // for idle worker goroutines
	idle   atomic.Int32

	mu             sync.Mutex
	closing        bool
	conns          map[*conn]struct{}
	nodes          map[string]*node // current connections, by device id
	halfOpen       int
	halfOpenByAddr map[netip.Addr]int
	// presence counts connects and disconnects; announcedPresence is its value at the last
	// announcement.
	presence, announcedPresence int64
}

// New returns a gateway. [Gateway.Shutdown] stops it.
func New(o Options) (*Gateway, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Address == nil {
		o.Address = socketAddress
	}
	if o.MaxConns <= 0 {
		o.MaxConns = DefaultMaxConns
	}
	o.Timings = o.Timings.withDefaults()
	g := &Gateway{
		Options: o, policy: wire.Policy{Allow: o.Allow, Deny: o.Deny}, keys: account.NewRecent(o.Accounts),
		keysChanged: make(chan struct{}, 1), bootID: uuid.NewString(), startedAt: time.Now(),
		conns: map[*conn]struct{}{}, nodes: map[string]*node{}, halfOpenByAddr: map[netip.Addr]int{},
		jobs: make(chan func()),
	}
	g.slots = slots{hub: o.Hub, recentTTL: o.Timings.PublishedToolsTTL, byProvider: map[string]*slot{}}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	g.metrics = newMetrics(o.Registerer, g)
	g.methods = g.methodTable()
	g.runs.init()
	g.invokeCache.init()
	g.refusalDelays.init(o.Timings.RefusalDelay)
	if o.Subscribe != nil {
		if err := o.Subscribe(g.onBroadcast); err != nil {
			g.cancel(err)
			return nil, err
		}
	}
	g.work.Go(g.heartbeat)
	g.work.Go(g.watchPeers)
	return g, nil
}

// spawn runs f in a goroutine that Shutdown waits for. It returns false, and runs nothing, after
// Shutdown was called.
func (g *Gateway) spawn(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return false
	}
	g.start(f)
	return true
}

// start is spawn for callers that run in a goroutine Shutdown still waits for.
func (g *Gateway) start(f func()) {
	select {
	case g.jobs <- f:
	default:
		g.work.Go(func() { g.worker(f) })
	}
}

// maxIdle limits idle worker goroutines, each of which keeps a stack of some 16 KB.
const maxIdle = 64

// worker runs f and then further jobs: a call needs a large stack, and an idle worker already
// has one.
func (g *Gateway) worker(f func()) {
	for {
		f()
		f = nil // release what f holds
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

// Shutdown notifies every client that the gateway stops, and waits until all connections and
// their work have ended. When ctx ends first, it closes the rest and returns ctx's error.
// Further calls do nothing.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	again := g.closing
	g.closing = true
	g.mu.Unlock()
	if again {
		return nil
	}
	g.cancel(errShutdown)
	for _, c := range g.connections() {
		c.event(wire.EventShutdown, []byte(`{"reason":"gateway stopping"}`), true)
		c.closeWith(wire.Restarting)
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
	for _, c := range g.connections() {
		c.closeNow()
	}
	<-done
	return ctx.Err()
}

// DrainFuncs returns a function for each connected node that asks it to reconnect, to whichever
// instance accepts it. The function returns false and does nothing while the node executes a
// command, unless atOnce is true.
func (g *Gateway) DrainFuncs() []func(atOnce bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []func(bool) bool
	for _, n := range g.nodes {
		out = append(out, func(atOnce bool) bool {
			if !atOnce && n.calls.any() {
				return false
			}
			n.c.event(wire.EventShutdown, []byte(`{"reason":"gateway restarting"}`), true)
			n.c.closeWith(wire.Restarting)
			return true
		})
	}
	return out
}

// connections returns the current connections.
func (g *Gateway) connections() []*conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]*conn, 0, len(g.conns))
	for c := range g.conns {
		list = append(list, c)
	}
	return list
}

// operators returns the operators that may see what belongs to owner; an empty owner means all
// operators.
func (g *Gateway) operators(owner string) []*conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []*conn
	for c := range g.conns {
		if c.role == wire.RoleOperator && (owner == "" || c.canSee(owner)) {
			list = append(list, c)
		}
	}
	return list
}

// node returns the connection of a node on this instance, or nil.
func (g *Gateway) node(id string) *node {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes[id]
}

// Status is the state of a gateway.
type Status struct {
	Operators int   `json:"operators"` // connected here
	Nodes     int   `json:"nodes"`     // connected here
	HalfOpen  int   `json:"half_open"` // not authenticated yet
	Buffered  int64 `json:"buffered"`  // bytes queued for sending
}

// Status returns the state of the gateway on this instance.
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

// IsConnected reports whether a peer is connected to this instance, in any role.
func (g *Gateway) IsConnected(peer string) bool {
	return slices.ContainsFunc(g.connections(), func(c *conn) bool { return c.device == peer })
}

var errShutdown = errors.New("the gateway is stopping")
