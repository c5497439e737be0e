package store_test

import (
	"context"
	"testing"
	"time"

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
