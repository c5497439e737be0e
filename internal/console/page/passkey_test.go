package page

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/control"
)

// Passkeys are for the public address with a name, and for this machine; what a request claims
// about the address changes nothing.
func TestPasskeySite(t *testing.T) {
	for _, c := range []struct {
		public, host string
		secure       bool
		want         account.Site
	}{
		{"https://Home.example", "home.example", false, account.Site{Host: "home.example", Origin: "https://home.example"}},
		{"https://home.example:8443/", "HOME.example:8443", true,
			account.Site{Host: "home.example", Origin: "https://home.example:8443"}},
		{"", "localhost:8420", false, account.Site{Host: "localhost", Origin: "http://localhost:8420"}},
		{"https://home.example", "localhost", true, account.Site{Host: "localhost", Origin: "https://localhost"}},
		{"https://home.example", "evil.example", true, account.Site{}},
		{"https://home.example", "home.example:8443", true, account.Site{}},
		{"", "home.example", true, account.Site{}},
		{"http://home.example", "home.example", false, account.Site{}},
		{"https://192.0.2.7", "192.0.2.7", true, account.Site{}},
		{"https://[2001:db8::1]:8443", "[2001:db8::1]:8443", true, account.Site{}},
		{"", "127.0.0.1:8420", false, account.Site{}},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = c.host
		r.Header.Set("X-Forwarded-Proto", "https")
		r.Header.Set("X-Forwarded-Host", "evil.example")
		if c.secure {
			r.TLS = &tls.ConnectionState{}
		}
		v := &Visit{Request: r, Instance: &Instance{Control: control.New(control.Options{PublicURL: c.public})}}
		if site, ok := v.PasskeySite(); site != c.want || ok != (c.want != account.Site{}) {
			t.Errorf("%s at %s: %+v, %t", c.host, c.public, site, ok)
		}
	}
}
