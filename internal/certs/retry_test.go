package certs

import (
	"testing"
	"time"

	"patchbay/internal/certs/pebbletest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Neither an attempt that a wrong clock has dated years ahead, nor the pause of another authority,
// keeps an order back; the pause of this one does.
func TestOldPause(t *testing.T) {
	db, r := storetest.SQLite(t), newRig(t)
	p := pebbletest.Start(t, pebbletest.Options{HTTPPort: port(r.plain)})
	now := time.Now()
	pause := store.Certificate{Name: "board.example.org", Directory: p.Directory, TriedDirectory: p.Directory,
		Failures: 3, Tried: now, Retry: now.Add(time.Hour), Challenge: HTTP01, Problem: faultRate}
	ahead, other := pause, pause
	ahead.Tried, ahead.Retry = now.AddDate(4, 0, 0), now.AddDate(4, 0, 1)
	other.TriedDirectory = "https://other.example.org/dir"
	for _, row := range []*store.Certificate{&ahead, &other, &pause} {
		m, err := New(options(t, db, p, HTTP01))
		if err != nil {
			t.Fatal(err)
		}
		if due := m.due(*row, now); due != (row != &pause) {
			t.Errorf("%+v is due: %v", row, due)
		}
	}
	ahead.Name, other.Name = "ahead.example.org", "other.example.org"
	o := options(t, db, p, HTTP01)
	o.Names = []string{ahead.Name, other.Name}
	for _, row := range []store.Certificate{ahead, other} {
		if err := db.Certificates.SaveAttempt(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	m, _ := start(t, o)
	r.serve(t, m)
	for _, name := range o.Names {
		waitWithin(t, soon, name, func() bool { return m.Ready(name) })
	}
}

// A server that started while the clock was ahead has longer and longer pauses after it was
// corrected.
func TestClockCorrected(t *testing.T) {
	m, err := New(options(t, storetest.SQLite(t), &pebbletest.Pebble{Directory: "https://ca.example.org"}, HTTP01))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	m.started = now.AddDate(4, 0, 0)
	r := store.Certificate{TriedDirectory: m.Directory}
	m.due(r, now)
	r.Tried, r.Retry = now.Add(time.Second), now.Add(time.Hour)
	if m.due(r, now.Add(time.Minute)) {
		t.Error("the pause is short, as after a start")
	}
}
