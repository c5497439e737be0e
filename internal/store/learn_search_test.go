package store_test

import (
	"fmt"
	"slices"
	"testing"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Words that are searched together, in several passes, find the same points as each by itself.
func TestSearchEachAsSearch(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		var points []store.NewPoint
		for i := range 600 {
			words := []string{"every"}
			for name, is := range map[string]bool{"often": i%3 == 0, "old": i < 100, "new": i > 570, "seldom": i%97 == 0,
				"other": i%3 == 1 && i < 400} {
				if is {
					words = append(words, name)
				}
			}
			points = append(points, newPoint(fmt.Sprint(i), "one?", words...))
		}
		must(t, db.Learn.Add(ctx, "p1", points))
		for _, words := range [][]string{
			{"every", "often", "old", "new", "seldom", "other", "none"}, {"old", "often"}, {"seldom", "new", "o*"}, {"old"},
		} {
			for _, limit := range []int{5, 20, 100, 1000} {
				found, err := db.Learn.SearchEach(ctx, "p1", words, limit)
				must(t, err)
				for i, word := range words {
					alone, err := db.Learn.Search(ctx, "p1", []string{word}, limit)
					must(t, err)
					if !slices.Equal(found[i], alone) {
						t.Errorf("%s of %v, at most %d: found %d together and %d alone", word, words, limit, len(found[i]), len(alone))
					}
				}
			}
		}
	})
}
