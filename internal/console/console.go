// Package console serves the web pages of Patchbay, for phones and laptops.
//
//	console     assembles the pages
//	signin      first account, signing in and out
//	home        the first page and the setup guide
//	page        what all pages share
//
// and one package for each entry of the menu. Pages work without JavaScript, except for live
// updates; with it, parts of a page are replaced in place. Pages load nothing from any other host.
//
// templ generates the *_templ.go files from the *.templ files; see AGENTS.md.
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
	"patchbay/internal/console/approvals"
	"patchbay/internal/console/bots"
	"patchbay/internal/console/chat"
	"patchbay/internal/console/consent"
	"patchbay/internal/console/devices"
	"patchbay/internal/console/engines"
	"patchbay/internal/console/find"
	"patchbay/internal/console/gateway"
	"patchbay/internal/console/home"
	"patchbay/internal/console/keys"
	"patchbay/internal/console/learn"
	"patchbay/internal/console/manual"
	"patchbay/internal/console/page"
	"patchbay/internal/console/settings"
	"patchbay/internal/console/talk"
	"patchbay/internal/console/tools"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/push"
)

// Options configures a [Server]. All fields are required unless noted otherwise.
type Options struct {
	Accounts *account.Service
	Control  *control.Service
	Address  func(*http.Request) netip.Addr
	Lang     i18n.Lang // for visitors who have not chosen a language
	Version  string
	Secure   bool         // browsers reach the pages over https
	Logger   *slog.Logger // nil discards
	// Streams ends the live pages of browsers that are signed out; may be nil.
	Streams *account.Streams
	// Registerer registers the metrics; nil means no metrics.
	Registerer prometheus.Registerer
	// Learn stores the learning material; nil disables the pages about it.
	Learn *learning.Service
	// Push reminds people in their browsers; may be nil.
	Push *push.Service
}

// Server serves the pages. It is safe for concurrent use.
type Server struct {
	Options
	instance *page.Instance
	routes   []page.Route
	handler  http.Handler
	signIns  *prometheus.CounterVec
}

// New returns a server for all pages.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{Options: o}
	s.instance = &page.Instance{
		Accounts: o.Accounts, Control: o.Control, Address: o.Address, Lang: o.Lang, Version: o.Version,
		Logger:  o.Logger,
		Streams: o.Streams,
		Secure:  o.Secure,
	}
	s.signIns = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_signins_total",
		Help: "Passwords and setup codes that browsers showed, and visits to the OpenID provider."}, []string{"outcome"})
	if o.Registerer != nil {
		o.Registerer.MustRegister(s.signIns, prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "patchbay_console_live_pages",
				Help: "Pages of the console that are kept up to date."},
			func() float64 { return float64(s.instance.LiveCount()) },
		))
	}
	s.routes = slices.Concat(
		bots.Routes(),
		s.publicRoutes(),
		s.oidcRoutes(),
		consent.Routes(),
		approvals.Routes(),
		home.Routes(),
		chat.Routes(),
		devices.Routes(o.Control),
		gateway.Routes(),
		tools.Routes(),
		activity.Routes(),
		keys.Routes(),
		settings.Routes(o.Control),
		engines.Routes(o.Control),
		talk.Routes(),
		manual.Routes(),
		find.Routes(),
	)
	if o.Learn != nil {
		s.routes = append(s.routes, learn.Routes(learn.Options{Points: o.Learn, Largest: o.Control.ImportSize,
			Push: o.Push})...)
	}
	s.handler = s.instance.Handler(s.routes)
	return s
}

// Routes returns all pages and the routes that their forms and scripts use.
func (s *Server) Routes() []page.Route { return s.routes }

// Paths returns the patterns of the pages, in the syntax of [http.ServeMux]: the first page, and
// every top-level path with everything below it. Unknown paths are not included, so that other
// handlers keep their own "not found" responses.
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

// Drain ends all live updates, so that the server can stop.
func (s *Server) Drain() { s.instance.Drain() }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// publicRoutes returns the pages that need no sign-in.
func (s *Server) publicRoutes() []page.Route {
	return []page.Route{
		{Pattern: "GET /setup", Access: page.Anybody, Serve: s.setupPage},
		{Pattern: "POST /setup", Access: page.Anybody, Serve: s.createFirstAccount},
		{Pattern: "GET /signin", Access: page.Anybody, Serve: s.signInPage},
		{Pattern: "POST /signin", Access: page.Anybody, Serve: s.signIn},
		{Pattern: "POST /signin/passkey", Access: page.Anybody, Serve: s.signInByPasskey},
		// A reload of the page of POST, or its change of language.
		{Pattern: "GET /signin/code", Access: page.Anybody, Serve: func(v *page.Visit) { v.Redirect("/signin") }},
		{Pattern: "POST /signin/code", Access: page.Anybody, Serve: s.signInByCode},
		{Pattern: "GET " + control.WelcomePath + "{secret}", Access: page.Anybody, Serve: s.welcomePage},
		{Pattern: "POST " + control.WelcomePath + "{secret}", Access: page.Anybody, Serve: s.acceptInvitation},
		{Pattern: "POST /signout", Access: page.Anybody, Serve: s.signOut},
		{Pattern: "POST /look", Access: page.Anybody, Serve: s.savePreferences},
		{Pattern: "GET /confirm", Serve: s.confirmPage},
		{Pattern: "POST /confirm", Serve: s.confirm},
		{Pattern: "POST /confirm/passkey", Serve: s.confirmByPasskey},
	}
}
