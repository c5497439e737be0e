package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Recalls are counted by the day they count for, and what was taken back is not.
func TestLearnRecalls(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.People.Add(ctx, store.Person{ID: "p2", Name: "bob", Role: "admin", Lang: "en", Created: now}))
		day := store.DateOf(now)
		n := 0
		entry := func(d store.Day, kind string, q store.Queue, g store.Grade) store.LogEntry {
			n++
			return store.LogEntry{ID: fmt.Sprint("e", n), Kind: kind, At: d.Time().Add(time.Duration(n) * time.Minute), Day: d, Zone: "UTC", Grade: g, Queue: q, Score: -1}
		}
		p := newPoint("1", "why?", "why")
		p.Log = []store.LogEntry{
			entry(day-9, store.LogReview, store.QueueDay, store.Good), // too long ago
			entry(day-1, store.LogReview, store.QueueNew, store.Again),
			entry(day-1, store.LogReview, store.QueueSteps, store.Again),
			entry(day-1, store.LogReview, store.QueueDay, store.Good),
			entry(day, store.LogReview, store.QueueDay, store.Again),
			entry(day, store.LogReview, store.QueueDay, store.Hard),
			entry(day, store.LogReview, store.QueueDay, store.Again),
			entry(day, store.LogUndo, store.QueueDay, store.Again),
			entry(day, store.LogReschedule, store.QueueNone, store.Ungraded),
		}
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{p}))
		got, err := db.Learn.Recalls(ctx, "p1", day-5)
		must(t, err)
		if want := []store.DayRecalls{{Day: day - 1, Reviews: 1}, {Day: day, Reviews: 2, Again: 1}}; !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		got, err = db.Learn.Recalls(ctx, "p2", day-5)
		must(t, err)
		if len(got) != 0 {
			t.Errorf("somebody else has %+v", got)
		}
	})
}

// Points of a rare tag, and drafts, come in the same order and pages as all others.
func TestLearnFewPoints(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		var points []store.NewPoint
		for i := range 30 {
			p := newPoint(fmt.Sprintf("%02d", i), "why?", "why")
			p.Point.Created = now.Add(time.Duration(i/3) * time.Second)
			p.Point.Tags, p.Point.Draft = []string{"rare"}, i%2 == 0
			points = append(points, p)
		}
		must(t, db.Learn.Add(ctx, "p1", points))
		ids := func(f store.PointFilter) (out []string) {
			var after store.PointKey
			for {
				list, err := db.Learn.Points(ctx, "p1", f, after, 4)
				must(t, err)
				if len(list) == 0 {
					return out
				}
				for _, p := range list {
					out = append(out, p.ID)
				}
				after = f.Key(&list[len(list)-1])
			}
		}
		all := ids(store.PointFilter{})
		if got := ids(store.PointFilter{Tag: "rare"}); len(all) != 30 || !slices.Equal(got, all) {
			t.Errorf("%v, and all are %v", got, all)
		}
		if got := ids(store.PointFilter{Draft: true}); len(got) != 15 {
			t.Errorf("drafts: %v", got)
		}
		if got := ids(store.PointFilter{Tag: "none"}); len(got) != 0 {
			t.Errorf("nobody has that tag: %v", got)
		}
	})
}
