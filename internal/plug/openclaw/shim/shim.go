// Package shim lets the devices of an owner join somebody's OpenClaw gateway as
// nodes, so that the agents there use their tools.
//
//	shim      the gateways that owners have added
//	gateway   one of them, with the nodes there
//	node      a node of such a gateway: its key, and the connection to come back to
//	session   one connection: is it approved, which tools are published
//	offer     what a node can do, made out of the devices behind it
//	invoke    a call of a node's command; commands.go carries it out
//	notice    what devices tell by themselves
//
// A gateway has to let a node in twice: first the device, then what it can do. Both
// wait for the gateway's owner, and [Status] says with which command that is done.
//
// The tools are published as those of MCP servers behind the node, one server for
// each device, because a gateway's agents get such tools without any settings. The
// commands mcp.tools.list, mcp.tools.call and so on are there besides, for programs
// that call nodes themselves; the gateway's owner has to allow them by name.
package shim

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// Mode says how devices join a gateway.
type Mode string

// The modes.
const (
	Each Mode = "each" // every device is a node
	One  Mode = "one"  // all of them are one node
)

const (
	// maxNodes bounds the nodes of one gateway: each is a connection here and there.
	maxNodes = 64
	// maxCalls bounds the calls that a gateway has carried out at a time, by all its
	// nodes. One more is told to come back, which gateways do four times.
	maxCalls = 64
)

// Spec is a gateway that an owner has added.
type Spec struct {
	// ID is unique for ever.
	ID string
	// URL is that of the gateway, as [client.ParseURL] returns it.
	URL string
	// Token is the gateway's shared secret; empty: there are only those that it gives
	// to nodes.
	Token string
	// Mode is how the devices join; empty: Each.
	Mode Mode
	// Title is how the node of mode One is called; empty: Patchbay.
	Title string
	// Devices are slugs of devices, and patterns with *; empty: all.
	Devices []string
	// Owner is the id of an account.
	Owner string
	// Notices says that what devices tell by themselves is passed on. It wakes the
	// gateway's agent, which costs.
	Notices bool
	// Guarded gateways belong to somebody who is not to reach what we can reach: they
	// are dialled by Options.Dial.
	Guarded bool
	// Version changes whenever anything of it does.
	Version int64
}

// Device is a device as a gateway may use it.
type Device struct {
	// ID is stable and unique: "board:3".
	ID string
	// Slug names it as a server of tools; it is unique among those of an owner.
	Slug string
	// Title is for people; empty: the slug.
	Title string
	// Tools are those that the owner's rules allow. Nobody may change the slice any
	// more. Dangerous ones and those for people are left out here in any case.
	Tools []tool.Tool
	// Audio says that the owner's rules let programs hear what the device hears, and
	// change how it sounds, by its tool audio.
	Audio bool
}

// Call is one call of a tool.
type Call struct {
	Device string // id
	Tool   string // by its name at the device
	Args   []byte // a JSON object
	// Program says who calls, for the audit trail.
	Program string
}

// Source is where the devices are: the board, for the owners of gateways. It is used
// by many goroutines at once.
type Source interface {
	// Devices lists what a gateway may use.
	Devices(Spec) ([]Device, error)
	// Watch tells when Devices may say something else, until forget is called.
	Watch() (changes <-chan struct{}, forget func())
	// Notices tells what the devices of an owner tell by themselves, until forget is
	// called.
	Notices(owner string) (told <-chan board.Notice, forget func())
	// Call carries out a call, as [tool.Provider] does.
	Call(context.Context, Spec, Call) (*tool.Result, error)
}

// Kept is what a node must not lose, and a secret.
type Kept struct {
	// Identity is the key by which the gateway knows the node; nil: none was made.
	Identity *wire.Identity `json:"identity,omitempty"`
	// Token is what the gateway gave the node instead of its own, and Gateway the URL
	// of that gateway.
	Token   string `json:"token,omitempty"`
	Gateway string `json:"gateway,omitempty"`
}

// Options are what a [Manager] works with. Source, Load and Save are required.
type Options struct {
	Source Source
	// Load returns what was kept for a device at a gateway, the zero Kept if there is
	// nothing; for an empty device it is that of the node of mode One. Save keeps it.
	Load func(ctx context.Context, spec, device string) (Kept, error)
	Save func(ctx context.Context, spec, device string, k Kept) error
	// Dial connects to guarded gateways. Nil: to any address.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Stats tells how the machine is, such as [MachineStats]. Nil: gateways are not
	// told.
	Stats func() (Stats, bool)
	// Version is ours, for the gateway's list of nodes.
	Version    string
	Logger     *slog.Logger          // nil: nobody wants to know
	Registerer prometheus.Registerer // nil keeps the metrics private

	times timings // zero: the usual ones
}

// timings are the times that tests shorten.
type timings struct {
	// coalesce is how long after word of a change it is looked what has changed:
	// several words of the same change come together.
	coalesce time.Duration
	// again is how long after a failure something is tried again that nobody has to
	// do anything for.
	again time.Duration
	// ask is how often a gateway is asked whether its owner has approved a node. It
	// tells by itself, but perhaps not at the very moment of a new connection.
	ask time.Duration
	// stats is how often a gateway is told how the machine is.
	stats time.Duration
	// notice is how often a node may tell a notice, after the first few.
	notice time.Duration
}

var usual = timings{
	coalesce: 250 * time.Millisecond, again: 10 * time.Second, ask: 30 * time.Second, stats: time.Minute, notice: 10 * time.Second,
}

// State is how a node is.
type State string

// The states of a node.
const (
	Connecting State = "connecting"
	Pairing    State = "pairing"  // the gateway's owner has to let the device in
	Approval   State = "approval" // … and to approve what it can do
	Ready      State = "ready"
	Waiting    State = "waiting" // the next try may well succeed
	Failed     State = "failed"  // somebody has to do something; it is tried again nevertheless
)

// Status tells how a node is.
type Status struct {
	// Device is the id of the device; empty in mode One. Name is how the gateway
	// shows the node.
	Device, Name string
	// Node is the node's id at the gateway; empty as long as it has none.
	Node  string
	State State
	Since time.Time
	// Told says what is wrong and what to do, and Command what the gateway's owner
	// has to run on its machine for that. Both may be empty.
	Told    talk.Say
	Command string
	// Tools counts the tools that are published, Taken those of them that the gateway
	// has taken, and Cut those that are too many for it.
	Tools, Taken, Cut int
	// Gateway is the version of OpenClaw there, if it was ever connected to.
	Gateway string
	// NextTry is when it is connected to again; zero unless that is waited for.
	NextTry time.Time
}

// Manager keeps the nodes at all gateways. It is safe for concurrent use.
//
// A gateway must be joined by one instance of an installation at a time: a node that
// connects twice is only reached by its newest connection.
type Manager struct {
	opt     Options
	metrics *metrics

	mu     sync.Mutex
	work   sync.WaitGroup
	closed bool
	shims  map[string]*shim
	// leaving are the ends of shims that were replaced or removed and are not through
	// yet, by id: a successor waits for them.
	leaving map[string]<-chan struct{}
}

// New makes a Manager without gateways.
func New(o Options) *Manager {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.times == (timings{}) {
		o.times = usual
	}
	return &Manager{opt: o, metrics: newMetrics(o.Registerer), shims: map[string]*shim{}, leaving: map[string]<-chan struct{}{}}
}

// Set makes the given gateways those that are joined: new ones are begun, missing
// ones ended, and those with another version begun anew. It does not wait for any of
// that.
func (m *Manager) Set(specs []Spec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	wanted := make(map[string]bool, len(specs))
	for _, spec := range specs {
		wanted[spec.ID] = true
		if s := m.shims[spec.ID]; s == nil || s.spec.Version != spec.Version {
			m.end(spec.ID)
			m.begin(spec)
		}
	}
	for id := range m.shims {
		if !wanted[id] {
			m.end(id)
		}
	}
}

// begin starts a shim. With mu held.
func (m *Manager) begin(spec Spec) {
	s := newShim(m, spec)
	before := m.leaving[spec.ID]
	m.shims[spec.ID] = s
	m.work.Go(func() {
		if before != nil {
			<-before
		}
		s.run()
	})
}

// end stops a shim, if there is one. With mu held.
func (m *Manager) end(id string) {
	s := m.shims[id]
	if s == nil {
		return
	}
	delete(m.shims, id)
	m.leaving[id] = s.done
	s.cancel()
	m.work.Go(func() {
		<-s.done
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.leaving[id] == s.done {
			delete(m.leaving, id)
		}
	})
}

// Status tells how the nodes at a gateway are, in a stable order, and false if there
// is no such gateway.
func (m *Manager) Status(id string) ([]Status, bool) {
	m.mu.Lock()
	s := m.shims[id]
	m.mu.Unlock()
	if s == nil {
		return nil, false
	}
	return s.status(), true
}

// Close ends all nodes and waits until that is done. Nothing is ended after that, nor
// begun.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	for id := range m.shims {
		m.end(id)
	}
	m.mu.Unlock()
	m.work.Wait()
}
