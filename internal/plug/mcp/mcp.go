// Package mcp serves MCP in all its revisions, over Streamable HTTP, HTTP+SSE and WebSocket,
// together with the older dialect of Rokid's platform and the Learn endpoint, which also accepts
// plain JSON-RPC clients.
//
// An HTTP handler (streamable.go, sse.go, websocket.go) authenticates the caller, finds the session
// and creates an exchange. The exchange (exchange.go) answers the request: tools in tools.go,
// resources and prompts in resources.go. The two eras of the protocol, with sessions up to
// 2025-11-25 and without them since 2026-07-28, differ in session.go and stateless.go. Clients that
// want change notifications are listeners (listener.go), whose streams leave net/http while they
// wait (eventstream.go). Calls whose results are fetched later are tasks (tasks.go).
//
// Comments cite the specification by revision and page, as in "2026-07-28 basic/versioning": the
// pages are below docs/specification in github.com/modelcontextprotocol/modelcontextprotocol.
package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/seal"
	"patchbay/internal/tracing"
)

// Options configure a [Server].
type Options struct {
	Hub        *hub.Hub
	Accounts   *account.Recent
	Streams    *account.Streams // counts streams and ends those of revoked keys; may be nil
	Guard      *account.Guard
	Box        *seal.Box // signs state that clients carry
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Address    func(*http.Request) netip.Addr
	Version    string // of the program

	// PublicURL, Hosts and Origins are the addresses of the server, and the web pages that may
	// call it, besides this machine and its network.
	PublicURL string
	Hosts     []string
	Origins   []string
	// Metadata returns the address of the OAuth metadata of an endpoint, for programs without a
	// key (RFC 9728 §5.1); "" if it has none. May be nil.
	Metadata func(r *http.Request, path string) string

	// Origin returns scheme and host under which a request reached the server; "" if the host is
	// not known to be ours. May be nil.
	Origin func(r *http.Request) string

	MaxBody           int64         // limit of a request body, in bytes; 0: 4 MiB
	MaxSessions       int           // sessions in memory; 0: 10,000
	MaxSessionsPerKey int           // sessions of one key; 0: 2,500
	IdleTimeout       time.Duration // idle time until a session is forgotten; 0: 30 min
	KeepAlive         time.Duration // maximum silence on a stream; 0: 15 s

	TaskAfter time.Duration // how long calls take before they become tasks; 0: 500 ms
	TaskTTL   time.Duration // how long tasks exist; 0: an hour

	// Tracer continues the traces of clients; nil: nothing is traced.
	Tracer *tracing.Tracer
	// Relay reaches the other instances; nil with a single instance.
	Relay Relay
	// HasOpenBots reports whether the Rokid channel accepts callers without a key.
	HasOpenBots OpenBotCheck
	// LearnTools are the names of Learn's tools: the only tools of the Learn endpoint.
	LearnTools []string

	// Anonymous, if not nil, returns the principal of callers without a key. Used by tests.
	Anonymous func() account.Principal
}

// Server serves all MCP endpoints. It is safe for concurrent use.
type Server struct {
	Options
	hosts     hostList
	sessions  *sessions
	listeners listeners
	tasks     *taskTable
	stepUps   stepUps
	metrics   metrics
	info      json.RawMessage // serverInfo

	stopping atomic.Bool
	ctx      context.Context // ends when the server is closed
	cancel   context.CancelFunc
	work     sync.WaitGroup
}

// The protocol revisions with sessions, newest first (2025-11-25 basic/lifecycle, "Version
// Negotiation").
var revisions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// statelessVersion is the first protocol revision without sessions (2026-07-28 basic/versioning).
// Revisions are dates, so that strings compare in order.
const statelessVersion = "2026-07-28"

// New returns a server. Close ends its streams and calls.
func New(o Options) *Server {
	if o.MaxBody == 0 {
		o.MaxBody = 4 << 20
	}
	if o.MaxSessions == 0 {
		o.MaxSessions = 10_000
	}
	if o.MaxSessionsPerKey == 0 {
		o.MaxSessionsPerKey = 2500
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 30 * time.Minute
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 15 * time.Second
	}
	if o.TaskAfter == 0 {
		o.TaskAfter = defaultTaskAfter
	}
	if o.TaskTTL == 0 {
		o.TaskTTL = defaultTaskTTL
	}
	if o.Metadata == nil {
		o.Metadata = func(*http.Request, string) string { return "" }
	}
	if o.Origin == nil {
		o.Origin = func(*http.Request) string { return "" }
	}
	if o.HasOpenBots == nil {
		o.HasOpenBots = func(context.Context) (bool, error) { return false, nil }
	}
	s := &Server{Options: o, tasks: newTaskTable(), hosts: newHostList(o.PublicURL, o.Hosts, o.Origins)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.sessions = newSessions(s)
	s.metrics = newMetrics(s)
	s.info, _ = json.Marshal(map[string]string{"name": "patchbay", "title": "Patchbay", "version": o.Version})
	if o.Relay != nil {
		if err := o.Relay.Subscribe(s.onRelayMessage); err != nil {
			o.Logger.Error("what other instances say about sessions is not heard", "error", err)
		}
	}
	context.AfterFunc(s.ctx, s.serveTasks())
	changes, forget := o.Hub.WatchTools()
	o.Hub.OnResourceUpdated(s.onResourceUpdated)
	o.Hub.OnProviderLog(s.onProviderLog)
	s.work.Go(func() {
		defer forget()
		s.watchChanges(changes)
	})
	s.work.Go(s.sweep)
	return s
}

// Drain closes the streams that owe no response, so that the server can stop. Clients reconnect,
// to another instance or to this one after its restart.
func (s *Server) Drain() {
	s.stopping.Store(true)
	for _, end := range s.listeners.list() {
		end()
	}
}

// Close ends all streams and calls, and waits for them.
func (s *Server) Close() {
	s.cancel()
	s.sessions.closeAll()
	s.tasks.close()
	s.work.Wait()
}

type metrics struct {
	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
	tasks    *prometheus.CounterVec
}

func newMetrics(s *Server) metrics {
	m := metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_mcp_requests_total",
			Help: "Requests to the MCP endpoints."}, []string{"channel", "method"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_mcp_refused_total",
			Help: "Requests that the MCP endpoints refused."}, []string{"reason"}),
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_mcp_tasks_total",
			Help: "Calls of MCP clients that fetch the result later, by what became of them."}, []string{"outcome"}),
	}
	registerTaskGauges(s)
	s.Registerer.MustRegister(m.requests, m.refused, m.tasks,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_mcp_sessions", Help: "MCP sessions in memory."},
			func() float64 { return float64(s.sessions.count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_mcp_listeners",
			Help: "MCP clients that hear of changes."}, func() float64 { return float64(s.listeners.count()) }),
	)
	return m
}
