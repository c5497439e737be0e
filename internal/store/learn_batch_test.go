package store_test

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// A point that is deleted for good while many are edited is left out, although the rows of its tags
// and words, which are refused, are sent together with it.
func TestChangeManyWithoutDeleted(t *testing.T) {
	db := seeded(t, storetest.Postgres(t))
	must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{newPoint("1", "one?"), newPoint("2", "two?")}))
	both := store.ManyPoints{Numbers: []int64{mustPoint(t, db, "1").Number, mustPoint(t, db, "2").Number}}
	must(t, db.Learn.ChangeMany(ctx, "p1", both, func(changes []*store.PointChange) (*store.BulkPart, error) {
		changes[0].Point.Deleted = now.Add(-time.Hour)
		return nil, nil
	}, nil))
	tries := 0
	must(t, db.Learn.ChangeMany(ctx, "p1", both, func(changes []*store.PointChange) (*store.BulkPart, error) {
		if tries++; tries == 1 {
			if n, err := db.Learn.EmptyTrash(ctx, "p1", now); n != 1 || err != nil {
				t.Errorf("%d deleted, %v", n, err)
			}
		}
		for _, c := range changes {
			c.Point.Deleted, c.Point.Tags, c.Point.Words = time.Time{}, []string{"new"}, []string{"word"}
		}
		return nil, nil
	}, nil))
	if two := mustPoint(t, db, "2"); tries != 2 || len(two.Tags) != 1 {
		t.Errorf("%d tries, tags %v", tries, two.Tags)
	}
}

// A panic in a change frees its connection and its locks.
func TestPanicEndsTransaction(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{newPoint("1", "one?")}))
		one := store.ManyPoints{Numbers: []int64{mustPoint(t, db, "1").Number}}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			broken := func([]*store.PointChange) (*store.BulkPart, error) { panic("broken") }
			t.Error(db.Learn.ChangeMany(ctx, "p1", one, broken, nil))
		}()
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		must(t, db.Learn.ChangeMany(limited, "p1", one, func(changes []*store.PointChange) (*store.BulkPart, error) {
			changes[0].Point.Flag = 1
			return nil, nil
		}, nil))
	})
}

// Queries that are read together leave a usable connection behind, also if one of them fails, if
// its context ends, and after a panic.
func TestReadTogether(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		o.MaxConns = 4
		db := storetest.Open(t, o)
		for range 10 {
			if store.ReadTogether(ctx, db, func(int64) {}, `SELECT 1`, `SELECT x`, `SELECT 2`) == nil {
				t.Fatal("no error")
			}
			ended, cancel := context.WithCancel(t.Context())
			if store.ReadTogether(ended, db, func(int64) { cancel() }, `SELECT 1`, `SELECT 2`) == nil && ended.Err() == nil {
				t.Fatal("not cancelled")
			}
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				t.Error(store.ReadTogether(ctx, db, func(int64) { panic("broken") }, `SELECT 1`, `SELECT 2`))
			}()
			limited, end := context.WithTimeout(t.Context(), 10*time.Second)
			var got []int64
			must(t, store.ReadTogether(limited, db, func(n int64) { got = append(got, n) }, `SELECT 1`,
				`SELECT 2 WHERE 1 = 0`, `SELECT 3 UNION ALL SELECT 4`))
			if end(); !slices.Equal(got, []int64{1, 3, 4}) {
				t.Errorf("read %v", got)
			}
		}
	})
}

// The words of a point are found at once, and a moment later they are in PostgreSQL's index and no
// more in its list.
func TestListOfWordsIsEmptied(t *testing.T) {
	o := storetest.Postgres(t)
	db := seeded(t, o)
	own, err := sql.Open("pgx", o.URL)
	must(t, err)
	defer own.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := own.ExecContext(ctx, `CREATE EXTENSION pageinspect`); err != nil {
		t.Skip("without PostgreSQL's pageinspect:", err)
	}
	listed := func() (n int) {
		must(t, own.QueryRowContext(ctx,
			`SELECT n_pending_tuples FROM gin_metapage_info(get_raw_page('learn_words_words', 0))`).Scan(&n))
		return n
	}
	seen := 0
	for try := 0; seen == 0 && try < 20; try++ { // on a slow machine it may be emptied before it is looked at
		p := newPoint(string(rune('a'+try)), "one?")
		p.Point.Words = []string{"word"}
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{p}))
		seen = listed()
		if got, err := db.Learn.Search(ctx, "p1", []string{"word"}, 100); err != nil || len(got) != try+1 {
			t.Fatalf("found %v, %v; want %d", got, err, try+1)
		}
	}
	if seen == 0 {
		t.Error("no word was written into the list")
	}
	for listed() > 0 {
		must(t, netx.Wait(ctx, 5*time.Millisecond))
	}
}
