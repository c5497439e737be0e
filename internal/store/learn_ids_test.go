package store_test

import (
	"fmt"
	"slices"
	"testing"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// IDs that are wanted by many, or taken already, are those that come next.
func TestGiveIDs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.People.Add(ctx, store.Person{ID: "p2", Name: "bob", Role: "member", Lang: "en", Created: now}))
		const many = 120 // several statements
		var list []store.NewPoint
		for i := range many {
			list = append(list, newPoint(fmt.Sprint(i), "q", "word"))
		}
		must(t, db.Learn.Add(ctx, "p1", list))
		must(t, db.Learn.Add(ctx, "p2", []store.NewPoint{newPoint("other", "q", "word")}))
		theirs, err := db.Learn.Points(ctx, "p2", store.PointFilter{}, store.PointKey{}, 1)
		must(t, err)
		cards := store.Numbering{Kind: store.IDOfCard}
		number := func(i int) int64 { return list[i].Point.Number }
		must(t, db.Learn.GiveIDs(ctx, "p1", cards, []store.NewID{{1002, number(0)}, {1005, number(1)}, {1006, number(2)}}))
		wanted := []store.NewID{{1000, 5}, {1000, theirs[0].Number}, {7, number(0)}, {2000, number(3)}}
		for i := 4; i < many; i++ {
			wanted = append(wanted, store.NewID{Wanted: 1000, Number: number(i)})
		}
		must(t, db.Learn.GiveIDs(ctx, "p1", cards, wanted))
		var numbers []int64
		for i := range list {
			numbers = append(numbers, number(i))
		}
		ids, err := db.Learn.IDsOf(ctx, "p1", cards, append(numbers, theirs[0].Number))
		must(t, err)
		if len(ids) != many {
			t.Errorf("%d have IDs", len(ids))
		}
		for i, want := range []int64{1002, 1005, 1006, 2000} {
			if got := ids[number(i)]; got != want {
				t.Errorf("%d has %d, want %d", i, got, want)
			}
		}
		last := int64(999)
		for i := 4; i < many; i++ {
			id := ids[number(i)]
			if id <= last || slices.Contains([]int64{1002, 1005, 1006, 2000}, id) || id > 1000+many+5 {
				t.Fatalf("%d has %d, after %d", i, id, last)
			}
			last = id
		}
		left := 0
		must(t, db.Learn.ScanUnnumbered(ctx, "p1", cards, func(store.Unnumbered) { left++ }))
		if left != 0 {
			t.Errorf("%d have no ID", left)
		}
		some, err := db.Learn.UnnumberedOf(ctx, "p1", store.Numbering{Kind: store.IDOfNote}, numbers[:3])
		must(t, err)
		if len(some) != 3 {
			t.Errorf("%d points are notes without an ID", len(some))
		}
	})
}
