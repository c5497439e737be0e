package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A database that may not grow any more says so until it may: reading goes on, and whoever
// tries to write finds out when that works again.
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
	limit(1) // as many as there are
	if err := add("b"); Trouble(err) != ErrDiskFull || db.DiskTrouble() != ErrDiskFull {
		t.Errorf("a write says %v, and the database %v", err, db.DiskTrouble())
	}
	// So do those that share a commit.
	db.disk.Store(nil)
	if err := db.Traces.Finish(ctx, Trace{Turn: strings.Repeat("t", 100_000)}, nil); Trouble(err) != ErrDiskFull || db.DiskTrouble() != ErrDiskFull {
		t.Errorf("a commit says %v, and the database %v", err, db.DiskTrouble())
	}
	if list, err := db.People.All(ctx); err != nil || len(list) != 1 {
		t.Errorf("of people there are %d, %v", len(list), err)
	}
	if err := db.TryWriting(ctx); Trouble(err) != ErrDiskFull || db.DiskTrouble() != ErrDiskFull {
		t.Errorf("trying says %v, and the database %v", err, db.DiskTrouble())
	}
	limit(1 << 30)
	if err := db.TryWriting(ctx); err != nil || db.DiskTrouble() != nil {
		t.Errorf("trying says %v, and the database %v", err, db.DiskTrouble())
	}
	if err := errors.Join(add("b"), db.Ping(ctx)); err != nil {
		t.Error(err)
	}
}
