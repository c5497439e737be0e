// Package ankiconnect serves AnkiConnect's API, so that programs for Anki work with the knowledge
// points of a person: browser add-ons such as Yomitan, plugins of Obsidian, MCP servers for Anki.
//
// The form of requests and answers is that of AnkiConnect (github.com/FooSoft/anki-connect at
// 4064fa1, README.md and plugin/), API version 6. Clients search for some texts of its errors,
// which are therefore the same. What an action does is done by packages control and learn: with
// the permissions, the limits and the audit trail of Learn's tools.
//
// A request: server.go checks host and origin, visitor.go the key, envelope.go reads the action and
// finds it in the table of actions.go; the other files do it: decks.go, models.go, notes.go,
// add.go, tags.go, cards.go, media.go and stats.go.
package ankiconnect

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/control"
)

// Path is where the main server serves the API.
const Path = "/anki"

// Channel is the name of the channel in the audit trail and the log.
const Channel = "anki"

// Version is the version of the API (plugin/util.py, apiVersion).
const Version = 6

// Options configure a [Server]. All but Registerer and Streams are required.
type Options struct {
	Control *control.Service // with Points
	// Streams counts requests, and ends those of revoked keys; may be nil.
	Streams *account.Streams
	Guard   *account.Guard // limits guessing of keys
	Logger  *slog.Logger
	// Registerer takes the metrics; nil means no metrics.
	Registerer prometheus.Registerer
	// Address returns the address of a client.
	Address func(*http.Request) netip.Addr
	// IsKnownHost reports whether a name, with or without a port, is one of this server's.
	IsKnownHost func(hostport string) bool
	// Origins are those of web pages that may call. "http://localhost" stands for pages and browser
	// extensions of this machine, "*" for all.
	Origins []string
}

// defaultKey is the key of a context with the key for requests without one.
type defaultKey struct{}

// WithKey returns a context for the requests of a port that only programs of this machine reach:
// those without a key use this one, since many programs for Anki cannot send any.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, defaultKey{}, key)
}

// Server is the handler. It is safe for concurrent use.
type Server struct {
	Options
	requests *prometheus.CounterVec
	large    chan struct{} // has an element for each large body of somebody who is not known yet
}

// New returns a server.
func New(o Options) *Server {
	s := &Server{Options: o, large: make(chan struct{}, maxLarge)}
	s.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "patchbay_ankiconnect_actions_total",
		Help: "Actions of programs for Anki.",
	}, []string{"action", "outcome"})
	if o.Registerer != nil {
		o.Registerer.MustRegister(s.requests)
	}
	return s
}

// count counts an action. Unknown ones share a name.
func (s *Server) count(action, outcome string) {
	if actions[action] == nil && action != actionMulti && action != actionPermission {
		action = "unknown"
	}
	s.requests.WithLabelValues(action, outcome).Inc()
}
