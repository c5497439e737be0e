// Package certs has the certificates with which the server serves https: those that it gets by
// itself from a certificate authority (ACME, RFC 8555), and those in files.
//
// A [Manager] keeps the certificates, the account and the answers to challenges in the database, so
// that every instance serves them and can answer for an order of any other. Only one instance
// orders at a time. All private keys are sealed there. That of a certificate is stored before it is
// ordered, and what was issued while the database failed is served from memory until it is stored,
// so that nothing is ordered twice.
//
// The ACME client is golang.org/x/crypto/acme, which adds 0.2 MB to the program; certmagic adds
// 2.1.
package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/acme"

	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// LetsEncrypt is the directory of Let's Encrypt.
const LetsEncrypt = acme.LetsEncryptURL

// Kinds of challenges (RFC 8555 §8, RFC 8737).
const (
	HTTP01    = "http-01"
	TLSALPN01 = "tls-alpn-01"
	DNS01     = "dns-01"
)

// Events of [Options].Event.
const (
	Issued  = "issued"
	Renewed = "renewed"
	Failed  = "failed" // once for each problem, not for each attempt
)

// Options are the options of a [Manager].
type Options struct {
	// Names are the names to have certificates for, the most important first. [Manager.Add] adds
	// further ones.
	Names []string
	// Directory is the address of the authority's directory. CA are certificates, as PEM, that are
	// trusted beside the system's when the authority is called; it may be empty.
	Directory string
	CA        []byte
	// Email is where the authority may send warnings; it may be empty.
	Email string
	// KeyID and HMAC bind the account to one that exists at the authority (RFC 8555 §7.3.4). HMAC
	// is base64url. Both may be empty.
	KeyID, HMAC string
	// Profile is the profile of certificates that is ordered; empty means the authority's default.
	Profile string
	// Chain is the common name of the root that the chain should end at, if the authority offers
	// several; empty means the authority's choice.
	Chain string
	// Challenges are the kinds of challenges to use. After a failure the next one is tried.
	Challenges []string
	// DNSCommand is the program that adds and removes TXT records, and its arguments. DNSWait is
	// how long records take until the authority can see them.
	DNSCommand []string
	DNSWait    time.Duration

	Store store.Certificates
	Box   *seal.Box
	// Acquire takes or renews the right to order, for a duration, and reports false while another
	// instance has it. Release gives it back. Both are nil if there is only one instance.
	Acquire func(context.Context, time.Duration) (bool, error)
	Release func(context.Context) error
	// Event is called after a certificate was issued, or an order failed. It may be nil.
	Event      func(ctx context.Context, event, name string)
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Version    string // of the program
	// Times are for tests; the zero value means [DefaultTimes].
	Times Times
}

// Times has the durations of a [Manager].
type Times struct {
	// Look is the interval of looking for certificates of other instances and for what is due, and
	// Soon the interval while a certificate is missing.
	Look, Soon time.Duration
	// Lease is how long the right to order lasts unless it is renewed.
	Lease time.Duration
	// Other is the delay of the first attempt with another kind of challenge. Retry is the first
	// delay before the same is tried again; it doubles up to MaxRetry. Let's Encrypt allows five
	// failures of a name in an hour.
	Other, Retry, MaxRetry time.Duration
	// ARI is the interval of asking the authority when to renew.
	ARI time.Duration
	// Order limits an order, without the wait for DNS.
	Order time.Duration
}

// DefaultTimes are the times outside of tests.
var DefaultTimes = Times{Look: 20 * time.Second, Soon: 3 * time.Second, Lease: time.Minute, Other: 10 * time.Second,
	Retry: 2 * time.Minute, MaxRetry: 6 * time.Hour, ARI: 6 * time.Hour, Order: 5 * time.Minute}

// Manager gets certificates and renews them. It is safe for concurrent use.
type Manager struct {
	Options
	http    *http.Client
	eab     *acme.ExternalAccountBinding
	others  *lookup // of the answers to challenges of other instances
	wake    chan struct{}
	results *prometheus.CounterVec
	self    func() (*tls.Certificate, error) // self-signed, see [Manager.certificate]

	// Only Run uses these.
	client  *acme.Client // of the account; nil: not opened yet
	askedAt map[string]time.Time
	unsaved map[string]unsaved           // certificates that are served, and not stored yet
	failure map[string]store.Certificate // attempts that could not be stored

	mu      sync.Mutex
	names   []string
	current map[string]*held
	answers []store.ACMEChallenge        // to challenges of this instance's order
	rows    map[string]store.Certificate // as last read
	started time.Time                    // of Run
}

// unsaved is a certificate that was issued and could not be stored, such as while the disk is full.
type unsaved struct {
	row   store.Certificate
	event string // for Options.Event, once it is stored
}

// held is a certificate in memory.
type held struct {
	sealed string // by which a change is noticed
	tls    *tls.Certificate
}

// New returns a manager, or an error if an option is invalid. [Manager.Run] has to be called.
func New(o Options) (*Manager, error) {
	if o.Times == (Times{}) {
		o.Times = DefaultTimes
	}
	m := &Manager{Options: o, wake: make(chan struct{}, 1),
		self: sync.OnceValues(selfSigned), askedAt: map[string]time.Time{}, unsaved: map[string]unsaved{},
		failure: map[string]store.Certificate{}, current: map[string]*held{}, rows: map[string]store.Certificate{}}
	m.others = &lookup{read: func(ctx context.Context) ([]store.ACMEChallenge, error) {
		return m.Store.OpenChallenges(ctx, time.Now())
	}}
	for _, name := range o.Names {
		m.Add(name)
	}
	if o.KeyID != "" {
		// Authorities show the key in base64url (RFC 8555 §7.3.4), some with padding.
		key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(o.HMAC, "="))
		if err != nil {
			return nil, errors.New("https.eab_key is no base64url")
		}
		m.eab = &acme.ExternalAccountBinding{KID: o.KeyID, Key: key}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if len(o.CA) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // a machine without any
		}
		if !pool.AppendCertsFromPEM(o.CA) {
			return nil, errors.New("https.ca has no certificate")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	const timeout = 30 * time.Second // of one request
	m.http = &http.Client{Transport: transport, Timeout: timeout}
	m.register(o.Registerer)
	return m, nil
}

// normal returns a name in the form in which it is stored.
func normal(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// Add adds a name to have a certificate for. It may be called at any time.
func (m *Manager) Add(name string) {
	name = normal(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == "" || slices.Contains(m.names, name) {
		return
	}
	m.names = append(m.names, name)
	select {
	case m.wake <- struct{}{}:
	default: // Run looks anyway
	}
}

// Names returns all names, the first first.
func (m *Manager) Names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.names)
}

// TLSConfig returns the configuration of a TLS server with the certificates of all names, as they
// are at the time of each connection. It also answers TLS-ALPN-01 challenges, so that connections
// of any listener may be served with it. The caller may change it.
func (m *Manager) TLSConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: m.certificate,
		NextProtos: []string{"h2", "http/1.1", acme.ALPNProto}}
}

// errNoCertificate means that a name has no certificate yet.
var errNoCertificate = errors.New("there is no certificate for this name yet")

// certificate returns the certificate for a connection. A client that asks for no name of ours,
// such as the command line on this machine, gets the first certificate, or a self-signed one.
func (m *Manager) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := normal(hello.ServerName)
	if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) { // RFC 8737 §3
		return m.challengeCertificate(hello.Context(), name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.current[name]; c != nil {
		return c.tls, nil
	}
	if slices.Contains(m.names, name) {
		return nil, errNoCertificate
	}
	for _, name := range m.names {
		if c := m.current[name]; c != nil {
			return c.tls, nil
		}
	}
	return m.self()
}

// Leaf returns the certificate of the first name that has one, or nil.
func (m *Manager) Leaf() *x509.Certificate {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range m.names {
		if c := m.current[name]; c != nil {
			return c.tls.Leaf
		}
	}
	return nil
}

// Ready reports whether a name has a certificate.
func (m *Manager) Ready(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current[normal(name)] != nil
}
