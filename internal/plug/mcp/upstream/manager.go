// Package upstream makes the tools of other people's MCP servers callable here.
//
// An owner adds a server: an address (Streamable HTTP of 2025-03-26 and later,
// or HTTP+SSE of 2024-11-05) or a command that is started and spoken to over its
// standard input. A [Manager] keeps a connection to each, offers its tools to the
// board, carries calls to it, and connects anew for as long as the upstream is
// there. Both kinds of the protocol are spoken: the revisions with sessions, and
// 2026-07-28, which has none.
//
// Other servers connect to us, over a WebSocket; see [Manager.Accept].
//
// Schemas, arguments and results are passed on as the JSON that they came as.
// For that reason, and because a server that sends one bad message must not lose
// its connection, this package speaks JSON-RPC itself instead of through a client
// library that reads what it knows and drops the rest.
package upstream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/tool"
)

// Spec is one upstream that an owner has added.
type Spec struct {
	// ID is unique for ever.
	ID string
	// Slug names it in metrics; Title names it to people. Empty: the slug.
	Slug  string
	Title string
	// Owner is the id of an account.
	Owner string
	// Version changes whenever anything of it does.
	Version  int64
	Settings Settings
	// Guarded upstreams belong to somebody who is not to reach what we can reach:
	// they are dialled by Options.Dial, and cannot be commands.
	Guarded bool
	// DialsIn says that the server connects to us. Settings say no more than which
	// of its tools are taken over, and how they are called
	// ([Settings.ValidateDialsIn]).
	DialsIn bool
}

func (s *Spec) name() string {
	if s.Title != "" {
		return s.Title
	}
	return s.Slug
}

// Socket is where an upstream is plugged in.
type Socket interface {
	// Offer replaces the list of tools. The list belongs to the callee, which must not
	// call the [Manager] before it has returned.
	Offer(tools []tool.Tool)
	// Unplug ends the offer. It is called once, after the last Offer.
	Unplug()
	// Hold says that a server which connects to us has done so, and numbers its
	// connection; Moved of the provider hears of newer ones elsewhere.
	Hold(held bool) (epoch int64)
}

// Options are what a [Manager] works with.
type Options struct {
	// Plug plugs an upstream in that offers nothing yet. It is called by many
	// goroutines; for each upstream by one at a time, and not again before Unplug.
	// A server that connects to us is plugged in only while it is connected here,
	// and for a moment after that.
	Plug func(spec Spec, p tool.Provider) Socket
	// Dangerous remembers tools, by their names at the server of an upstream (a spec's id),
	// that the server calls destructive now, and returns up to [MaxDangerous] of all that
	// it has ever called so. If it is nil, they are known as long as the upstream lives.
	Dangerous func(ctx context.Context, upstream string, now []string) ([]string, error)
	// Logger must not be nil.
	Logger *slog.Logger
	// Registerer takes the metrics; it may be nil.
	Registerer prometheus.Registerer
	// Dial connects to the servers of guarded upstreams. Null dials anything.
	Dial DialFunc
	// Version is what servers are told that we are.
	Version string
	// Installation is who we are in the way that tools came (_meta patchbay/via):
	// tools that came through us already are left out. Empty: none are.
	Installation string

	times *timings // null: the usual ones
}

func (o *Options) timings() timings {
	if o.times != nil {
		return *o.times
	}
	return usual
}

func (o *Options) client() clientInfo {
	c := clientInfo{Name: "patchbay", Title: "Patchbay", Version: o.Version, home: o.Installation}
	if c.Version == "" {
		c.Version = "dev"
	}
	return c
}

// dial is how an upstream's server is reached; nil is in the usual way.
func (o *Options) dial(spec *Spec) DialFunc {
	if !spec.Guarded {
		return nil
	}
	if o.Dial != nil {
		return o.Dial
	}
	return plainDial
}

// State is how an upstream is.
type State string

// The states of an upstream.
const (
	Connecting State = "connecting"
	Ready      State = "ready"
	Waiting    State = "waiting" // the next try may well succeed
	Failed     State = "failed"  // somebody has to do something; it is tried again nevertheless
)

// Status tells how an upstream is.
type Status struct {
	State State
	Since time.Time
	// Tools counts the tools that are offered, Hidden those that the owner's
	// patterns leave out, and Skipped those that cannot be used.
	Tools, Hidden, Skipped int
	// Cut says that the server has more tools than are taken over.
	Cut bool
	// Err is what went wrong last, null if nothing is wrong. It stays while it is
	// tried again.
	Err *Trouble
	// Stderr are the last lines of a command's error output, four at most.
	Stderr []string
	// Server and ServerVersion are what the server calls itself; Protocol is the
	// revision that is spoken, and Transport the one that works.
	Server, ServerVersion string
	Protocol, Transport   string
	// NextTry is when it is tried again; zero unless Waiting or Failed, and for
	// servers that connect to us.
	NextTry time.Time
}

// Manager keeps the connections to all upstreams. Its methods may be called by
// many goroutines at once.
type Manager struct {
	opt     Options
	metrics *metrics

	mu     sync.Mutex
	wg     sync.WaitGroup
	closed bool
	ups    map[string]*upstream
	// leaving are the ends of upstreams that were replaced or removed and are not
	// through yet, by id: a successor waits for them.
	leaving map[string]<-chan struct{}
}

// New makes a Manager without upstreams.
func New(opt Options) *Manager {
	return &Manager{
		opt:     opt,
		metrics: newMetrics(opt.Registerer),
		ups:     make(map[string]*upstream),
		leaving: make(map[string]<-chan struct{}),
	}
}

// Set makes the given upstreams those that there are: new ones are begun, missing
// ones ended, and those with another version begun anew. It does not wait for
// any of that.
func (m *Manager) Set(specs []Spec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	wanted := make(map[string]bool, len(specs))
	for _, spec := range specs {
		wanted[spec.ID] = true
		if u := m.ups[spec.ID]; u == nil || u.spec.Version != spec.Version {
			m.end(spec.ID, errChanged)
			m.begin(spec)
		}
	}
	for id := range m.ups {
		if !wanted[id] {
			m.end(id, errChanged)
		}
	}
}

// begin starts an upstream. The caller holds m.mu.
func (m *Manager) begin(spec Spec) {
	u := newUpstream(m, spec)
	before := m.leaving[spec.ID]
	m.ups[spec.ID] = u
	m.wg.Go(func() {
		if before != nil {
			<-before
		}
		u.run()
	})
}

// end stops an upstream, if there is one, and says why. The caller holds m.mu.
func (m *Manager) end(id string, why error) {
	u := m.ups[id]
	if u == nil {
		return
	}
	delete(m.ups, id)
	m.leaving[id] = u.done
	u.stop(why)
	m.wg.Go(func() {
		<-u.done
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.leaving[id] == u.done {
			delete(m.leaving, id)
		}
	})
}

// Status tells how an upstream is, and false if there is no such.
func (m *Manager) Status(id string) (Status, bool) {
	m.mu.Lock()
	u := m.ups[id]
	m.mu.Unlock()
	if u == nil {
		return Status{}, false
	}
	return u.report(), true
}

// Close ends all upstreams and waits until that is done.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	for id := range m.ups {
		m.end(id, errStopping)
	}
	m.mu.Unlock()
	m.wg.Wait()
}
