package store_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func tagsOf(t *testing.T, db *store.DB, person string) string {
	t.Helper()
	list, err := db.Learn.Tags(ctx, person, "", 100)
	must(t, err)
	out := ""
	for _, c := range list {
		out += fmt.Sprintf("%s:%d ", c.Tag, c.N)
	}
	return out
}

func wordsOf(p *store.Point) []string {
	return append([]string{"w" + p.ID}, p.Tags...)
}

// Tags are renamed in batches, including the trash, and may be merged with a tag that some of the
// points already have.
func TestRenameTag(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.People.Add(ctx, store.Person{ID: "p2", Name: "bob", Role: "admin", Lang: "en", Created: now}))
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{newPoint("1", "1"), newPoint("2", "2"), newPoint("3", "3"),
			newPoint("4", "4")}))
		must(t, db.Learn.Add(ctx, "p2", []store.NewPoint{newPoint("1", "somebody else's")}))
		edit(t, db, "4", func(p *store.Point) { p.Tags = []string{"z"} })
		edit(t, db, "3", func(p *store.Point) { p.Deleted = now })
		under := db.Learn.NewImport("p1", "import")
		must(t, under.Stage(ctx, []store.NewPoint{newPoint("5", "5")}))

		for _, want := range []int{2, 1, 0} {
			if n, err := db.Learn.RenameTag(ctx, "p1", "a", "z", 2, wordsOf); err != nil || n != want {
				t.Fatalf("%d, %v, want %d", n, err, want)
			}
		}
		if got := tagsOf(t, db, "p1"); got != "b:3 z:4 " {
			t.Errorf("tags %s", got)
		}
		if n, err := db.Learn.CountTagged(ctx, "p1", "z"); err != nil || n != 4 {
			t.Errorf("%d, %v", n, err)
		}
		if p := mustPoint(t, db, "1"); !slices.Equal(p.Tags, []string{"b", "z"}) || p.Question != "1" {
			t.Errorf("%+v", p)
		}
		if got, err := db.Learn.Search(ctx, "p1", []string{"w2", "z"}, 10); err != nil || len(got) != 1 {
			t.Errorf("found %v, %v", got, err)
		}
		// Two tags are merged: a point with both has the result once.
		if n, err := db.Learn.RenameTag(ctx, "p1", "b", "z", 10, wordsOf); err != nil || n != 3 {
			t.Fatalf("%d, %v", n, err)
		}
		if got := tagsOf(t, db, "p1"); got != "z:4 " {
			t.Errorf("tags %s", got)
		}
		if list, err := db.Learn.Points(ctx, "p1", store.PointFilter{Tag: "z"}, begin, 10); err != nil ||
			len(list) != 3 || !slices.Equal(list[1].Tags, []string{"z"}) {
			t.Errorf("%+v, %v", list, err)
		}
		must(t, under.Finish(ctx, store.ImportEdits{})) // points imported meanwhile keep their tags
		if got := tagsOf(t, db, "p1"); got != "a:1 b:1 z:4 " {
			t.Errorf("tags %s", got)
		}
		if got := tagsOf(t, db, "p2"); got != "a:1 b:1 " {
			t.Errorf("another's tags %s", got)
		}
	})
}

// Concurrent changes of points whose tag is renamed are not lost, and the counts are right in the
// end.
func TestRenameTagWhileOthersWrite(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		var points []store.NewPoint
		for i := range 20 {
			points = append(points, newPoint(fmt.Sprint(i), "q"))
		}
		must(t, db.Learn.Add(ctx, "p1", points))
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := db.Learn.Change(ctx, "p1", fmt.Sprint(i),
					func(_ context.Context, c *store.PointChange) error {
						c.Point.Tags = append(slices.Clone(c.Point.Tags), "zz")
						c.Point.Card.Reps++
						return nil
					})
				if err != nil {
					t.Error(err)
				}
			})
		}
		for n := 3; n == 3; {
			var err error
			n, err = db.Learn.RenameTag(ctx, "p1", "a", "k", 3, wordsOf)
			must(t, err)
		}
		wg.Wait()
		if got := tagsOf(t, db, "p1"); got != "b:20 k:20 zz:20 " {
			t.Errorf("tags %s", got)
		}
		for i := range 20 {
			if p := mustPoint(t, db, fmt.Sprint(i)); !slices.Equal(p.Tags, []string{"b", "k", "zz"}) ||
				p.Card.Reps != 1 {
				t.Errorf("%v, %d", p.Tags, p.Card.Reps)
			}
		}
	})
}
