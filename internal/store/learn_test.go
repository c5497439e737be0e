package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func newPoint(id, question string, words ...string) store.NewPoint {
	return store.NewPoint{
		Point: store.Point{ID: id, Question: question, Answer: "because", Tags: []string{"a", "b"}, InPlan: true,
			Created: now, Updated: now, Words: words},
		Sittings: []store.Sitting{{ID: "s-" + id, Day: 100, Number: 1, Created: now}},
	}
}

func counts(t *testing.T, db *store.DB, until store.Day) map[store.Queue]int {
	t.Helper()
	list, err := db.Learn.Waiting(ctx, "p1", until)
	must(t, err)
	out := map[store.Queue]int{}
	for _, c := range list {
		if c.N != 0 {
			out[c.Queue] += c.N
		}
	}
	return out
}

func TestLearnPoints(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.People.Add(ctx, store.Person{ID: "p2", Name: "bob", Role: "admin", Lang: "en", Created: now}))
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{newPoint("1", "why?", "why", "x4e3b"),
			newPoint("2", "who?", "who", "x4e3b")}))
		wantErr(t, db.Learn.Add(ctx, "p1", []store.NewPoint{newPoint("3", "new"), newPoint("1", "again")}),
			store.ErrExists)
		must(t, db.Learn.Add(ctx, "p2", []store.NewPoint{newPoint("1", "somebody else's", "why")}))
		p, err := db.Learn.Point(ctx, "p1", "1")
		must(t, err)
		if p.Question != "why?" || !slices.Equal(p.Tags, []string{"a", "b"}) || p.Queue() != store.QueueNew {
			t.Fatalf("got %+v", p)
		}
		_, err = db.Learn.Point(ctx, "p2", "2")
		wantErr(t, err, store.ErrNotFound)
		if got := counts(t, db, 200); got[store.QueueNew] != 2 || len(got) != 1 {
			t.Fatalf("counts %v", got)
		}
		_, err = db.Learn.Change(ctx, "p2", "2", func(context.Context, *store.PointChange) error { return nil })
		wantErr(t, err, store.ErrNotFound)

		// A review changes the card and the plan, and appends to the log.
		review := func(entry string, day store.Day) func(context.Context, *store.PointChange) error {
			return func(ctx context.Context, c *store.PointChange) error {
				if _, err := c.Entry(ctx, entry); !errors.Is(err, store.ErrNotFound) {
					return fmt.Errorf("entry: %w", err)
				}
				c.Point.Card.Phase, c.Point.Card.Due, c.Point.Card.Reps = store.Review, day, c.Point.Card.Reps+1
				c.Sittings[len(c.Sittings)-1].Completed = now
				c.Sittings = append(c.Sittings, store.Sitting{ID: "next-" + entry, Day: day,
					Number: len(c.Sittings) + 1, Created: now})
				c.Log = []store.LogEntry{{ID: entry, Person: "p1", Point: c.Point.Number, Kind: store.LogReview,
					At: now, Day: 100, Grade: store.Good, Elapsed: -1, Score: -1}}
				return nil
			}
		}
		_, err = db.Learn.Change(ctx, "p1", "1", review("r1", 103))
		must(t, err)
		if got := counts(t, db, 102); got[store.QueueNew] != 1 || got[store.QueueDay] != 0 {
			t.Fatalf("counts %v", got)
		}
		if got := counts(t, db, 103); got[store.QueueDay] != 1 {
			t.Fatalf("counts %v", got)
		}
		work, err := db.Learn.Work(ctx, "p1", 0)
		must(t, err)
		if len(work) != 1 || work[0].Good != 1 || work[0].Fresh != 1 {
			t.Fatalf("work %+v", work)
		}
		last, err := db.Learn.LastReview(ctx, "p1")
		must(t, err)
		if last.ID != "r1" {
			t.Fatalf("last review %+v", last)
		}
		due, err := db.Learn.Queued(ctx, "p1", store.QueueFilter{Queue: store.QueueDay, Today: 103, Now: now},
			store.QueueKey{}, 10)
		must(t, err)
		if len(due) != 1 || due[0].ID != "1" {
			t.Fatalf("due %v", due)
		}
		due, err = db.Learn.Queued(ctx, "p1", store.QueueFilter{Queue: store.QueueDay, Today: 103, Now: now,
			Tag: "a", Deck: new(string)}, store.KeyOf(&due[0]), 10)
		must(t, err)
		if len(due) != 0 {
			t.Fatalf("behind the last: %v", due)
		}
		plans, err := db.Learn.Sittings(ctx, []int64{p.Number})
		must(t, err)
		if len(plans[p.Number]) != 2 || plans[p.Number][0].Completed.IsZero() {
			t.Fatalf("plan %+v", plans)
		}

		// An undo subtracts the review, which is no longer the last one.
		_, err = db.Learn.Change(ctx, "p1", "1", func(ctx context.Context, c *store.PointChange) error {
			c.Point.Card, c.Sittings = store.Card{}, c.Sittings[:1]
			c.Log = []store.LogEntry{{ID: "u1", Person: "p1", Point: c.Point.Number, Kind: store.LogUndo, At: now,
				Day: 100, Grade: store.Good, Elapsed: -1, Undoes: "r1"}}
			return nil
		})
		must(t, err)
		_, err = db.Learn.LastReview(ctx, "p1")
		wantErr(t, err, store.ErrNotFound)
		work, err = db.Learn.Work(ctx, "p1", 0)
		must(t, err)
		if work[0].Reviews() != 0 || work[0].Fresh != 0 {
			t.Fatalf("work %+v", work)
		}

		// Search finds only the person's own points.
		for _, c := range []struct {
			words []string
			want  int
		}{{[]string{"why"}, 1}, {[]string{"x4e3b"}, 2}, {[]string{"x4e3b", "who"}, 1}, {[]string{"wh*"},
			2}, {[]string{"none"}, 0}} {
			got, err := db.Learn.Search(ctx, "p1", c.words, 10)
			must(t, err)
			if len(got) != c.want {
				t.Errorf("search %q finds %d", c.words, len(got))
			}
		}
		tags, err := db.Learn.Tags(ctx, "p1", "", 10)
		must(t, err)
		if len(tags) != 2 || tags[0].N != 2 {
			t.Fatalf("tags %v", tags)
		}

		// Moving a point to the trash, and emptying it.
		_, err = db.Learn.Change(ctx, "p1", "1", func(_ context.Context,
			c *store.PointChange) error {
			c.Point.Deleted = now
			return nil
		})
		must(t, err)
		_, err = db.Learn.Point(ctx, "p1", "1")
		wantErr(t, err, store.ErrNotFound)
		n, err := db.Learn.EmptyTrash(ctx, "", now.Add(time.Hour))
		must(t, err)
		if n != 1 {
			t.Fatalf("%d points went", n)
		}
		if got := counts(t, db, 200); got[store.QueueNew] != 1 || len(got) != 1 {
			t.Fatalf("counts %v", got)
		}
		if got, err := db.Learn.Search(ctx, "p1", []string{"why"}, 10); err != nil || len(got) != 0 {
			t.Fatalf("%v, %v", got, err)
		}
	})
}

// Concurrent reviews of one point all count.
func TestLearnChangesAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{newPoint("1", "why?")}))
		second, err := store.Open(ctx, o)
		must(t, err)
		defer second.Close()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				on := db
				if i%2 == 0 {
					on = second
				}
				_, err := on.Learn.Change(ctx, "p1", "1", func(_ context.Context,
					c *store.PointChange) error {
					c.Point.Card.Reps++
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		p, err := db.Learn.Point(ctx, "p1", "1")
		must(t, err)
		if p.Card.Reps != 20 || p.Version != 21 {
			t.Fatalf("%d reps, version %d", p.Card.Reps, p.Version)
		}
	})
}

func TestLearnImport(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		m := db.Learn.NewImport("p1", "import-1")
		must(t, m.Stage(ctx, []store.NewPoint{newPoint("1", "why?", "why"), newPoint("2", "who?", "who")}))
		list, err := db.Learn.Points(ctx, "p1", store.PointFilter{}, store.PointKey{}, 10)
		must(t, err)
		if len(list) != 0 || len(counts(t, db, 1000)) != 0 {
			t.Fatal("half an import is seen")
		}
		must(t, m.Finish(ctx, store.ImportEdits{}))
		m = db.Learn.NewImport("p1", "import-0")
		must(t, m.Finish(ctx, store.ImportEdits{Points: []store.PointEdit{{ID: "2", Change: func(c *store.PointChange) {
			c.Point.Question, c.Point.Answer, c.Point.Tags, c.Point.Words = "whom?", "him", []string{"c"}, []string{"whom"}
		}}}}))
		if got, err := db.Learn.Search(ctx, "p1", []string{"whom"}, 10); err != nil || len(got) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		ids, byOrigin, _, err := db.Learn.PointIDs(ctx, "p1")
		must(t, err)
		if len(ids) != 2 || len(byOrigin) != 0 {
			t.Fatalf("%v %v", ids, byOrigin)
		}
		list, err = db.Learn.Points(ctx, "p1", store.PointFilter{}, store.PointKey{}, 1)
		must(t, err)
		rest, err := db.Learn.Points(ctx, "p1", store.PointFilter{}, store.PointFilter{}.Key(&list[0]), 10)
		must(t, err)
		if len(rest) != 1 || list[0].ID != "2" || rest[0].ID != "1" || counts(t, db, 0)[store.QueueNew] != 2 {
			t.Fatalf("%v %v", list, rest)
		}
		m = db.Learn.NewImport("p1", "import-2")
		must(t, m.Stage(ctx, []store.NewPoint{newPoint("3", "why?", "why")}))
		must(t, m.Abort(ctx))
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{newPoint("3", "why?", "why")}))
		if got, err := db.Learn.Search(ctx, "p1", []string{"why"}, 10); err != nil || len(got) != 2 {
			t.Fatalf("%v, %v", got, err)
		}
	})
}

func TestLearnDecksAndTalks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		d := store.Deck{ID: "d1", Person: "p1", Name: "德语", Settings: []byte(`{}`), Created: now}
		must(t, db.Learn.AddDeck(ctx, d))
		d.ID = "d2"
		wantErr(t, db.Learn.AddDeck(ctx, d), store.ErrExists)
		n := newPoint("1", "why?")
		n.Point.Deck = "d1"
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{n, newPoint("2", "who?")}))
		wantErr(t, db.Learn.RemoveDeck(ctx, "p2", "d1"), store.ErrNotFound)
		must(t, db.Learn.RemoveDeck(ctx, "p1", "d1"))
		list, err := db.Learn.Waiting(ctx, "p1", 0)
		must(t, err)
		if len(list) != 1 || list[0].Deck != "" || list[0].N != 2 {
			t.Fatalf("counts %+v", list)
		}

		must(t, db.Learn.SaveTalk(ctx, "glasses", "p1", []byte(`{"a":1}`), now.Add(time.Minute)))
		_, state, err := db.Learn.Talk(ctx, "glasses", now)
		must(t, err)
		if string(state) != `{"a":1}` {
			t.Fatalf("state %s", state)
		}
		_, _, err = db.Learn.Talk(ctx, "glasses", now.Add(time.Hour))
		wantErr(t, err, store.ErrNotFound)

		must(t, db.Learn.SaveLearner(ctx, "p1", []byte(`{"zone":"Asia/Shanghai"}`)))
		for _, want := range []bool{true, false} {
			if got, err := db.Learn.MarkReminded(ctx, "p1", 5); err != nil || got != want {
				t.Fatalf("reminded: %v, %v", got, err)
			}
		}
	})
}

func mustPoint(t *testing.T, db *store.DB, id string) store.Point {
	t.Helper()
	p, err := db.Learn.Point(ctx, "p1", id)
	must(t, err)
	return p
}

func TestCountSelected(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{newPoint("1", "one?"), newPoint("2", "two?"),
			newPoint("3", "three?")}))
		f := store.Selection{Today: 100, Now: now, Where: []store.Condition{{Field: store.FieldTag, Text: "a"}}}
		for most, want := range map[int]int{0: 3, 2: 2, 3: 3, 4: 3} {
			if n, err := db.Learn.CountSelected(ctx, "p1", f, most); err != nil || n != want {
				t.Errorf("at most %d: %d, %v; want %d", most, n, err, want)
			}
		}
	})
}
