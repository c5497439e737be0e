// Package console is the web pages, for people with a phone or a laptop.
//
//	console     puts the pages together
//	door        setting up, signing in and out
//	home        the first page, and the guide
//	page        what all pages have in common
//
// and a package for each place that the menu leads to. Pages work without a script, but
// for what is live; with it, parts of them are exchanged where they stand. Nothing is
// fetched from any other host.
//
// The *_templ.go files are made of the *.templ ones by templ; see AGENTS.md.
package console

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/console/activity"
	"patchbay/internal/console/bots"
	"patchbay/internal/console/chat"
	"patchbay/internal/console/devices"
	"patchbay/internal/console/gateway"
	"patchbay/internal/console/home"
	"patchbay/internal/console/keys"
	"patchbay/internal/console/learn"
	"patchbay/internal/console/page"
	"patchbay/internal/console/settings"
	"patchbay/internal/console/tools"
	"patchbay/internal/control"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/talk"
)

// Options make a [Server]. All but Logger are required.
type Options struct {
	Accounts *account.Service
	Control  *control.Service
	Address  func(*http.Request) netip.Addr
	Lang     talk.Lang // of whoever has not said which
	Version  string
	Secure   bool         // the outside reaches the pages by https
	Logger   *slog.Logger // nil discards
	// Streams ends the pages of browsers that are signed out; may be nil.
	Streams *account.Streams
	// Registerer takes the metrics; nil: there are none.
	Registerer prometheus.Registerer
	// Learn keeps what people want to remember; nil: there are no pages about it.
	Learn *learning.Service
	// LearnFile is how large a file with knowledge points may be, in bytes.
	LearnFile int64
}

// Server is the pages. It is safe for concurrent use.
type Server struct {
	Options
	house   *page.House
	routes  []page.Route
	handler http.Handler
	signIns *prometheus.CounterVec
}

// New makes the pages.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{Options: o}
	s.house = &page.House{
		Accounts: o.Accounts, Control: o.Control, Address: o.Address, Lang: o.Lang, Version: o.Version, Logger: o.Logger,
		Streams: o.Streams,
		Secure:  o.Secure,
	}
	s.signIns = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_signins_total", Help: "Passwords and setup codes that browsers showed."}, []string{"outcome"})
	if o.Registerer != nil {
		o.Registerer.MustRegister(s.signIns, prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "patchbay_console_live_pages", Help: "Pages of the console that are kept up to date."},
			func() float64 { return float64(s.house.Live()) },
		))
	}
	s.routes = slices.Concat(
		bots.Routes(),
		s.doorRoutes(),
		home.Routes(),
		chat.Routes(),
		devices.Routes(o.Control),
		gateway.Routes(),
		tools.Routes(),
		activity.Routes(),
		keys.Routes(),
		settings.Routes(o.Control),
	)
	if o.Learn != nil {
		s.routes = append(s.routes, learn.Routes(learn.Options{Points: o.Learn, Largest: o.LearnFile})...)
	}
	s.handler = s.house.Handler(s.routes)
	return s
}

// Routes lists all pages, and what their forms and scripts ask for.
func (s *Server) Routes() []page.Route { return s.routes }

// Paths are where the pages are, as [http.ServeMux] names addresses: the first page, and
// every name at the top with all below it. What is nobody's is not among them, so that
// other doors keep their own answers.
func (s *Server) Paths() []string {
	paths := []string{"/{$}", "/assets/"}
	for _, r := range s.routes {
		_, path, _ := strings.Cut(r.Pattern, " ")
		top, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if top == "{$}" || slices.Contains(paths, "/"+top) {
			continue
		}
		paths = append(paths, "/"+top, "/"+top+"/")
	}
	return paths
}

// Drain ends what keeps open pages up to date, so that the server can stop.
func (s *Server) Drain() { s.house.Drain() }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// doorRoutes are the pages for who is not signed in.
func (s *Server) doorRoutes() []page.Route {
	return []page.Route{
		{Pattern: "GET /setup", Access: page.Anybody, Serve: s.setupPage},
		{Pattern: "POST /setup", Access: page.Anybody, Serve: s.setUp},
		{Pattern: "GET /signin", Access: page.Anybody, Serve: s.signInPage},
		{Pattern: "POST /signin", Access: page.Anybody, Serve: s.signIn},
		{Pattern: "POST /signout", Access: page.Anybody, Serve: s.signOut},
		{Pattern: "POST /look", Access: page.Anybody, Serve: s.look},
		{Pattern: "GET /confirm", Serve: s.confirmPage},
		{Pattern: "POST /confirm", Serve: s.confirm},
	}
}
