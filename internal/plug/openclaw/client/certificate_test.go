package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

// tlsServer is an HTTPS server; its certificate is that of httptest, for 127.0.0.1 and example.com.
func tlsServer(t *testing.T) (s *httptest.Server, roots *x509.CertPool, fingerprint string) {
	t.Helper()
	s = httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused handshakes
	s.StartTLS()
	t.Cleanup(s.Close)
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, roots, wire.Fingerprint(s.Certificate().Raw)
}

// A certificate is accepted if an authority has issued it for the address, or if it is pinned.
func TestCertificates(t *testing.T) {
	s, roots, own := tlsServer(t)
	address := "wss" + strings.TrimPrefix(s.URL, "https")
	other := wire.Fingerprint([]byte("another"))
	for name, c := range map[string]struct {
		address, pin string
		roots        *x509.CertPool
		want         Problem
	}{
		"by an authority":            {address, "", roots, ""},
		"by nobody":                  {address, "", x509.NewCertPool(), Untrusted},
		"for another name":           {strings.Replace(address, "127.0.0.1", "127.0.0.2", 1), "", roots, Untrusted},
		"pinned":                     {address, own, x509.NewCertPool(), ""},
		"pinned, for another name":   {strings.Replace(address, "127.0.0.1", "127.0.0.2", 1), own, roots, ""},
		"another than the pinned":    {address, other, x509.NewCertPool(), Changed},
		"another, by an authority":   {address, other, roots, Changed},
		"a pin that is none of ours": {address, "x", roots, Changed},
	} {
		conn, err := tls.Dial("tcp", s.Listener.Addr().String(), tlsConfig(c.address, c.pin, c.roots))
		if err == nil {
			conn.Close()
		}
		e, ok := errors.AsType[*ConnectionError](err)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (!ok || e.Problem != c.want || !e.Lasting() || e.Certificate == nil ||
			*e.Certificate != Certificate{own, c.pin} || !strings.Contains(e.Error(), own) ||
			!strings.Contains(e.Error(), c.pin)):
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// What goes wrong with a certificate stays what it is through the layers of HTTP.
func TestCertificateOfAnAttempt(t *testing.T) {
	s, roots, own := tlsServer(t)
	o := Options{URL: "wss" + strings.TrimPrefix(s.URL, "https")}
	for want, change := range map[Problem]func(){
		Untrusted: func() {},
		Changed:   func() { o.Pin = strings.Repeat("0", 64) },
		NoGateway: func() { o.Pin = own }, // it is one, but speaks no WebSocket
	} {
		o.Pin = ""
		change()
		_, err := Connect(t.Context(), &o)
		if e, ok := errors.AsType[*ConnectionError](err); !ok || e.Problem != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	o.Pin, o.roots = "", roots
	if _, err := Connect(t.Context(), &o); err == nil || err.(*ConnectionError).Problem != NoGateway {
		t.Errorf("by an authority: %v", err)
	}
	err := Probe(t.Context(), o.URL, "", nil)
	if e, ok := errors.AsType[*ConnectionError](err); !ok || e.Problem != Untrusted || e.Certificate.Shown != own {
		t.Errorf("a probe says %v", err)
	}
	if err := Probe(t.Context(), o.URL, own, nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a pinned probe says %v", err)
	}
}

// People are told what is wrong with a certificate.
func TestUntrusted(t *testing.T) {
	for want, err := range map[i18n.Message]error{
		msgOtherName: x509.HostnameError{}, msgUntrusted: x509.UnknownAuthorityError{},
		msgOutOfDate: fmt.Errorf("verify: %w", x509.CertificateInvalidError{Reason: x509.Expired}),
	} {
		if got := untrusted(err); got != want {
			t.Errorf("%T: %s", err, got)
		}
	}
}

func TestParsePin(t *testing.T) {
	own := wire.Fingerprint([]byte("a certificate"))
	for setting, want := range map[string]string{"": "", " ": "", own: own, "SHA256:" + strings.ToUpper(own): own} {
		if got, err := ParsePin(setting, "wss://h"); err != nil || got != want {
			t.Errorf("%q is %q, %v", setting, got, err)
		}
	}
	if _, err := ParsePin("3f8a", "wss://h"); err == nil || !strings.Contains(err.Error(), "tls_fingerprint") {
		t.Errorf("%v", err)
	}
}
