package store_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

var begin store.PointKey

// vectorOf returns a vector of the current version of a point.
func vectorOf(p store.Point, data ...byte) store.Vector {
	return store.Vector{Point: p.Number, Version: p.Version, Data: data}
}

func without(t *testing.T, db *store.DB, model string, after store.PointKey) []string {
	t.Helper()
	list, err := db.Learn.WithoutVector(ctx, "p1", model, after, 10)
	must(t, err)
	ids := []string{}
	for _, p := range list {
		ids = append(ids, p.ID)
	}
	return ids
}

func lacking(t *testing.T, db *store.DB, model, after string) []string {
	t.Helper()
	list, err := db.Learn.PeopleLackingVectors(ctx, model, after, 10)
	must(t, err)
	return list
}

func edit(t *testing.T, db *store.DB, id string, f func(*store.Point)) {
	t.Helper()
	_, err := db.Learn.Change(ctx, "p1", id, func(_ context.Context, c *store.PointChange) error {
		f(&c.Point)
		return nil
	})
	must(t, err)
}

func TestVectors(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.People.Add(ctx, store.Person{ID: "p2", Name: "bob", Role: "admin", Lang: "en", Created: now}))
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{newPoint("1", "why?"), newPoint("2", "who?"),
			newPoint("3", "when?")}))
		must(t, db.Learn.Add(ctx, "p2", []store.NewPoint{newPoint("1", "somebody else's")}))
		one, two, three := mustPoint(t, db, "1"), mustPoint(t, db, "2"), mustPoint(t, db, "3")
		check := func(what string, got, want any) {
			t.Helper()
			if a, ok := got.([]string); ok && !slices.Equal(a, want.([]string)) || !ok && got != want {
				t.Fatalf("%s: got %v, want %v", what, got, want)
			}
		}
		check("nobody has any", lacking(t, db, "m", ""), []string{"p1", "p2"})
		check("behind the first", lacking(t, db, "m", "p1"), []string{"p2"})
		check("points", without(t, db, "m", begin), []string{"1", "2", "3"})
		check("points behind", without(t, db, "m", store.PointKey{At: one.Created, Number: one.Number}),
			[]string{"2", "3"})

		// Vectors of others' points, of earlier texts and of deleted points are skipped; the rest
		// of the batch is stored.
		edit(t, db, "2", func(p *store.Point) { p.Answer = "she" })
		must(t, db.Learn.SaveVectors(ctx, "p2", "m", []store.Vector{vectorOf(one, 9)}))
		must(t, db.Learn.SaveVectors(ctx, "p1", "m", []store.Vector{vectorOf(one, 1, 2), vectorOf(two, 3, 4),
			{Point: 77, Version: 1, Data: []byte{1}}, vectorOf(three)}))
		list, err := db.Learn.Vectors(ctx, "p1", "m", 0, 10)
		must(t, err)
		if len(list) != 2 || list[0].Point != one.Number || !slices.Equal(list[0].Data, []byte{1, 2}) ||
			list[1].Point != three.Number || len(list[1].Data) != 0 {
			t.Fatalf("vectors %+v", list)
		}
		check("points", without(t, db, "m", begin), []string{"2"})
		check("by another model", without(t, db, "m2", begin), []string{"1", "2", "3"})
		n, last, err := db.Learn.VectorCount(ctx, "p1", "m")
		must(t, err)
		if n != 2 || last != three.Number {
			t.Fatalf("%d vectors until %d", n, last)
		}
		if n, last, err := db.Learn.VectorCount(ctx, "p1", "m2"); n != 0 || last != 0 || err != nil {
			t.Fatalf("%d vectors until %d, %v", n, last, err)
		}

		// Changes of other fields than the text keep the vector.
		edit(t, db, "1", func(p *store.Point) { p.Tags = []string{"c"}; p.Words = []string{"why"} })
		check("points", without(t, db, "m", begin), []string{"2"})
		edit(t, db, "1", func(p *store.Point) { p.Question = "why not?" })
		check("points", without(t, db, "m", begin), []string{"1", "2"})

		for _, id := range []string{"1", "2"} {
			must(t, db.Learn.SaveVectors(ctx, "p1", "m", []store.Vector{vectorOf(mustPoint(t, db, id), 5, 6)}))
		}
		check("all have one", lacking(t, db, "m", ""), []string{"p2"})
		// A person whose only point without a vector is in the trash may be listed; a person who
		// lacks one always is.
		edit(t, db, "3", func(p *store.Point) { p.Question = "when, then?"; p.Deleted = now })
		check("points", without(t, db, "m", begin), []string{})
		check("in the trash", lacking(t, db, "m", ""), []string{"p1", "p2"})
		_, err = db.Learn.EmptyTrash(ctx, "p1", now.Add(time.Hour))
		must(t, err)
		check("for good", lacking(t, db, "m", ""), []string{"p2"})
		// The vector of another model replaces it.
		must(t, db.Learn.SaveVectors(ctx, "p1", "m2", []store.Vector{vectorOf(mustPoint(t, db, "1"), 7)}))
		check("points", without(t, db, "m", begin), []string{"1"})
	})
}

// A text that changes while its vector is stored never gets the vector of the previous text.
func TestVectorsOfTextsThatChange(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{newPoint("1", "0"), newPoint("2", "0")}))
		var wg sync.WaitGroup
		for _, id := range []string{"1", "2"} {
			wg.Go(func() {
				for i := range 40 {
					_, err := db.Learn.Change(ctx, "p1", id, func(_ context.Context, c *store.PointChange) error {
						c.Point.Question = string(rune('0' + (i+1)%10))
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for more := true; more; {
			select {
			case <-done:
				more = false
			default:
			}
			points, err := db.Learn.WithoutVector(ctx, "p1", "m", begin, 10)
			must(t, err)
			var vectors []store.Vector
			for _, p := range points {
				vectors = append(vectors, vectorOf(p, []byte(p.Question)...))
			}
			must(t, db.Learn.SaveVectors(ctx, "p1", "m", vectors))
		}
		list, err := db.Learn.Vectors(ctx, "p1", "m", 0, 10)
		must(t, err)
		if len(list) != 2 {
			t.Fatalf("vectors %+v", list)
		}
		for _, v := range list {
			points, err := db.Learn.PointsByNumber(ctx, "p1", []int64{v.Point})
			must(t, err)
			if string(v.Data) != points[0].Question {
				t.Errorf("the text is %q, and its vector is of %q", points[0].Question, v.Data)
			}
		}
	})
}
