package store

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"patchbay/internal/netx"
)

// The segments that writes leave are merged after them, and everything is found as before.
func TestWordsAreMerged(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	db, err := Open(ctx, Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const writes = 15 // of 16 on one level, FTS5 merges while writing
	for i := range writes {
		err := db.tx(ctx, func(tx *sql.Tx) error {
			var rows pointRows
			rows.putWords(&Point{Number: int64(i + 1), Person: "p1", Words: []string{"all", fmt.Sprint("word", i)}}, false)
			var b batch
			rows.addTo(&b, db, "p1")
			return b.run(ctx, db, tx)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for {
		var segments int
		err := db.r.QueryRowContext(ctx, `SELECT count(DISTINCT segid) FROM learn_words_idx`).Scan(&segments)
		if err != nil {
			t.Fatal(err)
		}
		if segments < writes/2 {
			break
		}
		if err := netx.Wait(ctx, 5*time.Millisecond); err != nil {
			t.Fatalf("there are still %d segments: %v", segments, err)
		}
	}
	for word, want := range map[string]int{"all": writes, "word7": 1, "nothing": 0} {
		if got, err := db.Learn.Search(ctx, "p1", []string{word}, 100); err != nil || len(got) != want {
			t.Errorf("%q: %v, %v; want %d", word, got, err, want)
		}
	}
	if err := db.merger.mergeAll(ctx); err != nil { // it comes to an end
		t.Fatal(err)
	}
	var level int
	if err := db.w.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&level); err != nil || level != 2 {
		t.Errorf("writes sync at level %d after merging, %v; want 2, FULL", level, err)
	}
}
