package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/certs/pebbletest"
	"patchbay/internal/netx"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// waitWithin waits until a condition is met.
func waitWithin(t *testing.T, limit time.Duration, what string, met func() bool) {
	t.Helper()
	for until := time.Now().Add(limit); !met(); netx.Wait(t.Context(), 10*time.Millisecond) { //nolint:errcheck // see until
		if time.Now().After(until) {
			t.Fatalf("%s: not within %s", what, limit)
		}
	}
}

// quick are times for tests.
var quick = Times{Look: 50 * time.Millisecond, Soon: 20 * time.Millisecond, Lease: 5 * time.Second,
	Other: 50 * time.Millisecond, Retry: 200 * time.Millisecond, MaxRetry: time.Second, ARI: time.Hour,
	Order: time.Minute}

// rig is the address of a server: its ports for http and https are open before the authority, which
// has to know them, starts.
type rig struct {
	plain, secure net.Listener
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{}
	for _, l := range []*net.Listener{&r.plain, &r.secure} {
		var err error
		if *l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*l).Close() })
	}
	return r
}

func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// serve serves both ports with a manager.
func (r *rig) serve(t *testing.T, m *Manager) {
	t.Helper()
	plain := &http.Server{Handler: m, ReadHeaderTimeout: time.Minute}
	secure := &http.Server{TLSConfig: m.TLSConfig(), ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") })}
	var running sync.WaitGroup
	running.Go(func() { plain.Serve(r.plain) })
	running.Go(func() { secure.ServeTLS(r.secure, "", "") })
	t.Cleanup(func() {
		plain.Close()
		secure.Close()
		running.Wait()
	})
}

// events collects what a manager tells.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) add(_ context.Context, event, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event+" "+name)
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.all, ", ")
}

var testBox = sync.OnceValue(func() *seal.Box {
	box, err := seal.New(strings.Repeat("ab", 32))
	if err != nil {
		panic(err)
	}
	return box
})

// options returns the options of a manager for an authority.
func options(t *testing.T, db *store.DB, p *pebbletest.Pebble, challenges ...string) Options {
	return Options{Names: []string{"board.example.org"}, Directory: p.Directory, CA: p.CA, Challenges: challenges,
		Store: db.Certificates, Box: testBox(), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Registerer: prometheus.NewRegistry(), Version: "test", Times: quick, DNSCommand: p.DNSCommand}
}

func start(t *testing.T, o Options) (m *Manager, stop func()) {
	t.Helper()
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return m, stop
}

// dial opens a verified TLS connection to a server.
func (r *rig) dial(t *testing.T, p *pebbletest.Pebble, root int, name string) *tls.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", r.secure.Addr().String(), &tls.Config{ServerName: name, RootCAs: p.Roots(root)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

const soon = 15 * time.Second

// Each kind of challenge gives a certificate that clients verify, on both databases. Nothing of the
// order is left.
func TestIssue(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		for _, kind := range []string{HTTP01, TLSALPN01, DNS01} {
			t.Run(kind, func(t *testing.T) {
				r := newRig(t)
				p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain), TLSPort: port(r.secure)})
				var told events
				options := options(t, db, p, kind)
				options.Event = told.add
				options.Names = []string{kind + ".Example.org."}
				name := kind + ".example.org"
				m, _ := start(t, options)
				r.serve(t, m)
				waitWithin(t, soon, "certificate", func() bool { return m.Ready(name) })
				r.dial(t, p, 0, name)
				if left, err := db.Certificates.Challenges(t.Context(), name); err != nil || len(left) > 0 {
					t.Errorf("%v, %v were left", left, err)
				}
				if told.String() != "issued "+name {
					t.Errorf("told %q", &told)
				}
				if kind == DNS01 && strings.Count(p.Records(), "remove _acme-challenge."+name) != 1 {
					t.Errorf("records: %q", p.Records())
				}
				s := m.Status()[0]
				const day = 24 * time.Hour
				if s.Failures > 0 || s.Expires.Sub(s.Issued) < 89*day || s.Renews.Sub(s.Issued) < 59*day ||
					s.Root != p.Root(0).Subject.CommonName {
					t.Errorf("status %+v", s)
				}
			})
		}
		rows, err := db.Certificates.All(t.Context())
		if err != nil || len(rows) != 3 {
			t.Fatal(rows, err)
		}
		for _, row := range rows {
			if strings.Contains(row.Chain+row.Sealed, "PRIVATE") || !strings.HasPrefix(row.Sealed, "sealed:1:") {
				t.Errorf("stored %+v", row)
			}
		}
	})
}

// A certificate that the authority wants to be renewed is replaced while connections go on; new
// ones get the new one.
func TestRenewal(t *testing.T) {
	db, r := storetest.SQLite(t), newRig(t)
	p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain), TLSPort: port(r.secure)})
	var told events
	o := options(t, db, p, TLSALPN01)
	o.Event, o.Times.ARI = told.add, 100*time.Millisecond
	m, _ := start(t, o)
	r.serve(t, m)
	waitWithin(t, soon, "certificate", func() bool { return m.Ready("board.example.org") })
	old := r.dial(t, p, 0, "board.example.org")
	first := m.Leaf()
	p.RenewNow(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: first.Raw})))
	waitWithin(t, soon, "renewal", func() bool { return !m.Leaf().Equal(first) })
	fmt.Fprint(old, "GET / HTTP/1.1\r\nHost: board.example.org\r\nConnection: close\r\n\r\n")
	if text, err := io.ReadAll(old); err != nil || !strings.HasSuffix(string(text), "here") {
		t.Errorf("the old connection read %q, %v", text, err)
	}
	fresh := r.dial(t, p, 0, "board.example.org").ConnectionState().PeerCertificates[0]
	if !fresh.Equal(m.Leaf()) || fresh.PublicKey.(*ecdsa.PublicKey).Equal(first.PublicKey) {
		t.Error("a new connection got the old certificate or its key")
	}
	waitWithin(t, soon, "events", func() bool {
		return strings.HasPrefix(told.String(), "issued board.example.org, renewed board.example.org")
	})
}

// A certificate that lives for seconds is renewed after two thirds of them.
func TestShortLife(t *testing.T) {
	db, r := storetest.SQLite(t), newRig(t)
	p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain), Lifetime: 6 * time.Second})
	m, _ := start(t, options(t, db, p, HTTP01))
	r.serve(t, m)
	waitWithin(t, soon, "certificate", func() bool { return m.Ready("board.example.org") })
	first := m.Leaf()
	waitWithin(t, soon, "renewal", func() bool { return !m.Leaf().Equal(first) })
}

// The preferred chain is taken although it is not the first, and the profile that is set is
// ordered.
func TestChain(t *testing.T) {
	db, r := storetest.SQLite(t), newRig(t)
	p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain), AlternateRoots: 2, ShortLived: true})
	o := options(t, db, p, HTTP01)
	o.Chain, o.Profile = p.Root(2).Subject.CommonName, "shortlived"
	m, _ := start(t, o)
	r.serve(t, m)
	waitWithin(t, soon, "certificate", func() bool { return m.Ready("board.example.org") })
	r.dial(t, p, 2, "board.example.org")
	if s := m.Status()[0]; s.Root != o.Chain || s.Expires.Sub(s.Issued) > 7*24*time.Hour {
		t.Errorf("status %+v", s)
	}
}

// Of two instances one orders. Both serve the certificate, and both answer challenges.
func TestInstances(t *testing.T) {
	storetest.Each(t, func(t *testing.T, so store.Options) {
		db, r := storetest.Open(t, so), newRig(t)
		p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain), TLSPort: port(r.secure)})
		var all []*Manager
		for i := range 2 {
			o := options(t, db, p, HTTP01)
			instance := fmt.Sprint("instance ", i)
			o.Acquire = func(ctx context.Context, d time.Duration) (bool, error) {
				now := time.Now()
				return db.Leases.Take(ctx, "certificates", instance, now, now.Add(d))
			}
			o.Release = func(ctx context.Context) error { return db.Leases.Release(ctx, "certificates", instance) }
			m, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
		r.serve(t, all[1]) // the authority reaches this one only
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, m := range all {
			running.Go(func() { m.Run(ctx) })
		}
		for i, m := range all {
			waitWithin(t, soon, fmt.Sprint("certificate ", i), func() bool { return m.Ready("board.example.org") })
		}
		r.dial(t, p, 0, "board.example.org")
		if !all[0].Leaf().Equal(all[1].Leaf()) || p.Orders() != 1 {
			t.Errorf("%d certificates were issued", p.Orders())
		}
		cancel()
		running.Wait()
		now := time.Now()
		if free, err := db.Leases.Take(t.Context(), "certificates", "other", now, now); err != nil || !free {
			t.Error("the lease was not released", err)
		}
	})
}

// What a killed instance has left, the next order removes, also from the DNS.
func TestLeftovers(t *testing.T) {
	db, r := storetest.SQLite(t), newRig(t)
	p := pebbletest.Start(t, pebbletest.Options{})
	for _, c := range []store.ACMEChallenge{
		{Kind: DNS01, Token: "dns-token-of-the-dead", Sealed: testBox().Seal("value-of-the-dead")},
		{Kind: HTTP01, Token: "http-token-of-the-dead", Sealed: testBox().Seal("x")},
	} {
		c.Name, c.Expires = "board.example.org", time.Now().Add(time.Hour)
		if err := db.Certificates.AddChallenge(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	m, _ := start(t, options(t, db, p, DNS01))
	r.serve(t, m)
	waitWithin(t, soon, "certificate", func() bool { return m.Ready("board.example.org") })
	if !strings.Contains(p.Records(), "remove _acme-challenge.board.example.org value-of-the-dead") {
		t.Errorf("records: %q", p.Records())
	}
	if left, err := db.Certificates.Challenges(t.Context(), "board.example.org"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v were left", left, err)
	}
}

// While the authority is away, the server says so and tries again; one that has lost its accounts
// gets the account again.
func TestAuthorityAway(t *testing.T) {
	db, r := storetest.SQLite(t), newRig(t)
	p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain)})
	m, _ := start(t, options(t, db, p, HTTP01))
	r.serve(t, m)
	waitWithin(t, soon, "certificate", func() bool { return m.Ready("board.example.org") })
	p.Stop()
	m.Add("second.example.org")
	waitWithin(t, soon, "told", func() bool {
		s := m.Status()[1]
		return s.Failures > 1 && strings.HasPrefix(s.Problem.String(), "the certificate authority cannot be reached: ")
	})
	_, err := tls.Dial("tcp", r.secure.Addr().String(), &tls.Config{ServerName: "second.example.org"})
	if err == nil || !strings.HasPrefix(err.Error(), "remote error: tls: ") {
		t.Errorf("a name without a certificate: %v", err)
	}
	p.Restart()
	waitWithin(t, soon, "certificate", func() bool { return m.Ready("second.example.org") })
	if s := m.Status()[1]; s.Failures != 0 || !s.Problem.IsZero() {
		t.Errorf("status %+v", s)
	}
}

// A restarted manager serves what is stored, and orders nothing.
func TestRestart(t *testing.T) {
	db, r := storetest.SQLite(t), newRig(t)
	p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain)})
	m, stop := start(t, options(t, db, p, HTTP01))
	r.serve(t, m)
	waitWithin(t, soon, "certificate", func() bool { return m.Ready("board.example.org") })
	stop()
	again, _ := start(t, options(t, db, p, HTTP01))
	waitWithin(t, soon, "certificate", func() bool { return again.Ready("board.example.org") })
	if !again.Leaf().Equal(m.Leaf()) || p.Orders() != 1 {
		t.Errorf("%d certificates were issued", p.Orders())
	}
}

// The account is bound to one that exists at the authority.
func TestAccountBinding(t *testing.T) {
	db, r := storetest.SQLite(t), newRig(t)
	key := base64.RawURLEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain), AccountKey: key})
	without, stop := start(t, options(t, db, p, HTTP01))
	waitWithin(t, soon, "told", func() bool {
		return strings.HasPrefix(without.Status()[0].Problem.String(), "the certificate authority accepts no account: ")
	})
	stop()
	o := options(t, db, p, HTTP01)
	o.KeyID, o.HMAC, o.Email = "kid-1", key, "anna@example.org"
	m, _ := start(t, o)
	r.serve(t, m)
	waitWithin(t, soon, "certificate", func() bool { return m.Ready("board.example.org") })
}

// What the authority says becomes what a person can do.
func TestFaults(t *testing.T) {
	db, r := storetest.SQLite(t), newRig(t)
	elsewhere := http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		elsewhere.Serve(r.plain)
	}()
	t.Cleanup(func() {
		elsewhere.Close()
		<-done
	})
	reached := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain)})
	closed := pebbletest.Start(t, pebbletest.Options{})
	failing := filepath.Join(t.TempDir(), "dns")
	if err := os.WriteFile(failing, []byte("#!/bin/sh\necho no such zone >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    *pebbletest.Pebble
		kind string
		name string
		dns  []string
		want string
	}{
		{closed, HTTP01, "a.example.org", nil, "could not reach http://a.example.org on port 80 from the internet: open port 80"},
		{closed, TLSALPN01, "b.example.org", nil, "could not reach https://b.example.org on port 443 from the internet"},
		{reached, HTTP01, "c.example.org", nil, "reached another server at c.example.org"},
		{closed, HTTP01, "d.missing.example", nil, "d.missing.example"},
		{closed, DNS01, "e.example.org", []string{"true"}, "did not find the TXT record of _acme-challenge.e.example.org"},
		{closed, DNS01, "f.example.org", []string{failing}, "https.dns_command failed: exit status 3: no such zone"},
		{closed, DNS01, "g.example.org", []string{"/nowhere"}, "https.dns_command failed: fork/exec /nowhere"},
		{closed, HTTP01, "blocked.example.org", nil, "gives no certificate for blocked.example.org: "},
		{closed, "dns-persist-02", "h.example.org", nil, "dns-persist-02 is not among "},
	} {
		o := options(t, db, c.p, c.kind)
		o.Names, o.DNSCommand, o.Times.Retry, o.Times.MaxRetry = []string{c.name}, c.dns, time.Hour, time.Hour
		var told events
		o.Event = told.add
		m, stop := start(t, o)
		waitWithin(t, soon, c.name, func() bool { return told.String() != "" })
		s := m.Status()[0]
		if !strings.Contains(s.Problem.String(), c.want) || s.Failures != 1 || time.Until(s.Retry) < 50*time.Minute ||
			told.String() != "failed "+c.name {
			t.Errorf("%s %s: %+v; told %s", c.kind, c.name, s, &told)
		}
		stop()
	}
}
