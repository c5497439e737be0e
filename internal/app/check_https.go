package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"patchbay/internal/certs"
	"patchbay/internal/check"
	"patchbay/internal/i18n"
)

const (
	msgCheckHTTPS = i18n.Message("https for %s")
	msgCheckName  = i18n.Message("DNS of %s")

	msgHTTPSNone     = i18n.Message("there is no certificate yet")
	msgHTTPSFailed   = i18n.Message("%[1]s; failed attempts: %[2]d, the next one is at %[3]s")
	msgHTTPSLate     = i18n.Message("expires on %s and was not renewed in time")
	msgHTTPSUntil    = i18n.Message("is good until %[1]s and is renewed on %[2]s; issued by %[3]s, root %[4]s")
	msgNameMissing   = i18n.Message("does not resolve: %s")
	msgNamePrivate   = i18n.Message("leads to %s, which cannot be reached from the internet")
	msgNameHere      = i18n.Message("leads to this machine (%s)")
	msgNameRouter    = i18n.Message("leads to %s, which is not an address of this machine: its router has to forward the ports, or this is another machine")
	msgOutsideAway   = i18n.Message("cannot be reached from this machine: %s")
	msgOutsideBad    = i18n.Message("the certificate there is not trusted: %s")
	msgOutsideOther  = i18n.Message("shows another certificate than the one of this installation")
	msgOutsideGood   = i18n.Message("answers with the certificate of this installation, good until %s, as seen from this machine and not from the internet")
	msgPlainAway     = i18n.Message("does not answer on port 80: %s")
	msgPlainElse     = i18n.Message("does not lead to https: %s")
	msgPlainGood     = i18n.Message("leads to https, as seen from this machine and not from the internet")
	adviceHTTPSOrder = i18n.Message("The running server orders it. If that takes more than a few minutes, see its log.")
	adviceHTTPSFail  = i18n.Message("The server tries again by itself; after a change, restart it to try at once.")
	adviceNameDNS    = i18n.Message("Make an A record, and an AAAA record if there is IPv6, with the public address of this network.")
	advicePlain      = i18n.Message("Forward port 80 to https.redirect, or prove the name by tls-alpn-01 or dns-01 (https.challenge).")
	adviceOutside443 = i18n.Message("Forward port 443 to listen. Some routers do not lead back in: try it from outside, such as by a phone without Wi-Fi.")
)

// httpsCheck checks automatic certificates as somebody outside would see them, as far as that can
// be done from inside.
type httpsCheck struct {
	*check.Report
	running bool // a server runs on the data
	plain   bool // it should lead from http to https
	public  string
	roots   *x509.CertPool // nil means the system's
	now     time.Time
	lookup  func(ctx context.Context, network, host string) ([]netip.Addr, error)
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// checkHTTPS checks the certificates that the server gets by itself.
func (e *examination) checkHTTPS(ctx context.Context) {
	c := e.settings
	if len(c.HTTPS.Names) == 0 {
		return
	}
	states, err := certs.Stored(ctx, e.base.Store.Certificates, c.HTTPS.Names)
	if err != nil {
		e.Error(msgCheckHTTPS.With(c.HTTPS.Names[0]), err, check.AdviceLog.With())
		return
	}
	h := httpsCheck{Report: e.Report, running: e.isRunning(), plain: c.HTTPS.Redirect != "", public: c.PublicURL,
		now: time.Now(), lookup: net.DefaultResolver.LookupNetIP,
		dial: (&net.Dialer{Timeout: probeTimeout}).DialContext}
	if pem, err := os.ReadFile(c.HTTPS.CA); err == nil {
		// An authority of the own network has usually issued its own certificate too.
		if h.roots, err = x509.SystemCertPool(); err != nil {
			h.roots = x509.NewCertPool()
		}
		h.roots.AppendCertsFromPEM(pem)
	}
	for _, s := range states {
		h.check(ctx, s)
	}
}

func (h *httpsCheck) check(ctx context.Context, s certs.Status) {
	h.stored(s)
	if !h.resolves(ctx, s.Name) || !h.running {
		return
	}
	if !s.Expires.IsZero() {
		h.outside(ctx, s)
	}
	if h.plain {
		h.redirects(ctx, s)
	}
}

// stored checks what the database has.
func (h *httpsCheck) stored(s certs.Status) {
	name := msgCheckHTTPS.With(s.Name)
	failed := msgHTTPSFailed.With(s.Problem, s.Failures, check.Time(s.Retry))
	late := s.Renews.Add(s.Expires.Sub(s.Renews) / 2)
	switch {
	case s.Expires.IsZero() && s.Failures > 0, s.Failures > 0 && h.now.After(late):
		h.Fail(name, failed, adviceHTTPSFail.With())
	case s.Expires.IsZero():
		h.Warn(name, msgHTTPSNone.With(), adviceHTTPSOrder.With())
	case s.Failures > 0:
		h.Warn(name, failed, adviceHTTPSFail.With())
	case h.now.After(s.Expires):
		h.Fail(name, msgCertExpired.With(check.Time(s.Expires)), check.AdviceServe.With(h.Flags))
	case h.now.After(late):
		h.Warn(name, msgHTTPSLate.With(check.Time(s.Expires)), check.AdviceServe.With(h.Flags))
	default:
		h.OK(name, msgHTTPSUntil.With(check.Time(s.Expires), check.Time(s.Renews), s.Issuer, s.Root))
	}
}

// resolves checks where a name leads to.
func (h *httpsCheck) resolves(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	name := msgCheckName.With(host)
	found, err := h.lookup(ctx, "ip", host)
	if err != nil || len(found) == 0 {
		h.Fail(name, msgNameMissing.With(h.Explained(err)), adviceNameDNS.With())
		return false
	}
	texts, public, here := make([]string, len(found)), false, false
	own, _ := net.InterfaceAddrs() // without them it is said to be a router's
	for i, a := range found {
		a = a.Unmap()
		texts[i] = a.String()
		public = public || !isPrivate(a.String())
		here = here || a.IsLoopback() || slices.ContainsFunc(own, func(o net.Addr) bool {
			p, err := netip.ParsePrefix(o.String())
			return err == nil && p.Addr().Unmap() == a
		})
	}
	list := strings.Join(texts, ", ")
	switch {
	case !public:
		h.Warn(name, msgNamePrivate.With(list), adviceNameDNS.With())
	case here:
		h.OK(name, msgNameHere.With(list))
	default:
		h.OK(name, msgNameRouter.With(list))
	}
	return true
}

// outside connects to a name as clients do.
func (h *httpsCheck) outside(ctx context.Context, s certs.Status) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	name, port := check.Verbatim("https://"+s.Name), "443"
	if u, err := url.Parse(h.public); err == nil && u.Hostname() == s.Name && u.Port() != "" {
		port = u.Port()
	}
	raw, err := h.dial(ctx, "tcp", net.JoinHostPort(s.Name, port))
	if err != nil {
		h.Warn(name, msgOutsideAway.With(h.Explained(err)), adviceOutside443.With())
		return
	}
	conn := tls.Client(raw, &tls.Config{ServerName: s.Name, RootCAs: h.roots, MinVersion: tls.VersionTLS12})
	defer conn.Close()
	err = conn.HandshakeContext(ctx)
	if _, bad := errors.AsType[*tls.CertificateVerificationError](err); bad {
		h.Fail(name, msgOutsideBad.With(h.Explained(err)), check.AdviceLog.With())
		return
	}
	if err != nil {
		h.Warn(name, msgOutsideAway.With(h.Explained(err)), adviceOutside443.With())
		return
	}
	leaf := conn.ConnectionState().PeerCertificates[0]
	if !leaf.NotAfter.Equal(s.Expires) || !leaf.NotBefore.Equal(s.Issued) {
		h.Warn(name, msgOutsideOther.With(), adviceOutside443.With())
		return
	}
	h.OK(name, msgOutsideGood.With(check.Time(leaf.NotAfter)))
}

// redirects checks that http leads to https.
func (h *httpsCheck) redirects(ctx context.Context, s certs.Status) {
	name := check.Verbatim("http://" + s.Name)
	client := &http.Client{Timeout: probeTimeout,
		Transport:     &http.Transport{DialContext: h.dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Name+"/", nil)
	if err != nil {
		h.Error(name, err, advicePlain.With())
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		h.Warn(name, msgPlainAway.With(h.Explained(err)), advicePlain.With())
		return
	}
	defer resp.Body.Close()
	if s.Expires.IsZero() && resp.StatusCode == http.StatusServiceUnavailable {
		return // the missing certificate is reported already
	}
	if resp.StatusCode != http.StatusPermanentRedirect || !strings.HasPrefix(resp.Header.Get("Location"), "https://") {
		h.Warn(name, msgPlainElse.With(resp.Status), advicePlain.With())
		return
	}
	h.OK(name, msgPlainGood.With())
}
