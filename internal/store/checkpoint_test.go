package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Checkpoints run on a read connection while others write.
func TestCheckpoint(t *testing.T) {
	ctx := t.Context()
	db, err := Open(ctx, Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	big := strings.Repeat("x", 100_000)
	for i := range 20 {
		if err := db.People.Add(ctx, Person{ID: fmt.Sprint(i), Name: fmt.Sprint("p", i), Role: big,
			Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	pages, taken, err := db.checkpoint(context.Background(), db.r)
	if err != nil || pages != taken {
		t.Fatalf("%d of %d pages were taken over, %v", taken, pages, err)
	}
	if err := db.People.Add(ctx, Person{ID: "last", Name: "last", Role: "x", Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if pages, _, err = db.checkpoint(context.Background(), db.r); err != nil || pages > 200 {
		t.Errorf("the log begins anew after it was taken over, but has %d pages, %v", pages, err)
	}
}

// The write-ahead log restarts under constant writing, and its file is truncated.
func TestLogStaysSmall(t *testing.T) {
	ctx := t.Context()
	folder := t.TempDir()
	db, err := Open(ctx, Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	log := func() int64 {
		info, err := os.Stat(filepath.Join(folder, FileName+"-wal"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	big := strings.Repeat("x", 1_000_000)
	err = db.tx(ctx, func(tx *sql.Tx) error { // one transaction larger than maxLogPages
		for i := range 72 {
			if _, err := tx.ExecContext(ctx, `INSERT INTO counters (name, value) VALUES ($1, 1)`,
				fmt.Sprint(i, big)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := log(); n <= maxLogPages*pageSize {
		t.Fatalf("the log has %d bytes only", n)
	}
	for i := 0; log() > maxLogPages*pageSize; i++ { // the next write truncates it
		if ctx.Err() != nil {
			t.Fatal("the log is not cut")
		}
		if err := db.People.Add(ctx, Person{ID: fmt.Sprint(i), Name: fmt.Sprint("p", i),
			Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
}
