package store_test

import (
	"database/sql"
	"reflect"
	"slices"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Points of which different columns change are written together, each as it was made.
// A tag is not empty and has no line break: the text of a point's tags has them between two.
func TestNoSuchTag(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		with := newPoint("2", "two?")
		with.Point.Tags = []string{"a", "b"}
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{newPoint("1", "one?"), with}))
		for _, tag := range []string{"", "a\nb"} {
			for _, not := range []bool{false, true} {
				f := store.Selection{Where: []store.Condition{{Field: store.FieldTag, Text: tag, Not: not}}}
				n, err := db.Learn.CountSelected(ctx, "p1", f, 0)
				if want := map[bool]int{true: 2}[not]; err != nil || n != want {
					t.Errorf("%q, not %v: %d points, %v; want %d", tag, not, n, err, want)
				}
			}
		}
	})
}

func TestChangeMany(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		list := []store.NewPoint{newPoint("1", "one?"), newPoint("2", "two?"), newPoint("3", "three?"),
			newPoint("4", "four?"), newPoint("5", "five?")}
		must(t, db.Learn.Add(ctx, "p1", list))
		var numbers []int64
		for _, n := range list {
			numbers = append(numbers, mustPoint(t, db, n.Point.ID).Number)
		}
		must(t, db.Learn.SaveVectors(ctx, "p1", "m", []store.Vector{{Point: numbers[3], Data: []byte("v"), Version: 1},
			{Point: numbers[4], Data: []byte("v"), Version: 1}}))
		var want []store.Point
		change := func(changes []*store.PointChange) (*store.BulkPart, error) {
			want = nil
			for i, c := range changes {
				p := &c.Point
				switch i {
				case 0, 1: // the same columns, of every type
					p.Suspended, p.Flag, p.Card.Stability = true, i+1, float64(i)+0.5
					p.Answer, p.Words = "answer "+p.ID, []string{"answer" + p.ID}
					if i == 1 {
						p.Deleted = time.UnixMilli(5000).UTC()
					}
				case 2:
					p.Tags = append(p.Tags, "new")
				case 3:
					p.Question = "another?"
				case 4:
					c.Unchanged = true
				}
				want = append(want, *p)
			}
			return nil, nil
		}
		must(t, db.Learn.ChangeMany(ctx, "p1", store.ManyPoints{Numbers: numbers, Plans: true}, change, nil))
		var got []store.Point
		read := store.ManyPoints{Numbers: numbers}
		must(t, db.Learn.ChangeMany(ctx, "p1", read, func(changes []*store.PointChange) (*store.BulkPart, error) {
			got = nil
			for i, c := range changes {
				got = append(got, c.Point)
				c.Unchanged = true
				if want[i].Words = nil; i != 4 && c.Point.Version != 2 || i == 4 && c.Point.Version != 1 {
					t.Errorf("point %d has version %d", i, c.Point.Version)
				}
				want[i].Version = c.Point.Version
			}
			return nil, nil
		}, nil))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%+v\nwant\n%+v", got, want)
		}
		left, err := db.Learn.Vectors(ctx, "p1", "m", 0, 10)
		if err != nil || len(left) != 1 || left[0].Point != numbers[4] {
			t.Errorf("vectors of texts that did not change: %+v, %v", left, err)
		}
		found, err := db.Learn.SearchEach(ctx, "p1", []string{"answer1", "nothing", "answer*"}, 10)
		for i := range found {
			slices.Sort(found[i])
		}
		if want := [][]int64{numbers[:1], nil, numbers[:2]}; err != nil || !reflect.DeepEqual(found, want) {
			t.Errorf("found %v, %v; want %v", found, err, want)
		}
		if found, err := db.Learn.SearchEach(ctx, "p1", nil, 10); err != nil || len(found) != 0 {
			t.Errorf("no words found %v, %v", found, err)
		}
	})
}

// Nothing is written if one of the points was changed by somebody else in between, each time.
func TestChangeManyIsStale(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		if o.URL == "" {
			t.Skip("SQLite has one writer")
		}
		db := seeded(t, o)
		other, err := sql.Open("pgx", o.URL)
		must(t, err)
		defer other.Close()
		must(t, db.Learn.Add(ctx, "p1", []store.NewPoint{newPoint("1", "one?"), newPoint("2", "two?")}))
		one, two := mustPoint(t, db, "1"), mustPoint(t, db, "2")
		tries := 0
		err = db.Learn.ChangeMany(ctx, "p1", store.ManyPoints{Numbers: []int64{one.Number, two.Number}, Plans: true},
			func(changes []*store.PointChange) (*store.BulkPart, error) {
				tries++
				for _, c := range changes {
					c.Point.Flag = 3
				}
				if tries == 1 {
					_, err := other.ExecContext(ctx, `UPDATE learn_points SET version = version + 1 WHERE number = $1`, two.Number)
					must(t, err)
				}
				return nil, nil
			}, nil)
		if err != nil || tries != 2 {
			t.Errorf("%d tries, %v; want 2", tries, err)
		}
		if p := mustPoint(t, db, "2"); p.Flag != 3 || p.Version != two.Version+2 {
			t.Errorf("flag %d, version %d", p.Flag, p.Version)
		}
	})
}
