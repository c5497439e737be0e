// Package mcp is the doors for programs: MCP in all its revisions, over
// Streamable HTTP and over HTTP+SSE, the older dialect of Rokid's platform, and
// Learn's own door, which programs without MCP use too.
//
// The way of a request: a door (streamable.go, sse.go) finds out who calls and
// in which session, and makes an exchange. The exchange (exchange.go) answers
// it: tools in tools.go, resources and prompts in library.go. What differs
// between the eras of the protocol, with sessions until 2025-11-25 and without
// since 2026-07-28, is in session.go and stateless.go. Whoever wants to hear of
// changes is a listener (listen.go).
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
	"patchbay/internal/board"
	"patchbay/internal/seal"
)

// Options make a server.
type Options struct {
	Board      *board.Board
	Accounts   *account.Recent
	Streams    *account.Streams // counts streams, and ends those of keys that do not hold; may be nil
	Guard      *account.Guard
	Box        *seal.Box // signs what callers bring back
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Address    func(*http.Request) netip.Addr
	Version    string // of the program

	// PublicURL, Hosts and Origins are where the server is reached and from which
	// web pages, beyond this machine and its network.
	PublicURL string
	Hosts     []string
	Origins   []string

	MaxBody   int64         // bytes of a request; 0: 4 MiB
	Sessions  int           // kept in memory; 0: 10,000
	PerKey    int           // sessions of one key; 0: 2,500
	Idle      time.Duration // after which an unused session is forgotten; 0: 30 min
	KeepAlive time.Duration // how long a stream may be quiet; 0: 15 s

	// Relay reaches the other instances; nil if there are none.
	Relay Relay
	// OpenBots says whether anybody may come in at the older door.
	OpenBots OpenBots
	// LearnTools are the names of Learn's tools: what there is at Learn's own door,
	// and all there is.
	LearnTools []string

	// Anybody, if not nil, is who calls without a key. It is for tests.
	Anybody func() account.Principal
}

// Server is the doors. It is safe for concurrent use.
type Server struct {
	Options
	hosts     hostList
	sessions  *sessions
	listeners listeners
	metrics   metrics
	info      json.RawMessage // what the server says about itself

	stopping atomic.Bool
	ctx      context.Context // ends when the server is closed
	cancel   context.CancelFunc
	work     sync.WaitGroup
}

// The revisions of the protocol with sessions, newest first.
var revisions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// stateless is the first revision without sessions. Revisions are dates, so that
// later ones sort behind it.
const stateless = "2026-07-28"

// New makes a server. Close ends its streams and calls.
func New(o Options) *Server {
	if o.MaxBody == 0 {
		o.MaxBody = 4 << 20
	}
	if o.Sessions == 0 {
		o.Sessions = 10_000
	}
	if o.PerKey == 0 {
		o.PerKey = 2500
	}
	if o.Idle == 0 {
		o.Idle = 30 * time.Minute
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 15 * time.Second
	}
	if o.OpenBots == nil {
		o.OpenBots = func(context.Context) (bool, error) { return false, nil }
	}
	s := &Server{Options: o, hosts: newHostList(o.PublicURL, o.Hosts, o.Origins)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.sessions = newSessions(s)
	s.metrics = newMetrics(s)
	s.info, _ = json.Marshal(map[string]string{"name": "patchbay", "title": "Patchbay", "version": o.Version})
	if o.Relay != nil {
		if err := o.Relay.Hear(s.heard); err != nil {
			o.Logger.Error("what other instances say about sessions is not heard", "error", err)
		}
	}
	changes, forget := o.Board.Watch()
	o.Board.OnUpdated(s.updated)
	s.work.Go(func() {
		defer forget()
		s.watch(changes)
	})
	s.work.Go(s.sweep)
	return s
}

// Drain ends the streams on which nothing is due, so that the server can stop:
// clients connect again, to another instance or to this one when it is back.
func (s *Server) Drain() {
	s.stopping.Store(true)
	for _, end := range s.listeners.list() {
		end()
	}
}

// Close ends all streams and calls and waits for them.
func (s *Server) Close() {
	s.cancel()
	s.sessions.closeAll()
	s.work.Wait()
}

type metrics struct {
	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
}

func newMetrics(s *Server) metrics {
	m := metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_mcp_requests_total", Help: "Requests at the MCP doors."}, []string{"door", "method"}),
		refused:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_mcp_refused_total", Help: "Requests that the MCP doors turned away."}, []string{"reason"}),
	}
	s.Registerer.MustRegister(m.requests, m.refused,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_mcp_sessions", Help: "MCP sessions in memory."}, func() float64 { return float64(s.sessions.count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_mcp_listeners", Help: "MCP clients that hear of changes."}, func() float64 { return float64(s.listeners.count()) }),
	)
	return m
}
