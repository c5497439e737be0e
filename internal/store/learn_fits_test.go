package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// TestReadReviews reads reviews in their order, without undone ones and those of others.
func TestReadReviews(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		review := func(person, id string, minute int, kind string, more store.LogEntry) store.LogEntry {
			e := more
			e.ID, e.Person, e.Kind, e.At, e.Day = id, person, kind, now.Add(time.Duration(minute)*time.Minute), 20_000
			return e
		}
		add := func(person, id string, log ...store.LogEntry) int64 {
			p := newPoint(id, "q", "word")
			p.Point.Person, p.Log = person, log
			must(t, db.Learn.Add(ctx, person, []store.NewPoint{p}))
			got, err := db.Learn.Point(ctx, person, id)
			must(t, err)
			return got.Number
		}
		one := add("p1", "one", review("p1", "a", 1, store.LogReview, store.LogEntry{Grade: store.Good, Elapsed: -1}),
			review("p1", "c", 3, store.LogReview, store.LogEntry{Grade: store.Again, Elapsed: 5}),
			review("p1", "d", 4, store.LogUndo, store.LogEntry{Undoes: "c"}))
		two := add("p1", "two", review("p1", "b", 2, store.LogReview, store.LogEntry{Grade: store.Easy, Elapsed: 7}))
		add("p2", "three", review("p2", "x", 2, store.LogReview, store.LogEntry{Grade: store.Easy}))
		var got []store.PastReview
		must(t, db.Learn.ReadReviews(ctx, "p1", func(r store.PastReview) error {
			got = append(got, r)
			return nil
		}))
		want := []store.PastReview{{Point: one, Day: 20_000, Grade: store.Good, First: true, Version: 1},
			{Point: two, Day: 20_000, Grade: store.Easy, Version: 1}}
		if !slices.Equal(got, want) {
			t.Errorf("the reviews are %+v, want %+v", got, want)
		}
		stop := errors.New("stop")
		wantErr(t, db.Learn.ReadReviews(ctx, "p1", func(store.PastReview) error { return stop }), stop)

		n, err := db.Learn.SaveMemories(ctx, "p1", []store.PointMemory{
			{Point: one, Version: 1, Reps: 0, Stability: 3, Difficulty: 4},
			{Point: two, Version: 1, Reps: 9, Stability: 5, Difficulty: 6}, // reviewed another number of times
			{Point: two, Version: 2, Reps: 0, Stability: 7, Difficulty: 8}, // changed meanwhile
		})
		must(t, err)
		changed, err := db.Learn.Point(ctx, "p1", "one")
		must(t, err)
		if n != 1 || changed.Card.Stability != 3 || changed.Card.Difficulty != 4 {
			t.Errorf("%d memories were written; the first is %+v", n, changed.Card)
		}
		if n, err := db.Learn.SaveMemories(ctx, "p2", []store.PointMemory{{Point: one, Version: 2}}); n != 0 || err != nil {
			t.Errorf("somebody else's memory was written: %d, %v", n, err)
		}
	})
}

func TestFits(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		for i := range 3 {
			must(t, db.Learn.AddFit(ctx, store.Fit{ID: fmt.Sprint(i), Person: "p1", Deck: "d",
				At: now.Add(time.Duration(i) * time.Second), Before: []byte("null"), After: []byte("[1]"),
				Result: []byte("{}")}))
		}
		must(t, db.Learn.UndoFit(ctx, "p1", "2"))
		wantErr(t, db.Learn.UndoFit(ctx, "p2", "2"), store.ErrNotFound)
		list, err := db.Learn.Fits(ctx, "p1", 2)
		must(t, err)
		if len(list) != 2 || list[0].ID != "2" || !list[0].Undone || list[1].Undone || string(list[1].After) != "[1]" {
			t.Errorf("the fits are %+v", list)
		}
		must(t, db.Learn.SaveLearner(ctx, "p1", []byte("{}")))
		for _, c := range []struct {
			day, since store.Day
			want       bool
		}{{100, 70, true}, {100, 70, false}, {129, 99, false}, {130, 100, true}} {
			if ok, err := db.Learn.MarkFitted(ctx, "p1", c.day, c.since); err != nil || ok != c.want {
				t.Errorf("day %d: %v, %v", c.day, ok, err)
			}
		}
		if day, err := db.Learn.Fitted(ctx, "p1"); err != nil || day != 130 {
			t.Errorf("last fitted on %d, %v", day, err)
		}
	})
}
