package certs

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"patchbay/internal/certs/pebbletest"
	"patchbay/internal/netx"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// refuse makes a database refuse a kind of write to a table, as a full disk does, until the
// returned function is called.
func refuse(t *testing.T, folder, write string) (accept func()) {
	t.Helper()
	exec := func(statement string) {
		db, err := sql.Open("sqlite", filepath.Join(folder, store.FileName)+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(fmt.Sprintf(`CREATE TRIGGER refuse BEFORE %s BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`, write))
	return func() { exec(`DROP TRIGGER refuse`) }
}

// A certificate that cannot be stored is served, and stored later; no other one is ordered.
func TestUnsaved(t *testing.T) {
	folder := t.TempDir()
	db, r := storetest.Open(t, store.Options{Folder: folder}), newRig(t)
	accept := refuse(t, folder, `INSERT ON certificates WHEN NEW.chain != ''`)
	p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain)})
	var told events
	o := options(t, db, p, HTTP01)
	o.Event = told.add
	m, stop := start(t, o)
	r.serve(t, m)
	waitWithin(t, soon, "certificate", func() bool { return m.Ready("board.example.org") })
	first := r.dial(t, p, 0, "board.example.org").ConnectionState().PeerCertificates[0]
	netx.Wait(t.Context(), 10*o.Times.Look) //nolint:errcheck // it does not end
	if p.Orders() != 1 || told.String() != "" {
		t.Errorf("%d certificates were issued; told %s", p.Orders(), &told)
	}
	accept()
	waitWithin(t, soon, "told", func() bool { return told.String() == "issued board.example.org" })
	stop()
	again, _ := start(t, options(t, db, p, HTTP01))
	waitWithin(t, soon, "certificate", func() bool { return again.Ready("board.example.org") })
	if !again.Leaf().Equal(first) || p.Orders() != 1 {
		t.Errorf("%d certificates were issued", p.Orders())
	}
}

// The pause that an authority wants is kept although it cannot be stored.
func TestUnsavedPause(t *testing.T) {
	folder := t.TempDir()
	db := storetest.Open(t, store.Options{Folder: folder})
	refuse(t, folder, `INSERT ON certificates`)
	var authority *httptest.Server
	asked := make(chan string, 100)
	authority = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		switch w.Header().Set("Replay-Nonce", "nonce"); r.URL.Path {
		case "/dir":
			fmt.Fprintf(w, `{"newNonce": "%[1]s/nonce", "newAccount": "%[1]s/account", "newOrder": "%[1]s/order"}`,
				authority.URL)
		case "/account":
			w.Header().Set("Location", authority.URL+"/account/1")
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"status": "valid"}`)
		case "/order":
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many orders"}`)
		}
	}))
	t.Cleanup(authority.Close)
	o := options(t, db, &pebbletest.Pebble{Directory: authority.URL + "/dir"}, HTTP01)
	m, _ := start(t, o)
	waitWithin(t, soon, "pause", func() bool { return m.Status()[0].Failures > 0 })
	netx.Wait(t.Context(), 10*o.Times.Look) //nolint:errcheck // it does not end
	if s := m.Status()[0]; s.Failures != 1 || time.Until(s.Retry) < 50*time.Minute {
		t.Errorf("status %+v", s)
	}
	orders := 0
	for len(asked) > 0 {
		if <-asked == "/order" {
			orders++
		}
	}
	if orders != 1 {
		t.Errorf("%d orders", orders)
	}
}

// tripper is a transport that is watched.
type tripper func(*http.Request) (*http.Response, error)

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// A certificate that arrives while the server is stopping is stored.
func TestStopAfterOrder(t *testing.T) {
	db, r := storetest.SQLite(t), newRig(t)
	p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain)})
	m, err := New(options(t, db, p, HTTP01))
	if err != nil {
		t.Fatal(err)
	}
	r.serve(t, m)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	inner := m.http.Transport
	m.http.Transport = tripper(func(req *http.Request) (*http.Response, error) {
		resp, err := inner.RoundTrip(req)
		if err == nil && resp.Header.Get("Content-Type") == "application/pem-certificate-chain; charset=utf-8" {
			text, _ := io.ReadAll(resp.Body) // a part is no certificate
			resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(text))
			cancel()
		}
		return resp, err
	})
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	rows, err := db.Certificates.All(t.Context())
	if err != nil || len(rows) != 1 || rows[0].Chain == "" {
		t.Errorf("stored %+v, %v", rows, err)
	}
}
