package app

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/fetch"
	"patchbay/internal/oauth"
	"patchbay/internal/problem"
)

// The form of consent that another site submits with the person's cookies lets nobody in. The same
// form does when the page itself submits it.
func TestOAuthForgedConsent(t *testing.T) {
	s := newOAuthServer(t, Options{})
	p := s.register()
	s.consent(p.asks(""), url.Values{"decision": {"deny"}}) // signs in
	path, text, _ := s.page(http.MethodGet, p.asks(""), nil)
	if !strings.HasPrefix(path, "/oauth/consent/") {
		t.Fatalf("%s: %.300s", path, text)
	}
	for name, header := range map[string]http.Header{
		"cross-site":              {"Sec-Fetch-Site": {"cross-site"}},
		"same-site":               {"Sec-Fetch-Site": {"same-site"}}, // another subdomain, or another port
		"a foreign origin":        {"Origin": {"https://evil.example"}},
		"another port":            {"Origin": {"http://127.0.0.1:1"}},
		"no origin":               {"Origin": {"null"}}, // a sandboxed frame
		"cross-site, our origin":  {"Sec-Fetch-Site": {"cross-site"}, "Origin": {s.url}},
		"cross-site, page's own":  {"Sec-Fetch-Site": {"cross-site"}, "Referer": {s.url + path}},
		"cross-site, and foreign": {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}},
	} {
		resp := s.submit(path, allowAll, header)
		if resp.StatusCode != http.StatusForbidden || resp.Header.Get("Location") != "" {
			t.Errorf("%s: %s, to %q", name, resp.Status, resp.Header.Get("Location"))
		}
	}
	keys, err := s.base.Store.Keys.ByPerson(t.Context(), s.person)
	must(t, err)
	if len(keys) != 0 {
		t.Errorf("forged forms have made keys: %+v", keys)
	}
	resp := s.submit(path, allowAll, http.Header{"Origin": {s.url}}) // of a browser that says no more
	to, err := url.Parse(resp.Header.Get("Location"))
	if must(t, err); resp.StatusCode != http.StatusSeeOther || to.Query().Get("code") == "" {
		t.Fatalf("the person's own answer: %s, to %q", resp.Status, to)
	}
	if p.exchange(to.Query()) == "" {
		t.Error("no token")
	}
}

// submit posts a form with headers in the person's browser.
func (s *oauthServer) submit(path string, form url.Values, header http.Header) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(form.Encode()))
	must(s.t, err)
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := s.browser.Do(req)
	must(s.t, err)
	resp.Body.Close()
	return resp
}

// No page of consent and no endpoint beside it is shown in a frame or kept in a cache, whatever it
// answers, and none says to another site where the person was.
func TestOAuthFrames(t *testing.T) {
	s := newOAuthServer(t, Options{})
	p := s.register()
	s.consent(p.asks(""), url.Values{"decision": {"deny"}}) // signs in
	consent, _, _ := s.page(http.MethodGet, p.asks(""), nil)
	once := *s.browser
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	stranger := once
	stranger.Jar = nil
	wrong := strings.Replace(p.asks(""), p.id, "nobody", 1)
	for _, c := range []struct {
		name, method, address string
		browser               *http.Client
		want                  int
	}{
		{"the request", http.MethodGet, p.asks(""), &once, http.StatusSeeOther},
		{"an unknown program", http.MethodGet, wrong, &once, http.StatusNotFound},
		{"the consent", http.MethodGet, s.url + consent, &once, http.StatusOK},
		{"of nobody", http.MethodGet, s.url + consent, &stranger, http.StatusSeeOther},
		{"a wrong form", http.MethodPost, s.url + consent, &once, http.StatusUnprocessableEntity},
		{"another request", http.MethodGet, s.url + "/oauth/consent/x", &once, http.StatusNotFound},
		{"the answer", http.MethodPost, s.url + consent + "?decision=deny", &once, http.StatusSeeOther},
		{"no page", http.MethodGet, s.url + "/oauth/other", &once, http.StatusNotFound},
		{"sign-in", http.MethodGet, s.url + "/signin", &stranger, http.StatusOK},
		{"token", http.MethodPost, s.url + oauth.TokenPath, &stranger, http.StatusBadRequest},
		{"token by GET", http.MethodGet, s.url + oauth.TokenPath, &stranger, http.StatusMethodNotAllowed},
		{"register", http.MethodPost, s.url + oauth.RegisterPath, &stranger, http.StatusBadRequest},
		{"revoke", http.MethodPost, s.url + oauth.RevokePath, &stranger, http.StatusBadRequest},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, c.address, http.NoBody)
		must(t, err)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		resp, err := c.browser.Do(req)
		must(t, err)
		resp.Body.Close()
		h := resp.Header
		if resp.StatusCode != c.want {
			t.Errorf("%s: %s", c.name, resp.Status)
		}
		if !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
			h.Get("X-Frame-Options") != "DENY" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the headers are %v", c.name, h)
		}
		if policy := h.Get("Referrer-Policy"); policy != "no-referrer" && policy != "same-origin" {
			t.Errorf("%s: Referrer-Policy %q", c.name, policy)
		}
	}
}

// names are the addresses of hosts, one list for each time that they are asked for.
type names struct {
	answers [][]string
	asked   atomic.Int32
}

func (n *names) LookupNetIP(context.Context, string, string) (out []netip.Addr, err error) {
	i := min(int(n.asked.Add(1)), len(n.answers)) - 1
	for _, a := range n.answers[i] {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

// The document of a program is not read at addresses of this machine and of networks behind it, by
// whatever name, as what answers there trusts who can connect.
func TestOAuthDocumentsInside(t *testing.T) {
	var connections atomic.Int32
	inside := httptest.NewUnstartedServer(http.NotFoundHandler())
	inside.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	inside.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that nobody finishes
	inside.StartTLS()
	defer inside.Close()
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	must(t, err)

	s := newOAuthServer(t, Options{})
	asks := func(client string) (status int, path string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, plainProgram{s, client}.asks(""), nil)
		must(t, err)
		resp, err := s.browser.Do(req)
		must(t, err)
		resp.Body.Close()
		return resp.StatusCode, resp.Request.URL.Path
	}
	for _, host := range []string{"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port, "127.1:" + port,
		"2130706433:" + port, "[::ffff:127.0.0.1]:" + port, "0.0.0.0:" + port, "10.0.0.1", "172.16.0.1", "192.168.1.1",
		"169.254.169.254", "[fe80::1]", "[fd00::1]", "100.100.100.200"} {
		if status, at := asks("https://" + host + "/client.json"); status != http.StatusNotFound || at != "/oauth/authorize" {
			t.Errorf("%s: %d at %s", host, status, at)
		}
	}

	// A name that leads inside, or there and elsewhere, and one whose owner changes where it leads
	// between the check and the connection. 127.0.0.2, where nothing answers, stands for an address
	// outside, so that the test leaves this machine alone.
	for name, c := range map[string]struct {
		answers [][]string
		asked   int32
	}{
		"inside":             {[][]string{{"127.0.0.1"}}, 1},
		"outside and inside": {[][]string{{"127.0.0.2", "127.0.0.1"}}, 1},
		"mapped":             {[][]string{{"::ffff:127.0.0.1"}}, 1},
		"rebinding":          {[][]string{{"127.0.0.2"}, {"127.0.0.1"}}, 1},
	} {
		resolver := &names{answers: c.answers}
		err := readDocument(t, s, fetch.Options{Resolver: resolver,
			AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}, "https://app.example:"+port+"/client.json")
		if told, ok := errors.AsType[*problem.Error](err); !ok || told.Code != problem.NotFound {
			t.Errorf("%s: %v", name, err)
		}
		if n := resolver.asked.Load(); n != c.asked {
			t.Errorf("%s: the name was looked up %d times", name, n)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	// The server would have been reached.
	err = readDocument(t, s, fetch.Options{Resolver: &names{answers: [][]string{{"127.0.0.1"}}},
		AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, "https://app.example:"+port+"/client.json")
	if err == nil || connections.Load() != 1 {
		t.Errorf("%d connections where one is allowed: %v", connections.Load(), err)
	}
}

// readDocument begins a request of the program that a document describes, which is read by the
// guarded dialer.
func readDocument(t *testing.T, s *oauthServer, o fetch.Options, id string) error {
	t.Helper()
	yes := func(string) bool { return true }
	service := oauth.New(oauth.Options{Store: s.base.Store, Dial: fetch.New(o).Dial,
		IsKnownHost: yes, IsListedHost: yes, IsProxy: func(*http.Request) bool { return false },
		Guard:   account.NewGuard(100, nil),
		Address: func(*http.Request) netip.Addr { return netip.MustParseAddr("192.0.2.1") },
		Logger:  slog.New(slog.DiscardHandler)})
	asks := httptest.NewRequestWithContext(t.Context(), http.MethodGet, plainProgram{s, id}.asks(""), nil)
	_, _, err := service.Begin(asks, "browser")
	return err
}
