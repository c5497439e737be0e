// Package console is the web pages, for people with a phone or a laptop.
//
//	console   what there is at which address, and what holds for all of it
//	visit     one request: who asks, in which language
//	door      setting up, signing in and out
//	assets    the style sheet and the script, embedded
//	*.templ   what the pages look like; templ makes Go of them
//
// Pages work without a script; with it, parts of them are exchanged where they stand.
// Nothing is fetched from any other host.
package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/observe"
	"patchbay/internal/talk"
)

// Options make a [Server]. All but Logger are required.
type Options struct {
	Accounts *account.Service
	Board    *board.Board
	Guard    *account.Guard // counts wrong passwords by address
	Address  func(*http.Request) netip.Addr
	Lang     talk.Lang // of whoever has not said which
	Version  string
	Logger   *slog.Logger // nil discards
}

// Server is the pages. It is safe for concurrent use.
type Server struct {
	Options
	handler http.Handler
	hashing chan struct{} // holds who checks a password, each of which takes 64 MiB
}

// hashingMost bounds how many passwords are checked at a time.
const hashingMost = 2

// maxForm bounds what a form may have, in bytes.
const maxForm = 1 << 20

// New makes the pages.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{Options: o, hashing: make(chan struct{}, hashingMost)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{name}", serveAsset)
	mux.HandleFunc("GET /setup", s.open(s.setupPage))
	mux.HandleFunc("POST /setup", s.open(s.setUp))
	mux.HandleFunc("GET /signin", s.open(s.signInPage))
	mux.HandleFunc("POST /signin", s.open(s.signIn))
	mux.HandleFunc("POST /signout", s.open(s.signOut))
	mux.HandleFunc("POST /look", s.open(s.look))
	mux.HandleFunc("GET /{$}", s.closed(s.home))
	mux.HandleFunc("/", s.open(s.missing))
	// Forms of other sites may not do anything here with a cookie of ours.
	s.handler = guarded(http.NewCrossOriginProtection().Handler(mux))
	return s
}

// Paths are where the pages are, as [http.ServeMux] names addresses.
var Paths = []string{"/{$}", "/assets/", "/look", "/setup", "/signin", "/signout"}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// policy lets pages have what is ours alone, and no script or style inside them.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guarded is what holds for all pages.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(self), microphone=(self), geolocation=()")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store") // what belongs to somebody
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}

// home is the first page.
func (s *Server) home(v *visit) { v.show(http.StatusOK, homePage(v)) }

// missing is any address that is nothing.
func (s *Server) missing(v *visit) {
	v.show(http.StatusNotFound, messagePage(v, sayMissing, sayMissingTold))
}

// broken tells that something is wrong on our side.
func (v *visit) broken(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	v.server.Logger.ErrorContext(v.Context(), "console", "path", v.URL.Path, "error", err)
	v.show(http.StatusInternalServerError, messagePage(v, sayBroken, talk.Say{
		Zh: sayBrokenTold.Zh + observe.RequestID(v.Context()), En: sayBrokenTold.En + observe.RequestID(v.Context()),
	}))
}
