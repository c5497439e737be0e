package observe_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/observe"
)

func TestAddresses(t *testing.T) {
	a := observe.Addresses{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("10.0.0.0/8")}}
	for _, c := range []struct{ name, socket, forwarded, want string }{
		{"direct", "192.0.2.1:99", "", "192.0.2.1"},
		{"a stranger's header is not believed", "192.0.2.1:99", "198.51.100.7", "192.0.2.1"},
		{"behind a proxy", "127.0.0.1:99", "198.51.100.7", "198.51.100.7"},
		{"behind two", "127.0.0.1:99", "198.51.100.7, 10.1.1.1", "198.51.100.7"},
		{"what the client wrote itself", "127.0.0.1:99", "1.2.3.4, 198.51.100.7", "198.51.100.7"},
		{"rubbish", "127.0.0.1:99", "unknown", "127.0.0.1"},
		{"mapped", "[::ffff:192.0.2.1]:99", "", "192.0.2.1"},
		{"IPv6", "127.0.0.1:99", "2001:db8::1", "2001:db8::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = c.socket
			if c.forwarded != "" {
				r.Header.Set("X-Forwarded-For", c.forwarded)
			}
			if got := a.ClientAddress(r).String(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestRequests checks that a panic is logged with its cause, and that the response contains only
// the request id.
func TestRequests(t *testing.T) {
	var logs bytes.Buffer
	mux := http.NewServeMux()
	mux.HandleFunc("GET /boom", func(http.ResponseWriter, *http.Request) { panic("the secret of the house") })
	mux.HandleFunc("GET /fine", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "fine") })
	reg := prometheus.NewRegistry()
	s := httptest.NewServer(observe.HandleRequests(observe.NewLogger(&logs, "debug", "json"), reg, mux))
	defer s.Close()
	res, err := http.Get(s.URL + "/boom?key=xyzzy")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	id := res.Header.Get("X-Request-Id")
	if res.StatusCode != 500 || strings.Contains(string(body), "secret") || !strings.Contains(string(body), id) {
		t.Errorf("%d %q", res.StatusCode, body)
	}
	res, err = http.Get(s.URL + "/fine?key=xyzzy")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res, err = http.Get(s.URL + "/j/xyzzy"); err != nil { // not a path that matches, but one that may be logged
		t.Fatal(err)
	}
	res.Body.Close()
	text := logs.String()
	if !strings.Contains(text, "the secret of the house") || !strings.Contains(text, id) ||
		strings.Contains(text, "xyzzy") {
		t.Errorf("the log: %s", text)
	}
	families, err := reg.Gather()
	if err != nil || len(families) != 1 || len(families[0].Metric) != 3 {
		t.Errorf("metrics: %v %v", families, err)
	}
}
