// Package page provides what all pages of the console share.
//
//	instance  access to pages, and what applies to all of them
//	visit     one request: its person and language, and the response
//	live      updates of open pages
//	confirm   asking for the password again, and forms that wait for it
//	parts     components of pages: lights, notes, fields, times
//	assets    the style sheet and the scripts, embedded
//	bots      the state of a bot, the same on every page
//	layout    the frame of a page
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
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Instance holds the dependencies of all pages. It is safe for concurrent use.
type Instance struct {
	Accounts *account.Service
	Control  *control.Service
	Address  func(*http.Request) netip.Addr
	Lang     i18n.Lang // for visitors who have not chosen a language
	Version  string
	Logger   *slog.Logger
	Streams  *account.Streams // ends live pages of browsers that are signed out; may be nil
	// Secure means that browsers reach the pages over https, whatever a proxy says.
	Secure bool

	mux   http.Handler
	live  liveStreams
	zones sync.Map // name → *time.Location; there are a few hundred
}

// Access says who may open a page. Whose data the page shows is decided by the functions of package
// control.
type Access int

const (
	Members   Access = iota // anyone signed in
	Anybody                 // no sign-in needed
	Confirmed               // those who entered the password recently; for pages with secrets
	Admins                  // administrators
	// AdminsConfirmed means administrators who entered the password recently.
	AdminsConfirmed
)

// Route is a page, or an endpoint that its forms or scripts use.
type Route struct {
	Pattern string // in the syntax of [http.ServeMux], with a method
	Access  Access
	Serve   func(*Visit)
	// Large lifts the limit of maxForm; the handler limits the body itself.
	Large bool
}

// maxForm is the maximum size of a form, in bytes.
const maxForm = 1 << 20

// Handler serves the routes, and a "not found" page for everything else.
func (h *Instance) Handler(routes []Route) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{name...}", serveAsset)
	for _, r := range routes {
		mux.HandleFunc(r.Pattern, h.serve(r))
	}
	mux.HandleFunc("/", h.serve(Route{Access: Anybody, Serve: (*Visit).NotFound}))
	h.mux = mux
	// Rejects forms that other sites submit with the cookies of this one (cross-site request
	// forgery).
	return withSecurityHeaders(http.NewCrossOriginProtection().Handler(mux))
}

// policy is the Content-Security-Policy: only resources of this server, no inline script or style.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self'; connect-src 'self'; frame-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// withSecurityHeaders sets the headers that all pages need.
func withSecurityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(self), microphone=(self), geolocation=()")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")   // for browsers that do not know frame-ancestors
		h.Set("Cache-Control", "no-store") // pages contain personal data
		next.ServeHTTP(w, r)
	})
}

// serve identifies the visitor and calls the route's handler, or redirects to the sign-in page.
func (h *Instance) serve(route Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !route.Large {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		}
		v := &Visit{Request: r, W: w, Instance: h}
		v.token = v.cookie(v.tokenCookie())
		who, err := h.Accounts.CheckSignIn(r.Context(), v.token, h.Address(r).String())
		if err == nil {
			v.Session = who
		}
		v.loadPreferences()
		if err != nil && !errors.Is(err, account.ErrSignedOut) {
			v.Fail(err)
			return
		}
		if h.authorize(v, route.Access) {
			route.Serve(v)
		}
	}
}

// authorize reports whether a visitor may open a page. If not, it has redirected the browser.
func (h *Instance) authorize(v *Visit, a Access) bool {
	if a == Anybody {
		return true
	}
	if !v.IsSignedIn() {
		v.redirectToSignIn()
		return false
	}
	if (a == Admins || a == AdminsConfirmed) && !v.IsAdmin() {
		v.Fail(problem.New(problem.Denied, msgAdminsOnly))
		return false
	}
	return a != Confirmed && a != AdminsConfirmed || v.RequireConfirmation(v.currentPath())
}

// currentPath returns the path of the page that the browser shows or is about to show.
func (v *Visit) currentPath() string {
	if v.Method == http.MethodGet && !v.IsPartial() {
		return v.URL.RequestURI()
	}
	if u, err := url.Parse(v.Referer()); err == nil && u.Path != "" && u.Path != "/confirm" {
		return u.RequestURI()
	}
	return "/"
}

// redirectToSignIn redirects to the sign-in page, which leads back here.
func (v *Visit) redirectToSignIn() {
	code, err := v.Instance.Accounts.SetupCode(v.Context())
	switch here := v.currentPath(); {
	case err != nil:
		v.Fail(err)
	case code != "":
		v.Redirect("/setup")
	case here != "/":
		v.Redirect("/signin?next=" + url.QueryEscape(here))
	default:
		v.Redirect("/signin")
	}
}

// LocalPath returns next if it is a path of this server, and a default path otherwise. It prevents
// open redirects.
func LocalPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") || strings.Contains(next, "\\") {
		return "/"
	}
	return next
}

// Zone returns the time zone of a person, or that of the server if the person has not set one.
func (h *Instance) Zone(p store.Person) *time.Location {
	if p.Zone == "" {
		return time.Local
	}
	if z, ok := h.zones.Load(p.Zone); ok {
		return z.(*time.Location)
	}
	zone, err := time.LoadLocation(p.Zone)
	if err != nil {
		return time.Local // the zone was valid when it was chosen
	}
	h.zones.Store(p.Zone, zone)
	return zone
}
