package certs

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"patchbay/internal/certs/pebbletest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// crash runs a manager until the authority has been asked to issue a certificate; the answer is
// lost.
func crash(t *testing.T, o Options, r *rig) {
	t.Helper()
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.serve(t, m)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	inner, asked := m.http.Transport, false
	m.http.Transport = tripper(func(req *http.Request) (*http.Response, error) {
		resp, err := inner.RoundTrip(req)
		if !strings.Contains(req.URL.Path, "finalize") || err != nil {
			return resp, err
		}
		asked = true
		resp.Body.Close()
		cancel()
		return nil, errors.New("lost")
	})
	if err := m.Run(ctx); err != nil || !asked || m.Ready(o.Names[0]) {
		t.Fatalf("asked: %v, %v", asked, err)
	}
}

// What the authority has issued for a server that crashed, the next start fetches.
func TestPending(t *testing.T) {
	storetest.Each(t, func(t *testing.T, so store.Options) {
		db, r := storetest.Open(t, so), newRig(t)
		p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain)})
		crash(t, options(t, db, p, HTTP01), r)
		rows, err := db.Certificates.All(t.Context())
		if err != nil || len(rows) != 1 || !strings.HasPrefix(rows[0].Pending, "sealed:1:") {
			t.Fatalf("stored %+v, %v", rows, err)
		}
		m, _ := start(t, options(t, db, p, TLSALPN01)) // which would fail
		waitWithin(t, soon, "stored", func() bool {
			rows, err = db.Certificates.All(t.Context())
			return err == nil && rows[0].Chain != ""
		})
		if !m.Ready(rows[0].Name) || rows[0].Pending != "" || rows[0].Challenge != HTTP01 || p.Orders() != 1 {
			t.Errorf("stored %+v; %d certificates were issued", rows, p.Orders())
		}
	})
}

// An order that the authority does not know any more is made again.
func TestPendingRefused(t *testing.T) {
	db, r := storetest.SQLite(t), newRig(t)
	p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain)})
	crash(t, options(t, db, p, HTTP01), r)
	p.Restart()
	m, _ := start(t, options(t, db, p, DNS01))
	waitWithin(t, soon, "certificate", func() bool { return m.Ready("board.example.org") })
}

// No certificate is issued whose key could not be stored.
func TestPendingUnsaved(t *testing.T) {
	folder := t.TempDir()
	db, r := storetest.Open(t, store.Options{Folder: folder}), newRig(t)
	accept := refuse(t, folder, `INSERT ON certificates`)
	p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain)})
	m, _ := start(t, options(t, db, p, HTTP01))
	r.serve(t, m)
	waitWithin(t, soon, "failures", func() bool { return m.Status()[0].Failures > 1 })
	if p.Orders() != 0 {
		t.Errorf("%d certificates were issued", p.Orders())
	}
	accept()
	waitWithin(t, soon, "certificate", func() bool { return m.Ready("board.example.org") })
}
