// Package oauth lets programs in by a person's consent: it is the OAuth 2.1 authorization server of
// this installation, for the MCP endpoints.
//
// A program says who it is (client.go), asks for consent in the person's browser (request.go), and
// exchanges the code that it gets for tokens, which it refreshes (token.go). What a consent makes
// is a key of the person, of which the tokens are secrets: rules, rates, the audit trail and
// revocation are those of keys. server.go has the HTTP endpoints; the page of consent is in
// console/consent.
//
// Comments cite RFC 6749 (OAuth 2.0), 7009 (revocation), 7591 (registration), 7636 (PKCE), 8252
// (native programs), 8414 and 9728 (metadata), 8707 (resources) and 9207 (issuers), and the pages
// "Authorization" of the MCP specification of 2026-07-28.
package oauth

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/netx"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	// accessLife is how long an access token is valid, and refreshIdle how long a refresh token is
	// if it is not used.
	accessLife  = time.Hour
	refreshIdle = 90 * 24 * time.Hour
	// refreshGrace is how long a used refresh token still returns the token that replaced it: some
	// programs lose what they were given, or have two processes that refresh at the same time.
	refreshGrace = 10 * time.Minute
	// RequestLife is how long a person may take to consent, and codeLife how long a code is valid.
	RequestLife = 10 * time.Minute
	codeLife    = time.Minute
	// maxBegun limits the requests for consent of one address in a minute: each is stored.
	maxBegun = 120
	// codeKept is how long a code that was exchanged is remembered, so that a second use is
	// noticed.
	codeKept = time.Hour
)

// Prefixes of tokens, which tell people and secret scanners what they are.
const (
	accessPrefix  = "pbo_"
	refreshPrefix = "pbr_"
)

// Options configure a [Service].
type Options struct {
	Store *store.DB
	Box   *seal.Box
	// PublicURL is the address under which others reach the server; empty if none is configured.
	PublicURL string
	// IsKnownHost reports whether a host belongs to this server.
	IsKnownHost func(hostport string) bool
	// IsListedHost reports whether the configuration names a host as one of this server's.
	IsListedHost func(hostport string) bool
	// IsProxy reports whether a request comes from a trusted proxy.
	IsProxy func(*http.Request) bool
	// Address returns the address of a request's client, and Guard counts its wrong secrets.
	Address func(*http.Request) netip.Addr
	Guard   *account.Guard
	Logger  *slog.Logger
	// Dial connects to public addresses only. It reads the documents of programs; nil refuses them.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Documents reads the documents instead of Dial. Tests set it, for documents of hosts that are
	// not theirs.
	Documents http.RoundTripper
	// Reused is called when a refresh token was used after the one that replaced it. The key is
	// revoked then.
	Reused func(context.Context, store.Key)
	// Revoked is called when a program has given up its key.
	Revoked func(context.Context, store.Key)
	// Registerer registers the metrics; nil means no metrics.
	Registerer prometheus.Registerer
	// AccessLife is the lifetime of access tokens; 0 means an hour. Tests set it.
	AccessLife time.Duration
	Now        func() time.Time // nil means time.Now
}

// Service is the authorization server. It is safe for concurrent use, and several instances may
// serve one installation.
type Service struct {
	Options
	documents *http.Client
	requests  *prometheus.CounterVec
	begun     *account.Guard // counts requests for consent, by address
	// maxClients is the constant; tests set it.
	maxClients int

	mu      sync.Mutex
	reading map[string]*documentRead // by host
}

// New returns a service.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.AccessLife == 0 {
		o.AccessLife = accessLife
	}
	for _, f := range []*func(context.Context, store.Key){&o.Reused, &o.Revoked} {
		if *f == nil {
			*f = func(context.Context, store.Key) {}
		}
	}
	o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	s := &Service{Options: o, reading: map[string]*documentRead{}, maxClients: maxClients}
	s.documents = newDocumentClient(o.Dial, o.Documents)
	s.begun = account.NewGuard(maxBegun, o.Now)
	s.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_oauth_requests_total",
		Help: "Requests of programs to the OAuth endpoints."}, []string{"endpoint", "outcome"})
	if o.Registerer != nil {
		o.Registerer.MustRegister(s.requests)
	}
	return s
}

// Paths of the endpoints.
const (
	AuthorizePath = "/oauth/authorize"
	TokenPath     = "/oauth/token" //nolint:gosec // not a credential
	RegisterPath  = "/oauth/register"
	RevokePath    = "/oauth/revoke"
)

// Resources of an installation, by path: the scope of the keys that open them.
var resources = map[string]string{
	"/mcp":         account.ScopeMCP,
	"/mcp/sse":     account.ScopeMCP,
	"/api/mcp":     account.ScopeLearn,
	"/api/mcp/sse": account.ScopeLearn,
}

// defaultResource is meant by requests that name none.
const defaultResource = "/mcp"

// ScopeOffline is the scope with which programs ask for refresh tokens, which they get anyway.
const ScopeOffline = "offline_access"

// Origin returns scheme and host under which a request reached the server, or the public address if
// its host is not known to be ours.
func (s *Service) Origin(r *http.Request) string {
	if u, err := url.Parse(s.PublicURL); err == nil && s.PublicURL != "" &&
		(strings.EqualFold(u.Host, r.Host) || !s.IsKnownHost(r.Host)) {
		return u.Scheme + "://" + u.Host
	}
	if !s.IsKnownHost(r.Host) {
		return ""
	}
	if r.TLS != nil || s.IsProxy(r) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return "https://" + strings.ToLower(r.Host)
	}
	return "http://" + strings.ToLower(r.Host)
}

// Issuer returns the identifier of the authorization server: the public address, or else the one
// under which it was reached.
func (s *Service) Issuer(r *http.Request) string {
	if s.PublicURL != "" {
		return s.PublicURL
	}
	return s.Origin(r)
}

// isOwnHost reports whether a resource at a host may be ours: it is the host of the request, a
// configured one, or one of the local network. Any address on the internet may be a stranger's
// server, which would get the token of a program that a person wants to connect with it.
func (s *Service) isOwnHost(r *http.Request, hostport string) bool {
	if strings.EqualFold(hostport, r.Host) || s.IsListedHost(hostport) {
		return s.IsKnownHost(hostport)
	}
	host := (&url.URL{Host: hostport}).Hostname()
	if a, err := netip.ParseAddr(host); err == nil && !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast() {
		return false
	}
	return s.IsKnownHost(hostport)
}

// OtherHost returns the host of a resource that only looks like one of this server, for the person
// to decide; empty if it is certainly ours.
func (s *Service) OtherHost(r *http.Request, resource string) string {
	u, err := url.Parse(resource)
	if err != nil || u.Host == "" || strings.EqualFold(u.Host, r.Host) || s.IsListedHost(u.Host) ||
		netx.IsLoopback(u.Hostname()) {
		return ""
	}
	return u.Host
}

// resourceScope returns the scope of a resource that a program names (RFC 8707); "" if it is none
// of ours.
func (s *Service) resourceScope(r *http.Request, resource string) string {
	if resource == "" {
		return resources[defaultResource]
	}
	u, err := url.Parse(resource)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" ||
		u.User != nil || !s.isOwnHost(r, u.Host) {
		return ""
	}
	path := strings.TrimSuffix(u.Path, "/")
	if path == "" { // the address of the whole server
		path = defaultResource
	}
	return resources[path]
}

// newSecret returns 256 random bits with a prefix.
func newSecret(prefix string) string { return prefix + seal.NewToken(32) }
