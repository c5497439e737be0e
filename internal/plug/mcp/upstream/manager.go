// Package upstream connects to external MCP servers and makes their tools callable through the hub.
//
// An owner adds a server: an address (Streamable HTTP of 2025-03-26 and later, or HTTP+SSE of
// 2024-11-05) or a command that speaks over standard input and output. A [Manager] keeps one
// connection to each server, registers its tools with the hub, forwards calls, and reconnects for
// as long as the upstream exists. It supports the revisions with sessions and 2026-07-28, which has
// none.
//
// Some servers connect to this side instead, over a WebSocket; see [Manager.Accept].
//
// Schemas, arguments and results are passed on as raw JSON. For that reason, and because one
// invalid message must not end the connection, this package implements JSON-RPC itself instead of
// using a client library that drops unknown members.
//
// Comments cite the specification by revision and page; see package mcp.
package upstream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/i18n"
	"patchbay/internal/tool"
	"patchbay/internal/tracing"
)

// Spec describes one upstream.
type Spec struct {
	// ID is never reused.
	ID string
	// Slug is the label in metrics; Title is shown to people, and empty means the slug.
	Slug  string
	Title string
	// Owner is the account id of the person who has the tools.
	Owner string
	// SharedBy is the owner of the upstream, if that is somebody else who shares it: each person
	// has a connection, which is closed while it is not used, and of which there are MaxMembers at
	// most.
	SharedBy string
	// Version changes with every change of the spec.
	Version int64
	// Pins changes when the owner has approved changes of tools.
	Pins     int64
	Settings Settings
	// Untrusted means that the owner may not reach internal addresses: Options.Dial connects,
	// and commands are refused.
	Untrusted bool
	// SignIns changes when the owner has signed in to the server, or out.
	SignIns int64
	// Inbound means that the server connects to this side. Settings then only choose and name
	// its tools ([Settings.ValidateInbound]).
	Inbound bool

	tokens Tokens // nil: only settings have tokens
}

func (s *Spec) name() string {
	if s.Title != "" {
		return s.Title
	}
	return s.Slug
}

// Registration is an upstream's registration with the hub.
type Registration interface {
	// SetTools replaces the tool list. The callee owns the list and must not call the [Manager]
	// before it returns.
	SetTools(tools []tool.Tool)
	// NotifyContentChanged reports that the list of prompts or resources has changed, and
	// NotifyResourceUpdated that a resource has, by its URI for callers. They must not block.
	NotifyContentChanged()
	NotifyResourceUpdated(uri string)
	// NotifyLog passes on a log message of the server that belongs to no call. It must not block.
	NotifyLog(l tool.Log)
	// Unregister removes the registration. It is called once, after the last SetTools.
	Unregister()
	// Hold records whether an inbound server is connected here, and returns the number of the
	// connection; the provider's Moved is called with the numbers of newer ones elsewhere.
	Hold(held bool) (epoch int64)
}

// Options configure a [Manager].
type Options struct {
	// Register registers an upstream, without tools yet. It is called concurrently, but for each
	// upstream by one goroutine at a time, and not again before Unregister. An inbound server is
	// registered only while it is connected here, and for a short grace period after that.
	Register func(spec Spec, p tool.Provider) Registration
	// Dangerous stores the names (at the server) of tools that the server of an upstream (a
	// spec's id) now calls destructive, and returns up to [MaxDangerous] of all names ever
	// stored. If it is nil, they are remembered only while the upstream runs.
	Dangerous func(ctx context.Context, upstream string, now []string) ([]string, error)
	// Pins stores what owners have approved; nil means that nothing needs approval.
	Pins Pins
	// Tokens returns the tokens of an upstream whose owner signs in to it; nil means that only
	// settings have tokens. It is called whenever an upstream is started or checked.
	Tokens func(spec Spec) Tokens
	// Tracer traces requests; nil: nothing is traced.
	Tracer *tracing.Tracer
	// Logger must not be nil.
	Logger *slog.Logger
	// Registerer takes the metrics; it may be nil.
	Registerer prometheus.Registerer
	// Dial connects to the servers of untrusted upstreams; nil allows all addresses.
	Dial DialFunc
	// Version is the client version sent to servers.
	Version string
	// MaxMembers limits the open connections of people with whom upstreams are shared; 0 means
	// [DefaultMembers]. More of them take turns.
	MaxMembers int
	// Installation identifies this installation in a tool's origin (_meta patchbay/via): tools
	// that already passed through it are left out. Empty: none are.
	Installation string

	times *timings // nil: the default timings
}

func (o *Options) timings() timings {
	if o.times != nil {
		return *o.times
	}
	return defaultTimings
}

func (o *Options) client() clientInfo {
	c := clientInfo{Name: "patchbay", Title: "Patchbay", Version: o.Version, installation: o.Installation,
		tracer: o.Tracer}
	if c.Version == "" {
		c.Version = "dev"
	}
	return c
}

// dial returns the dial function for an upstream's server; nil means the default.
func (o *Options) dial(spec *Spec) DialFunc {
	if !spec.Untrusted {
		return nil
	}
	if o.Dial != nil {
		return o.Dial
	}
	return plainDial
}

// State is the connection state of an upstream.
type State string

// The states of an upstream.
const (
	Connecting State = "connecting"
	Ready      State = "ready"
	Waiting    State = "waiting" // the next attempt may well succeed
	Idle       State = "idle"    // closed while it is not used; the next call connects
	Failed     State = "failed"  // needs the owner; retried nevertheless
)

// Status is the state of an upstream.
type Status struct {
	State State
	Since time.Time
	// Tools counts the offered tools, Hidden those excluded by the owner's patterns, and Skipped
	// the unusable ones.
	Tools, Hidden, Skipped int
	// Held counts those of Tools that have changed, and are refused until the owner approves that.
	Held int
	// Prompts counts the prompts of the server that are offered.
	Prompts int
	// Truncated means that the server has more tools than the limit.
	Truncated bool
	// LeftOut says which operations of an OpenAPI document are no tools, and why.
	LeftOut []i18n.Text
	// Err is the last error, nil without one. It stays during retries.
	Err *ConnectionError
	// Stderr holds the last lines of a command's error output, at most four.
	Stderr []string
	// Server and ServerVersion are the server's own name and version; Protocol is the revision
	// in use, Transport the one that worked.
	Server, ServerVersion string
	Protocol, Transport   string
	// NextTry is the time of the next attempt; zero unless Waiting or Failed, and for inbound
	// servers.
	NextTry time.Time
}

// Manager keeps the connections to all upstreams. It is safe for concurrent use.
type Manager struct {
	opt     Options
	metrics *metrics

	seats seats

	mu        sync.Mutex
	wg        sync.WaitGroup
	closed    bool
	upstreams map[string]*upstream
	// stopping holds, by id and by place, the end of upstreams that were replaced or removed; a
	// successor waits for it.
	stopping map[string]<-chan struct{}
}

// place is where the tools of an upstream are offered, which only one can be at a time.
func (s *Spec) place() string { return "/" + s.Owner + "/" + s.Slug }

// New returns a Manager without upstreams.
func New(opt Options) *Manager {
	return &Manager{
		opt:       opt,
		metrics:   newMetrics(opt.Registerer),
		upstreams: make(map[string]*upstream),
		stopping:  make(map[string]<-chan struct{}),
		seats:     newSeats(opt.MaxMembers),
	}
}

// Set replaces the list of upstreams: it starts new ones, stops missing ones, and restarts those
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
	}
	for id := range m.upstreams { // first, because others may take their places
		if !wanted[id] {
			m.end(id, errChanged)
		}
	}
	for _, spec := range specs {
		if u := m.upstreams[spec.ID]; u == nil || u.spec.Version != spec.Version {
			m.end(spec.ID, errChanged)
			m.begin(spec)
		} else {
			u.update(spec)
		}
	}
}

// begin starts an upstream. The caller holds m.mu.
func (m *Manager) begin(spec Spec) {
	u := newUpstream(m, spec)
	before := []<-chan struct{}{m.stopping[spec.ID], m.stopping[spec.place()]}
	m.upstreams[spec.ID] = u
	m.wg.Go(func() {
		for _, ended := range before {
			if ended != nil {
				<-ended
			}
		}
		u.run()
	})
}

// end stops an upstream, if it runs, with a reason. The caller holds m.mu.
func (m *Manager) end(id string, why error) {
	u := m.upstreams[id]
	if u == nil {
		return
	}
	delete(m.upstreams, id)
	keys := []string{id, u.spec.place()}
	for _, key := range keys {
		m.stopping[key] = u.done
	}
	u.stop(why)
	m.wg.Go(func() {
		<-u.done
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, key := range keys {
			if m.stopping[key] == u.done {
				delete(m.stopping, key)
			}
		}
	})
}

// Status returns the state of an upstream, and false if the id is unknown.
func (m *Manager) Status(id string) (Status, bool) {
	m.mu.Lock()
	u := m.upstreams[id]
	m.mu.Unlock()
	if u == nil {
		return Status{}, false
	}
	return u.report(), true
}

// Close stops all upstreams and waits for their end.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	for id := range m.upstreams {
		m.end(id, errStopping)
	}
	m.mu.Unlock()
	m.wg.Wait()
}
