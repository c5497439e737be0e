package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A full database reports so until it can grow again: reads keep working, and a test write detects
// when writes work again.
func TestDiskFull(t *testing.T) {
	ctx := t.Context()
	db, err := Open(ctx, Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	limit := func(pages int) {
		t.Helper()
		if _, err := db.w.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	add := func(id string) error {
		return db.People.Add(ctx, Person{ID: id, Name: strings.Repeat(id, 100_000), Created: time.Now()})
	}
	if err := add("a"); err != nil {
		t.Fatal(err)
	}
	limit(1) // the current number of pages
	if err := add("b"); ClassifyError(err) != ErrDiskFull || db.DiskError() != ErrDiskFull {
		t.Errorf("a write says %v, and the database %v", err, db.DiskError())
	}
	// Writes that share a commit fail too.
	db.disk.Store(nil)
	if err := db.Traces.Finish(ctx, Trace{Turn: strings.Repeat("t", 100_000)},
		nil); ClassifyError(err) != ErrDiskFull || db.DiskError() != ErrDiskFull {
		t.Errorf("a commit says %v, and the database %v", err, db.DiskError())
	}
	if list, err := db.People.All(ctx); err != nil || len(list) != 1 {
		t.Errorf("of people there are %d, %v", len(list), err)
	}
	if err := db.TryWriting(ctx); ClassifyError(err) != ErrDiskFull || db.DiskError() != ErrDiskFull {
		t.Errorf("trying says %v, and the database %v", err, db.DiskError())
	}
	limit(1 << 30)
	if err := db.TryWriting(ctx); err != nil || db.DiskError() != nil {
		t.Errorf("trying says %v, and the database %v", err, db.DiskError())
	}
	if err := errors.Join(add("b"), db.Ping(ctx)); err != nil {
		t.Error(err)
	}
}
