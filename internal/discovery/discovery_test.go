package discovery

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/pion/mdns/v2"
)

// place returns the address of a server that answers with handler.
func place(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestModels(t *testing.T) {
	text := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.WriteHeader(status)
			w.Write([]byte(body)) //nolint:errcheck // the client may be gone
		}
	}
	good := place(t, text(200, `{"object":"list","data":[{"id":"qwen3:8b"},{"id":" a\u0007b "},{"id":""}]}`))
	empty := place(t, text(200, `{"object":"list","data":null}`)) // Ollama without models
	page := place(t, text(200, `<html>a web page</html>`))
	other := place(t, text(200, `{"models":[]}`))
	refuses := place(t, text(401, `{"object":"list","data":[]}`))
	elsewhere := place(t, http.RedirectHandler("http://"+good+"/v1/models", http.StatusFound).ServeHTTP)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	nobody := l.Addr().String()
	got := Models(t.Context(), []string{page, good, nobody, other, refuses, elsewhere, empty})
	want := []ModelServer{{Name: good, BaseURL: "http://" + good + "/v1", Models: []string{"qwen3:8b", "ab"}},
		{Name: empty, BaseURL: "http://" + empty + "/v1"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A server that never answers costs a moment, and ends with its caller.
func TestModelsOfASilentServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent := place(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if got := Models(ctx, []string{silent}); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestGateways(t *testing.T) {
	first := func(frame string) string {
		return place(t, func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer c.CloseNow()                                         //nolint:errcheck // the test is over
			c.Write(r.Context(), websocket.MessageText, []byte(frame)) //nolint:errcheck // the client may be gone
			c.Read(context.WithoutCancel(r.Context()))                 //nolint:errcheck // until the client leaves
		})
	}
	gateway := first(`{"type":"event","event":"connect.challenge","payload":{"nonce":"n","ts":1}}`)
	other := first(`{"type":"welcome"}`)
	page := place(t, func(http.ResponseWriter, *http.Request) {})
	got := Gateways(t.Context(), []string{other, page, gateway})
	if d := cmp.Diff([]string{"ws://" + gateway}, got); d != "" {
		t.Error(d)
	}
}

// What is announced is found by its name and by its service, and is gone when the announcement has
// ended. A second server with the name gets a number only if it is another host's.
func TestAnnounceAndBrowse(t *testing.T) {
	network := []mdns.ServerOption{mdns.WithIncludeLoopback(true)}
	if c, err := openNetwork(network...); err != nil {
		t.Skip("this machine has no network for multicast: ", err)
	} else if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	announced, ended := make(chan string, 2), make(chan struct{})
	go func() {
		defer close(ended)
		Announce(ctx, Announcement{Name: "patchbay-test", Port: 3210, Log: slog.New(slog.DiscardHandler),
			Changed: func(host string) { announced <- host }, network: network})
	}()
	if host := <-announced; host != "patchbay-test.local" {
		t.Errorf("it is announced as %q", host)
	}
	c, err := openNetwork(network...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // nothing was announced
	asking, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if _, from, err := c.QueryAddr(asking, "patchbay-test.local"); err != nil || !IsOwn(from.String()) {
		t.Errorf("the name leads to %v, %v", from, err)
	}
	found := func() (s Service, ok bool) {
		list, err := browse(t.Context(), netip.Addr.IsValid, []string{serviceHTTP}, network...)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if s.Name == "Patchbay (patchbay-test)" && strings.HasSuffix(s.Address, ":3210") {
				return s, true
			}
		}
		return s, false
	}
	for try := 0; ; try++ { // a packet may be lost
		s, ok := found()
		if ok {
			if s.Text["path"] != "/" || s.Text["scheme"] != "http" || s.Type != serviceHTTP {
				t.Errorf("got %+v", s)
			}
			break
		}
		if try == 20 {
			t.Fatal("it is not found")
		}
	}
	cancel()
	<-ended
	if host := <-announced; host != "" {
		t.Errorf("at the end it is announced as %q", host)
	}
}

// Only private addresses are taken from what the network announces, and names are cleaned.
func TestServiceOf(t *testing.T) {
	event := func(addr, name string, port uint16) mdns.ServiceEvent {
		e := mdns.ServiceEvent{Instance: mdns.ServiceInstance{Instance: name, Service: ServiceGateway, Port: port,
			Text: []mdns.TXTEntry{mdns.NewTXTString("gatewayTls", "1"), mdns.NewTXTFlag("x")}}}
		e.Addr = netip.MustParseAddr(addr)
		return e
	}
	for _, c := range []struct{ addr, name, address, clean string }{
		{"192.168.1.7", "studio\u202e\x00", "192.168.1.7:18789", "studio"},
		{"::ffff:10.0.0.2", strings.Repeat("x", 500), "10.0.0.2:18789", strings.Repeat("x", maxName-1) + "…"},
		{"fd00::7", "a", "[fd00::7]:18789", "a"},
		{"fe80::1%eth0", "a", "", "a"},
		{"127.0.0.1", "a", "", "a"},
		{"203.0.113.9", "a", "", "a"},
		{"2001:db8::1", "a", "", "a"},
	} {
		s := serviceOf(event(c.addr, c.name, 18789), isLocal)
		if s.Address != c.address || s.Name != c.clean || s.Text["gatewaytls"] != "1" {
			t.Errorf("%s %q became %+v", c.addr, c.name, s)
		}
	}
	if s := serviceOf(event("192.168.1.7", "a", 0), isLocal); s.Address != "" {
		t.Errorf("without a port it became %+v", s)
	}
}

func FuzzParseModels(f *testing.F) {
	f.Add([]byte(`{"object":"list","data":[{"id":"qwen3:8b","owned_by":"library"}]}`))
	f.Add([]byte(`{"object":"list","data":[{"id":"\u202e\ud800"}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		names, ok := parseModels(text)
		if !ok && names != nil || len(names) > maxModels {
			t.Errorf("%d names, %v", len(names), ok)
		}
		for _, n := range names {
			if n == "" || len([]rune(n)) > maxName || cleanName(n) != n {
				t.Errorf("name %q", n)
			}
		}
		isChallenge(text)
	})
}
