// Package page is what all pages of the console have in common.
//
//	house     who is let in to which page, and what holds for all of them
//	visit     one request: who asks, in which language, and how it is answered
//	live      what is sent while a page is open
//	confirm   the password once more, and what waits for it
//	parts     what pages are made of: lights, notes, fields, times
//	assets    the style sheet and the scripts, embedded
//	bots      how a bot is, the same on every page
//	layout    what is around a page
package page

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// House is what all pages stand on. It is safe for concurrent use.
type House struct {
	Accounts *account.Service
	Control  *control.Service
	Address  func(*http.Request) netip.Addr
	Lang     talk.Lang // of whoever has not said which
	Version  string
	Logger   *slog.Logger
	Streams  *account.Streams // ends pages of browsers that are signed out; may be nil
	// Secure says that the outside reaches the pages by https, whatever a proxy says.
	Secure bool

	mux   http.Handler
	lives lives
	zones sync.Map // name → *time.Location; there are some hundred of them
}

// Access says who may see a page. Whose things are on it is another question, which
// the functions of package control answer.
type Access int

const (
	Members Access = iota // whoever is signed in
	Anybody               // also who is not
	Fresh                 // who has typed the password a short time ago: secrets
	Admins                // who runs the installation
	// AdminsFresh is both.
	AdminsFresh
)

// Route is a page, or something that a form or a script of one asks for.
type Route struct {
	Pattern string // as [http.ServeMux] has them, with a method
	Access  Access
	Serve   func(*Visit)
	// Large lets a body have more than a form has; its page bounds it itself.
	Large bool
}

// maxForm bounds what a form may have, in bytes.
const maxForm = 1 << 20

// Handler serves pages, and says of everything else that it is missing.
func (h *House) Handler(routes []Route) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{name}", serveAsset)
	for _, r := range routes {
		mux.HandleFunc(r.Pattern, h.serve(r))
	}
	mux.HandleFunc("/", h.serve(Route{Access: Anybody, Serve: (*Visit).Missing}))
	h.mux = mux
	// Forms of other sites may not do anything here with a cookie of ours.
	return guarded(http.NewCrossOriginProtection().Handler(mux))
}

// policy lets pages have what is ours alone, and no script or style inside them.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

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
		next.ServeHTTP(w, r)
	})
}

// serve finds out who asks, lets them in or sends them to the door.
func (h *House) serve(route Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !route.Large {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		}
		v := &Visit{Request: r, W: w, House: h}
		v.token = v.cookie(v.tokenCookie())
		who, err := h.Accounts.CheckSignIn(r.Context(), v.token, h.Address(r).String())
		if err == nil {
			v.Who = who
		}
		v.choose()
		if err != nil && !errors.Is(err, account.ErrSignedOut) {
			v.Fail(err)
			return
		}
		if h.letIn(v, route.Access) {
			route.Serve(v)
		}
	}
}

// letIn says whether a visitor may see a page. If not, they have been sent elsewhere.
func (h *House) letIn(v *Visit, a Access) bool {
	if a == Anybody {
		return true
	}
	if !v.SignedIn() {
		v.toDoor()
		return false
	}
	if (a == Admins || a == AdminsFresh) && !v.Admin() {
		v.Fail(control.Fail(control.Refused, sayAdminsOnly))
		return false
	}
	return a != Fresh && a != AdminsFresh || v.Confirmed(v.here())
}

// here is the page that the browser shows, or is about to.
func (v *Visit) here() string {
	if v.Method == http.MethodGet && !v.Partial() {
		return v.URL.RequestURI()
	}
	if u, err := url.Parse(v.Referer()); err == nil && u.Path != "" && u.Path != "/confirm" {
		return u.RequestURI()
	}
	return "/"
}

// toDoor sends somebody to where they sign in, and from there back.
func (v *Visit) toDoor() {
	code, err := v.House.Accounts.SetupCode(v.Context())
	switch here := v.here(); {
	case err != nil:
		v.Fail(err)
	case code != "":
		v.To("/setup")
	case here != "/":
		v.To("/signin?next=" + url.QueryEscape(here))
	default:
		v.To("/signin")
	}
}

// Ours is where a browser is sent on to: an address of ours, whatever was asked for.
func Ours(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") || strings.Contains(next, "\\") {
		return "/"
	}
	return next
}

// Zone is the time zone of a person; that of the server, if they have not said one.
func (h *House) Zone(p store.Person) *time.Location {
	if p.Zone == "" {
		return time.Local
	}
	if z, ok := h.zones.Load(p.Zone); ok {
		return z.(*time.Location)
	}
	zone, err := time.LoadLocation(p.Zone)
	if err != nil {
		return time.Local // it was known where it was chosen
	}
	h.zones.Store(p.Zone, zone)
	return zone
}
