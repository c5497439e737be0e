// Package shim lets an owner's devices join an OpenClaw gateway as nodes, so that the agents there
// use their tools.
//
//	joined    a gateway with its nodes
//	node      a node: its key, and the link that reconnects
//	session   one connection: approval and published tools
//	surface   what a node offers, built from the devices behind it
//	invoke    calls of node commands; commands.go executes them
//	notice    notifications of devices
//
// A gateway's owner has to approve a node twice: first the device, then its surface. [Status] holds
// the command for that.
//
// The tools are published as those of MCP servers behind the node, one server per device, because a
// gateway's agents get such tools without any configuration. The commands mcp.tools.list,
// mcp.tools.call and so on serve programs that call nodes themselves; the gateway's owner has to
// allow them by name.
//
// Package wire names the version of OpenClaw that comments cite.
package shim

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// Mode is how devices join a gateway.
type Mode string

// The modes.
const (
	EachDevice Mode = "each" // every device is a node
	OneNode    Mode = "one"  // all of them are one node
)

const (
	// maxNodes limits the nodes of one gateway: each is a connection on both sides.
	maxNodes = 64
	// maxCalls limits the concurrent calls of a gateway over all its nodes. Further ones are
	// refused as retryable, and gateways retry four times.
	maxCalls = 64
)

// Spec describes a gateway that an owner has added.
type Spec struct {
	// ID is never reused.
	ID string
	// URL is the gateway's address, as returned by [client.ParseURL].
	URL string
	// Pin is as in [client.Options].
	Pin string
	// Token is the gateway's shared secret; empty: only the tokens issued to nodes are used.
	Token string
	// Mode is how the devices join; empty: EachDevice.
	Mode Mode
	// Title is the name of the node of mode OneNode; empty: Patchbay.
	Title string
	// Devices are slugs of devices, and patterns with *; empty: all.
	Devices []string
	// Owner is the id of an account.
	Owner string
	// Notices means that notifications of devices are forwarded. They wake the gateway's agent,
	// which costs.
	Notices bool
	// Untrusted means that the owner may not reach internal addresses: Options.Dial connects.
	Untrusted bool
	// Version changes with every change of the spec.
	Version int64
}

// Device is a device as seen by a gateway.
type Device struct {
	// ID is stable and unique: "board:3".
	ID string
	// Slug is its MCP server name; unique among an owner's devices.
	Slug string
	// Title is for people; empty: the slug.
	Title string
	// Tools are those that the owner's rules allow. The slice must not be modified. Dangerous
	// tools and those for people are always left out here.
	Tools []tool.Tool
	// Media are the device's tools for sound and pictures, see [mcpnode.MediaTools], which the
	// owner's rules let programs use.
	Media []string
	// Session means that the device takes part in mcp.initialize and mcp.notify.
	Session bool
}

// Call is one call of a tool.
type Call struct {
	Device string // device id
	Tool   string // the device's own name for it
	Args   []byte // a JSON object
	// Program is the caller's name for the audit trail.
	Program string
}

// Source provides the devices, through the hub, for the owners of gateways. It is safe for
// concurrent use.
type Source interface {
	// Devices returns the devices that a gateway may use.
	Devices(Spec) ([]Device, error)
	// Watch signals that the result of Devices may have changed, until forget is called.
	Watch() (changes <-chan struct{}, forget func())
	// Notices sends the notifications of an owner's devices until forget is called.
	Notices(owner string) (told <-chan hub.Notice, forget func())
	// Call executes a call, as [tool.Provider] does.
	Call(context.Context, Spec, Call) (*tool.Result, error)
	// Message sends a message to a device, as [hub.Hub.SendMessage] does. Call.Tool is the message.
	Message(context.Context, Spec, Call) (*tool.Result, error)
}

// NodeSecret is the stored state of a node, which is secret.
type NodeSecret struct {
	// Identity is the key by which the gateway recognizes the node; nil: none was created.
	Identity *wire.Identity `json:"identity,omitempty"`
	// Token is the token issued to the node, and Gateway the URL of the gateway that issued it.
	Token   string `json:"token,omitempty"`
	Gateway string `json:"gateway,omitempty"`
}

// Options configure a [Manager]. Source, Load and Save are required.
type Options struct {
	Source Source
	// Load returns the stored state of a device at a gateway, or the zero NodeSecret; an empty
	// device means the node of mode OneNode. Save stores it.
	Load func(ctx context.Context, spec, device string) (NodeSecret, error)
	Save func(ctx context.Context, spec, device string, k NodeSecret) error
	// Dial connects to untrusted gateways. nil: to any address.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Stats returns the machine's load, such as [MachineStats]. nil: not reported.
	Stats func() (Stats, bool)
	// Version is Patchbay's version, for the gateway's node list.
	Version    string
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil keeps the metrics private

	times timings // zero: the defaults
}

// timings are the durations that tests shorten.
type timings struct {
	// refreshDelay is the delay between a change signal and reading the devices, so that several
	// signals of one change cause one read.
	refreshDelay time.Duration
	// retryDelay is the delay before a failed step is retried that needs no person.
	retryDelay time.Duration
	// approvalInterval is how often a node checks whether it was approved. The gateway announces
	// approvals, but one may be missed during a reconnect.
	approvalInterval time.Duration
	// statsInterval is how often the machine's load is reported.
	statsInterval time.Duration
	// noticeInterval is the minimum interval of a node's notifications, after an initial burst.
	noticeInterval time.Duration
}

var defaultTimings = timings{
	refreshDelay: 250 * time.Millisecond, retryDelay: 10 * time.Second, approvalInterval: 30 * time.Second,
	statsInterval: time.Minute, noticeInterval: 10 * time.Second,
}

// State is the state of a node.
type State string

// The states of a node.
const (
	Connecting State = "connecting"
	Pairing    State = "pairing"               // the gateway's owner has to approve the device
	Approval   State = "approval"              // the gateway's owner has to approve its commands
	Untrusted  State = "certificate_untrusted" // the owner has to accept the gateway's certificate
	Changed    State = "certificate_changed"   // it is not the accepted one any more
	Ready      State = "ready"
	Waiting    State = "waiting" // the next attempt may well succeed
	Failed     State = "failed"  // needs a person; retried nevertheless
)

// Status is the status of a node.
type Status struct {
	// Device is the device id; empty in mode OneNode. Name is the node's name at the gateway.
	Device, Name string
	// Node is the node's id at the gateway; empty before the first use.
	Node  string
	State State
	Since time.Time
	// Message is the error and its remedy, and Command what the gateway's owner has to run. Both
	// may be empty.
	Message i18n.Text
	Command string
	// Code is the kind of a connection problem; empty if there is none. Certificate is the
	// gateway's one that is not accepted, if that is the problem.
	Code        client.Problem
	Certificate *client.Certificate
	// Tools counts the published tools, Accepted those that the gateway has accepted, and
	// Omitted those beyond its limit.
	Tools, Accepted, Omitted int
	// Gateway is the gateway's OpenClaw version, if it was ever connected.
	Gateway string
	// NextTry is the time of the next attempt; zero unless waiting for it.
	NextTry time.Time
}

// Manager keeps the nodes at all gateways. It is safe for concurrent use.
//
// Only one instance of an installation may join a gateway at a time: only the newest connection
// of a node receives calls.
type Manager struct {
	opt     Options
	metrics *metrics

	mu       sync.Mutex
	work     sync.WaitGroup
	closed   bool
	gateways map[string]*joinedGateway
	// stopping holds, by id, the end of gateways that were replaced or removed; a successor
	// waits for it.
	stopping map[string]<-chan struct{}
}

// New returns a Manager without gateways.
func New(o Options) *Manager {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.times == (timings{}) {
		o.times = defaultTimings
	}
	return &Manager{opt: o, metrics: newMetrics(o.Registerer), gateways: map[string]*joinedGateway{},
		stopping: map[string]<-chan struct{}{}}
}

// Set replaces the list of gateways: it joins new ones, leaves missing ones, and rejoins those
// with another version. It does not wait for any of them.
func (m *Manager) Set(specs []Spec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	wanted := make(map[string]bool, len(specs))
	for _, spec := range specs {
		wanted[spec.ID] = true
		if s := m.gateways[spec.ID]; s == nil || s.spec.Version != spec.Version {
			m.end(spec.ID)
			m.begin(spec)
		}
	}
	for id := range m.gateways {
		if !wanted[id] {
			m.end(id)
		}
	}
}

// begin joins a gateway. The caller holds mu.
func (m *Manager) begin(spec Spec) {
	s := newJoinedGateway(m, spec)
	before := m.stopping[spec.ID]
	m.gateways[spec.ID] = s
	m.work.Go(func() {
		if before != nil {
			<-before
		}
		s.run()
	})
}

// end leaves a gateway, if it is joined. The caller holds mu.
func (m *Manager) end(id string) {
	s := m.gateways[id]
	if s == nil {
		return
	}
	delete(m.gateways, id)
	m.stopping[id] = s.done
	s.cancel()
	m.work.Go(func() {
		<-s.done
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.stopping[id] == s.done {
			delete(m.stopping, id)
		}
	})
}

// Status returns the status of a gateway's nodes, in a stable order, and false if the id is
// unknown.
func (m *Manager) Status(id string) ([]Status, bool) {
	m.mu.Lock()
	s := m.gateways[id]
	m.mu.Unlock()
	if s == nil {
		return nil, false
	}
	return s.status(), true
}

// Close stops all nodes and waits for their end. The manager cannot be used afterwards.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	for id := range m.gateways {
		m.end(id)
	}
	m.mu.Unlock()
	m.work.Wait()
}
