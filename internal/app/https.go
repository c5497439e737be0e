package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/bus"
	"patchbay/internal/certs"
	"patchbay/internal/check"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/observe"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/plug/xiaozhi"
)

// identityTLS is where the certificate of this server comes from: files, or an authority. It is nil
// if the server speaks http.
type identityTLS interface {
	// TLSConfig returns a configuration that always has the latest certificate. The caller may
	// change it.
	TLSConfig() *tls.Config
	// Leaf returns that certificate, or nil if there is none yet.
	Leaf() *x509.Certificate
}

// newIdentity returns where the certificate comes from. The manager is nil unless it, or that of a
// name at a relay, comes from an authority. With a relay alone, the server speaks http in its own
// network.
func newIdentity(b *Base, messages *bus.Bus, log *slog.Logger, reg prometheus.Registerer,
	event func(ctx context.Context, event, name string)) (identityTLS, *certs.Manager, error) {
	c := b.Config
	if c.TLS.Cert != "" {
		files, err := certs.OpenFiles(c.TLS.Cert, c.TLS.Key, log)
		if err != nil {
			return nil, nil, fmt.Errorf("tls.cert: %w", err)
		}
		return files, nil, nil
	}
	h, atRelay := c.HTTPS, len(c.Relay.Servers) > 0
	if len(h.Names) == 0 && !atRelay {
		return nil, nil, nil
	}
	o := certs.Options{Names: h.Names, Directory: h.Directory, Email: h.Email, KeyID: h.EABKeyID, HMAC: h.EABKey,
		Profile: h.Profile, Chain: h.Chain, DNSCommand: h.DNSCommand, DNSWait: h.DNSWait,
		Challenges: certs.Challenges(h.Challenge, len(h.DNSCommand) > 0, h.Redirect != "" && len(h.Names) > 0),
		Store:      b.Store.Certificates, Box: b.Box, Event: event, Logger: log, Registerer: reg, Version: b.Version}
	if h.CA != "" {
		var err error
		if o.CA, err = os.ReadFile(h.CA); err != nil {
			return nil, nil, fmt.Errorf("https.ca: %w", err)
		}
	}
	if !messages.IsStandalone() {
		o.Acquire, o.Release = leases{b.Store.Leases, messages.Instance}.named("certificates")
	}
	m, err := certs.New(o)
	if err != nil || len(h.Names) == 0 {
		return nil, m, err
	}
	return m, m, nil
}

// listenRedirect opens the port that leads from http to https, or returns nil if there is none.
func listenRedirect(c *config.Config) (net.Listener, error) {
	if len(c.HTTPS.Names) == 0 || c.HTTPS.Redirect == "" {
		return nil, nil
	}
	return listen(c.HTTPS.Redirect, "--https-redirect")
}

// ownFingerprint returns the fingerprint of the server's certificate; empty if there is none.
func ownFingerprint(own identityTLS) string {
	if own == nil || own.Leaf() == nil {
		return ""
	}
	return wire.Fingerprint(own.Leaf().Raw)
}

// selfSignedFingerprint is ownFingerprint for a certificate that is its own issuer, of a server
// that is reached without a proxy. Others change with each renewal, and clients trust them by their
// issuer.
func selfSignedFingerprint(c *config.Config, own identityTLS) string {
	if own == nil || c.PublicURL != "" {
		return ""
	}
	leaf := own.Leaf()
	if leaf == nil || !bytes.Equal(leaf.RawIssuer, leaf.RawSubject) {
		return ""
	}
	return wire.Fingerprint(leaf.Raw)
}

// fileFingerprint returns the fingerprint of the certificate in the configured files; empty if
// there is none.
func fileFingerprint(c *config.Config) string {
	if c.TLS.Cert == "" {
		return ""
	}
	files, err := certs.OpenFiles(c.TLS.Cert, c.TLS.Key, slog.New(slog.DiscardHandler))
	if err != nil {
		return ""
	}
	return ownFingerprint(files)
}

// newServer returns a server of HTTP requests from anywhere.
func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: observe.BodyGrace,
		ReadTimeout:       observe.BodyGrace, // until the handler has begun, see observe.HandleRequests
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		// TLS errors and incomplete requests of clients
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// serveHTTP serves until the server is shut down.
func serveHTTP(s *http.Server, l net.Listener, own identityTLS) error {
	var err error
	if own != nil {
		s.TLSConfig = own.TLSConfig()
		err = s.ServeTLS(l, "", "")
	} else {
		err = s.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

const (
	msgOrdering  = i18n.Message("%s has no certificate yet; it is being ordered. Look again in a minute.")
	msgNoneYet   = i18n.Message("%[1]s has no certificate yet, and the last attempt failed: %[2]s. The next one is at %[3]s.")
	msgNotListed = i18n.Message("This server is not reached under this name: see https.names.")
)

// redirector answers on the port for http: challenges of the authority, health checks and boards,
// which follow no redirect, and everybody else with the address by https.
type redirector struct {
	certs  *certs.Manager
	names  []string
	public *url.URL
	next   http.Handler // the whole server
}

// newRedirects returns the server of the port for http. Next is the handler of the whole server.
func newRedirects(m *certs.Manager, c *config.Config, next http.Handler, log *slog.Logger) (*http.Server, error) {
	public, err := url.Parse(c.PublicURL)
	if err != nil {
		return nil, err
	}
	return newServer(&redirector{m, c.HTTPS.Names, public, next}, log), nil
}

// ServeHTTP implements [http.Handler].
func (d *redirector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, certs.ChallengePath):
		d.certs.ServeHTTP(w, r)
	case path == "/healthz", path == "/readyz", strings.HasPrefix(path+"/", xiaozhi.OTAPath):
		d.next.ServeHTTP(w, r)
	default:
		d.redirect(w, r)
	}
}

// redirect leads to the same address by https, if that has a certificate. A name that is not ours
// leads to the public address, so that nobody can make links to elsewhere.
func (d *redirector) redirect(w http.ResponseWriter, r *http.Request) {
	host := strings.ToLower(r.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	target := *r.URL
	target.Scheme, target.Host = "https", host
	if !slices.Contains(d.names, host) || host == d.public.Hostname() {
		if d.public.Scheme != "https" {
			http.Error(w, msgNotListed.In(langOf(r)), http.StatusNotFound)
			return
		}
		target.Host = d.public.Host
	}
	if name := target.Hostname(); slices.Contains(d.names, name) && !d.certs.Ready(name) {
		w.Header().Set("Retry-After", "30")
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, d.state(name, langOf(r)), http.StatusServiceUnavailable)
		return
	}
	// 308 keeps method and body (RFC 9110 §15.4.9).
	http.Redirect(w, r, target.String(), http.StatusPermanentRedirect)
}

// state says why a name has no certificate.
func (d *redirector) state(name string, lang i18n.Lang) string {
	for _, s := range d.certs.Status() {
		if s.Name == name && !s.Problem.IsZero() {
			return msgNoneYet.In(lang, name, s.Problem, check.Time(s.Retry))
		}
	}
	return msgOrdering.In(lang, name)
}

// certificateStates returns what tells the control service about automatic certificates; nil if
// there are none.
func certificateStates(m *certs.Manager) func() []control.ServerCertificate {
	if m == nil {
		return nil
	}
	return func() (out []control.ServerCertificate) {
		for _, s := range m.Status() {
			out = append(out, control.ServerCertificate{Name: s.Name, Expires: s.Expires, Renews: s.Renews,
				Issuer: s.Issuer, Root: s.Root, Failures: s.Failures, Reason: s.Problem, Retry: s.Retry})
		}
		return out
	}
}

// certificateEvents maps the events of certificates to admin events.
var certificateEvents = map[string]string{certs.Issued: control.EventCertificateIssued,
	certs.Renewed: control.EventCertificateRenewed, certs.Failed: control.EventCertificateFailed}

// onlyHTTPS tells browsers to use https only (RFC 6797) if the public address is https.
func onlyHTTPS(c *config.Config, next http.Handler) http.Handler {
	if !byHTTPS(c) || c.HTTPS.HSTS == 0 {
		return next
	}
	value := "max-age=" + strconv.Itoa(int(c.HTTPS.HSTS.Seconds()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", value) // browsers ignore it over http
		next.ServeHTTP(w, r)
	})
}
