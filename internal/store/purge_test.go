package store_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Others can write while very many rows are deleted.
func TestPurgeLetsOthersWrite(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		const rows = 4000
		db := seeded(t, o)
		var calls []store.Call
		for i := range rows {
			c := store.Call{ID: fmt.Sprint("old ", i), At: now.Add(time.Duration(i) * time.Millisecond), Person: "p1"}
			switch i {
			case 0:
				c.Turn = "first"
			case rows - 1:
				c.Turn = "last"
			}
			calls = append(calls, c)
		}
		must(t, db.Calls.Add(ctx, calls))
		there := func(turn string) bool {
			found, err := db.Calls.ByTurn(ctx, turn)
			must(t, err)
			return len(found) > 0
		}
		var purged sync.WaitGroup
		done := make(chan struct{})
		purged.Go(func() {
			defer close(done)
			// New rows stay, as does the link that records the deletion.
			if n, err := db.Purge(ctx, store.Limits{Calls: now.Add(time.Hour), Now: now}); err != nil || n != rows {
				t.Errorf("%d rows went: %v", n, err)
			}
		})
		between := 0
		for i := 0; ; i++ {
			must(t, db.AdminEvents.Add(ctx, store.AdminEvent{ID: fmt.Sprint(i), At: now.Add(2 * time.Hour),
				Action: "a"}))
			if !there("first") && there("last") {
				between++
			}
			select {
			case <-done:
			default:
				continue
			}
			break
		}
		purged.Wait()
		if between == 0 || there("last") {
			t.Errorf("others wrote %d times while rows went; the last of them is there: %v", between, there("last"))
		}
		verify(t, db, store.AuditQuery{})
	})
}

// The SQLite file shrinks after large deletions, and so does that of a copy.
func TestFileShrinks(t *testing.T) {
	o := store.Options{Folder: t.TempDir()}
	db := seeded(t, o)
	picture := bytes.Repeat([]byte("x"), 250_000)
	for i := range 80 {
		must(t, db.Media.Add(ctx, fmt.Sprint(i), store.Picture{MIME: "image/png", Data: picture,
			Expires: now.Add(time.Hour)}, now))
	}
	must(t, db.Close())
	path := filepath.Join(o.Folder, store.FileName)
	size := func() int64 {
		info, err := os.Stat(path)
		must(t, err)
		return info.Size()
	}
	before := size()
	db = storetest.Open(t, o)
	if n, err := db.Purge(ctx, store.Limits{Now: now.Add(2 * time.Hour)}); err != nil || n != 80 {
		t.Fatalf("%d pictures went: %v", n, err)
	}
	must(t, db.Close())
	if after := size(); before < 20_000_000 || after > before/3 {
		t.Errorf("the file had %d bytes, and has %d", before, after)
	}
	raw(t, o, `PRAGMA auto_vacuum = NONE; VACUUM`)
	db = storetest.Open(t, o)
	copied := filepath.Join(t.TempDir(), store.FileName)
	must(t, db.Snapshot(ctx, copied))
	in, err := sql.Open("sqlite", copied)
	must(t, err)
	defer in.Close()
	var mode int
	must(t, in.QueryRowContext(ctx, `PRAGMA auto_vacuum`).Scan(&mode))
	if mode != 2 {
		t.Errorf("the copy has auto_vacuum %d", mode)
	}
}
