package app

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/api"
	"patchbay/internal/certs"
	"patchbay/internal/certs/pebbletest"
	"patchbay/internal/check"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

const boardName = "board.example.org"

// httpsServer is a server that gets its certificate from a test authority.
type httpsServer struct {
	*testing.T
	p                   *pebbletest.Pebble
	secure, plain, mqtt string // addresses
	url                 string // on this machine
	base                *Base
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return int(a.Port())
}

func newHTTPSServer(t *testing.T) *httpsServer {
	s := &httpsServer{T: t, secure: pebbletest.FreeAddress(t), plain: pebbletest.FreeAddress(t),
		mqtt: pebbletest.FreeAddress(t)}
	s.p = pebbletest.Start(t, pebbletest.Options{HTTPPort: portOf(t, s.plain), TLSPort: portOf(t, s.secure)})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, s.p.CA, 0o600))
	c, _, err := config.Load(config.Sources{Flags: map[string]string{"data": t.TempDir(), "listen": s.secure,
		"https.names": boardName, "https.redirect": s.plain, "https.directory": s.p.Directory, "https.ca": ca,
		"xiaozhi.mqtt_tls": s.mqtt}})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ready, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		stopped <- Serve(ctx, c, Options{Version: "test", Logs: t.Output(), Ready: func(url string, b *Base) {
			s.url, s.base = url, b
			close(ready)
		}})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-stopped:
		stopped <- nil
		t.Fatal(err)
	}
	return s
}

// dial leads the addresses of the board's name to the server.
func (s *httpsServer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, _ := net.SplitHostPort(address)
	to := map[string]string{"443": s.secure, "80": s.plain, "8883": s.mqtt}[port]
	return new(net.Dialer).DialContext(ctx, network, to)
}

// client is a browser that follows no redirect.
func (s *httpsServer) client() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}, Transport: &http.Transport{DialContext: s.dial, TLSClientConfig: &tls.Config{RootCAs: s.p.Roots(0)}}}
}

func (s *httpsServer) do(method, url string) (*http.Response, string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, url, nil)
	must(s.T, err)
	resp, err := s.client().Do(req)
	must(s.T, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(s.T, err)
	return resp, string(text)
}

// A server that is given nothing but a name gets its certificate, leads http to https, lets boards
// and health checks stay on http, and serves MQTT with it; the command line reaches it, and doctor
// sees all.
func TestAutomaticHTTPS(t *testing.T) {
	s := newHTTPSServer(t)
	local := &http.Client{Timeout: 10 * time.Second, Transport: LocalTransport()}
	resp, err := local.Get(s.url + "/healthz") // perhaps before there is a certificate
	must(t, err)
	resp.Body.Close()
	var states []certs.Status
	for until := time.Now().Add(20 * time.Second); ; netx.Wait(t.Context(), 20*time.Millisecond) { //nolint:errcheck // see until
		states, err = certs.Stored(t.Context(), s.base.Store.Certificates, []string{boardName})
		must(t, err)
		if !states[0].Expires.IsZero() {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("no certificate: %+v", states)
		}
	}
	secure, _ := s.do(http.MethodGet, "https://"+boardName+"/healthz")
	if h := secure.Header.Get("Strict-Transport-Security"); secure.StatusCode != 200 || h != "max-age=31536000" {
		t.Errorf("%s, HSTS %q", secure.Status, h)
	}
	for _, c := range []struct {
		method, url string
		status      int
		want        string // Location, or text
	}{
		{"GET", "http://" + boardName + "/sign-in?next=/bots", 308, "https://" + boardName + "/sign-in?next=/bots"},
		{"POST", "http://" + boardName + "/api/v1/bots", 308, "https://" + boardName + "/api/v1/bots"},
		{"GET", "http://192.0.2.1/", 308, "https://" + boardName + "/"},
		{"GET", "http://evil.example/", 308, "https://" + boardName + "/"},
		{"GET", "http://" + boardName + "/healthz", 200, "live"},
		{"GET", "http://" + boardName + "/readyz", 200, "ready"},
		{"GET", "http://" + boardName + "/xiaozhi/ota/", 200, "boards call home here"},
		{"GET", "http://" + boardName + "/xiaozhi/ota", 200, "boards call home here"},
		{"GET", "http://" + boardName + "/xiaozhi/v1/", 308, "https://" + boardName + "/xiaozhi/v1/"},
		{"GET", "http://" + boardName + certs.ChallengePath + "abcdefghijklmnopqrstuvwxyz", 404, ""},
		{"GET", "http://" + boardName + certs.ChallengePath + "../../etc/passwd", 404, ""},
	} {
		resp, text := s.do(c.method, c.url)
		if got := resp.Header.Get("Location") + text; resp.StatusCode != c.status || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s, %q", c.method, c.url, resp.Status, got)
		}
	}
	conn, err := tls.Dial("tcp", s.mqtt, &tls.Config{ServerName: boardName, RootCAs: s.p.Roots(0)})
	must(t, err)
	conn.Close()
	running, err := FindRunning(s.base.Config.Data)
	must(t, err)
	operator := api.NewClient(running.URL, running.Key, i18n.English)
	operator.HTTP.Transport = LocalTransport()
	status, err := api.Status.Call(t.Context(), operator, control.Empty{})
	must(t, err)
	if len(status.Certificates) != 1 || !status.Certificates[0].Expires.Equal(states[0].Expires) {
		t.Errorf("status %+v", status.Certificates)
	}
	events, err := s.base.Store.AdminEvents.Newest(t.Context(), "", 10)
	must(t, err)
	if len(events) != 1 || events[0].Action != control.EventCertificateIssued || events[0].About != boardName {
		t.Errorf("events %+v", events)
	}
	s.examine(states[0])
}

// examine checks what doctor says about a server that works.
func (s *httpsServer) examine(state certs.Status) {
	s.Helper()
	h := httpsCheck{Report: &check.Report{Lang: i18n.English}, running: true, plain: true,
		public: "https://" + boardName, roots: s.p.Roots(0), now: time.Now(), dial: s.dial,
		lookup: func(context.Context, string, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("198.51.100.7")}, nil
		}}
	h.check(s.Context(), state)
	for i, want := range []string{"is good until ", "leads to 198.51.100.7, which is not an address of this machine",
		"answers with the certificate of this installation", "leads to https, as seen from this machine"} {
		if i >= len(h.Findings) || h.Findings[i].State != check.OK || !strings.HasPrefix(h.Findings[i].Found, want) {
			s.Errorf("doctor says %+v", h.Findings)
		}
	}
}

// Doctor says what does not work, and what to do.
func TestDoctorHTTPS(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	now := time.Now()
	good := certs.Status{Name: boardName, Issued: now.Add(-time.Hour), Expires: now.Add(90 * time.Hour),
		Renews: now.Add(60 * time.Hour)}
	failing := certs.Status{Name: boardName, Failures: 3, Problem: i18n.Message("no luck").With(), Retry: now}
	renewing := good
	renewing.Failures, renewing.Problem = 1, failing.Problem
	late := good
	late.Renews = now.Add(-80 * time.Hour)
	late.Expires = now.Add(time.Hour)
	gone := good
	gone.Expires, gone.Renews = now.Add(-time.Minute), now.Add(-time.Hour)
	for _, c := range []struct {
		name   string
		state  certs.Status
		where  string // what the name resolves to; empty: nothing
		closed bool
		want   []string
	}{
		{"none", certs.Status{Name: boardName}, "198.51.100.7", true, []string{"warn there is no certificate yet",
			"ok leads to", "warn does not answer on port 80: "}},
		{"failing", failing, "", true, []string{"fail no luck; failed attempts: 3", "fail does not resolve: "}},
		{"renewing", renewing, "10.0.0.7", true, []string{"warn no luck; failed attempts: 1",
			"warn leads to 10.0.0.7, which cannot be reached from the internet", "warn cannot be reached from this machine: ",
			"warn does not answer"}},
		{"late", late, "198.51.100.7", false, []string{"warn expires on ", "ok leads to",
			"fail the certificate there is not trusted: ", "warn does not answer on port 80: "}},
		{"expired", gone, "198.51.100.7", false, []string{"fail expired on ", "ok leads to", "fail ", "warn "}},
	} {
		h := httpsCheck{Report: &check.Report{Lang: i18n.English, Explain: Explain}, running: true, plain: true,
			now: now, public: "https://" + boardName,
			lookup: func(context.Context, string, string) ([]netip.Addr, error) {
				if c.where == "" {
					return nil, &net.DNSError{Err: "no such host", Name: boardName, IsNotFound: true}
				}
				return []netip.Addr{netip.MustParseAddr(c.where)}, nil
			},
			dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				to := "127.0.0.1:1"
				if strings.HasSuffix(address, ":443") && !c.closed {
					to = s.Listener.Addr().String()
				}
				return new(net.Dialer).DialContext(ctx, network, to)
			}}
		h.check(t.Context(), c.state)
		for i, want := range c.want {
			if i >= len(h.Findings) || !strings.HasPrefix(string(h.Findings[i].State)+" "+h.Findings[i].Found, want) {
				t.Errorf("%s: doctor says %+v", c.name, h.Findings)
				break
			}
		}
	}
}

// Before there is a certificate, the port for http says why.
func TestNoCertificateYet(t *testing.T) {
	db, box := storetest.SQLite(t), testSeal(t)
	m, err := certs.New(certs.Options{Names: []string{boardName}, Directory: "https://127.0.0.1:1/dir",
		Challenges: []string{certs.HTTP01}, Store: db.Certificates, Box: box, Logger: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry()})
	must(t, err)
	c := &config.Config{PublicURL: "https://" + boardName, HTTPS: config.HTTPS{Names: []string{boardName}}}
	s, err := newRedirects(m, c, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	must(t, err)
	ask := func() (int, string) {
		w := httptest.NewRecorder()
		s.Handler.ServeHTTP(w, httptest.NewRequest("GET", "http://"+boardName+"/", nil))
		return w.Code, w.Body.String()
	}
	if code, text := ask(); code != http.StatusServiceUnavailable || !strings.Contains(text, "it is being ordered") {
		t.Errorf("%d %q", code, text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for until := time.Now().Add(10 * time.Second); ; netx.Wait(t.Context(), 10*time.Millisecond) { //nolint:errcheck // see until
		code, text := ask()
		if strings.Contains(text, "the last attempt failed: the certificate authority cannot be reached: ") {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%d %q", code, text)
		}
	}
}

func testSeal(t *testing.T) *seal.Box {
	box, err := seal.New(seal.NewSecret())
	must(t, err)
	return box
}

// A new secret of the installation reseals the keys of certificates, accounts and challenges.
func TestRotationResealsCertificates(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		c, _, err := config.Load(config.Sources{Flags: map[string]string{"data": t.TempDir(), "database.url": o.URL}})
		must(t, err)
		b, err := openBase(t.Context(), c, "test", slog.New(slog.DiscardHandler))
		must(t, err)
		defer b.Close()
		b.Secrets.settle = func(context.Context) error { return nil }
		old, t1, ctx := b.Box.Key(), b.Store.Certificates, t.Context()
		must(t, t1.Save(ctx, store.Certificate{Name: boardName, Chain: "chain", Sealed: old.Seal("key"),
			Pending: old.Seal("order")}))
		must(t, t1.SaveAccount(ctx, "https://ca.example.org", "url", old.Seal("account")))
		must(t, t1.AddChallenge(ctx, store.ACMEChallenge{Kind: certs.DNS01, Token: "t", Name: boardName,
			Sealed: old.Seal("answer"), Expires: time.Now()}))
		n, err := b.Secrets.Rotate(ctx, nil)
		must(t, err)
		rows, err := t1.All(ctx)
		must(t, err)
		_, account, err := t1.Account(ctx, "https://ca.example.org")
		must(t, err)
		challenges, err := t1.Challenges(ctx, boardName)
		must(t, err)
		for sealed, want := range map[string]string{rows[0].Sealed: "key", rows[0].Pending: "order",
			account: "account", challenges[0].Sealed: "answer"} {
			if got, err := b.Box.Key().Open(sealed); err != nil || got != want {
				t.Errorf("%d resealed: %q, %v", n, got, err)
			}
		}
	})
}
