package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Recalls are counted by their day, without undone reviews.
func TestLearnRecalls(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.People.Add(ctx, store.Person{ID: "p2", Name: "bob", Role: "admin", Lang: "en", Created: now}))
		day := store.DateOf(now)
		n := 0
		entry := func(d store.Day, kind string, q store.Queue, g store.Grade) store.LogEntry {
			n++
			return store.LogEntry{ID: fmt.Sprint("e", n), Kind: kind, At: d.Time().Add(time.Duration(n) * time.Minute),
				Day: d, Zone: "UTC", Grade: g, Queue: q, Score: -1}
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
		if want := []store.DayRecalls{{Day: day - 1, Reviews: 1}, {Day: day, Reviews: 2, Again: 1}}; !slices.Equal(got,
			want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		got, err = db.Learn.Recalls(ctx, "p2", day-5)
		must(t, err)
		if len(got) != 0 {
			t.Errorf("somebody else has %+v", got)
		}
	})
}

// Points of a rare tag, and drafts, have the same order and pages as all others.
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

// Points of a tag have the order of the whole queue, whether more or fewer points have the tag than
// wait.
func TestLearnQueuedByTag(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		var points []store.NewPoint
		for i := range 60 {
			p := newPoint(fmt.Sprintf("%02d", i), "why?", "why")
			p.Point.Tags = []string{"all"}
			if i%4 == 0 {
				p.Point.Tags = append(p.Point.Tags, "some")
			}
			switch c := &p.Point.Card; i % 3 {
			case 0:
				c.Due = 100
			case 1:
				c.Phase, c.Due = store.Review, store.Day(90+i%20)
			case 2:
				c.Phase, c.Due, c.DueAt = store.Learning, 100, now.Add(-time.Duration(i)*time.Minute)
			}
			points = append(points, p)
		}
		must(t, db.Learn.Add(ctx, "p1", points))
		for _, queue := range []store.Queue{store.QueueSteps, store.QueueDay, store.QueueNew} {
			ids := func(f store.QueueFilter, has string) (out []string) {
				f.Queue, f.Today, f.Now = queue, 100, now
				for after := (store.QueueKey{}); ; {
					list, err := db.Learn.Queued(ctx, "p1", f, after, 3)
					must(t, err)
					if len(list) == 0 {
						return out
					}
					for _, p := range list {
						if slices.Contains(p.Tags, has) {
							out = append(out, p.ID)
						}
					}
					after = store.KeyOf(&list[len(list)-1])
				}
			}
			for _, tag := range []string{"all", "some"} {
				want := ids(store.QueueFilter{}, tag)
				for _, deck := range []*string{nil, new(string)} {
					if got := ids(store.QueueFilter{Tag: tag, Deck: deck}, tag); len(want) == 0 ||
						!slices.Equal(got, want) {
						t.Errorf("in queue %d with tag %s there are %v, want %v", queue, tag, got, want)
					}
				}
			}
			if got := ids(store.QueueFilter{Tag: "none"}, "all"); len(got) != 0 {
				t.Errorf("nobody has that tag: %v", got)
			}
		}
	})
}
