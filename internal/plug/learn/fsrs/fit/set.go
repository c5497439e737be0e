package fit

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"patchbay/internal/plug/learn/fsrs"
)

// maxElapsed limits the days between two reviews, about a hundred years.
const maxElapsed = 36500

// review is a review as the model sees it.
type review struct {
	grade   uint8
	elapsed uint16 // days since the one before; 0: the same day
}

// item is a review to learn from, with the reviews of its card before it. Reviews on the same day
// as the one before are no items: they say little about memory.
type item struct {
	card   int32 // index in Set.cards
	length int32 // reviews up to and with this one
}

// Set holds the reviews to learn from. It needs about 30 bytes for each of them. It is not safe for
// concurrent changes.
type Set struct {
	cards   [][]review
	index   map[int64]int32
	items   []item // in the order in which they were added
	reviews int
}

// NewSet returns an empty set.
func NewSet() *Set { return &Set{index: map[int64]int32{}} }

// Add adds a review of a card. Reviews must be added in the order in which they happened. elapsed
// is the number of days since the card's review before; a negative number starts the card anew, as
// its first review does. A grade of 0 means that the review was not graded: it counts as good in
// the card's history, and nothing is learned from its result.
func (s *Set) Add(card int64, grade, elapsed int) {
	s.reviews++
	i, known := s.index[card]
	if !known || elapsed < 0 {
		i = int32(len(s.cards))
		s.index[card] = i
		s.cards = append(s.cards, nil)
		elapsed = 0
	}
	r := review{uint8(min(max(grade, fsrs.Again), fsrs.Easy)), uint16(min(max(elapsed, 0), maxElapsed))}
	if grade == 0 {
		r.grade = fsrs.Good
	}
	s.cards[i] = append(s.cards[i], r)
	if r.elapsed > 0 && grade != 0 {
		s.items = append(s.items, item{i, int32(len(s.cards[i]))})
	}
}

// Reviews returns the number of reviews.
func (s *Set) Reviews() int { return s.reviews }

// Items returns the number of reviews that can be learned from: those that were graded, and came at
// least a day after the card's review before.
func (s *Set) Items() int { return len(s.items) }

// Memories calls yield with each card, its memory after its last review, and how many reviews led
// to it. sameDay is that of [fsrs.Weights.Next].
func (s *Set) Memories(w *fsrs.Weights, sameDay bool, yield func(card int64, m fsrs.Memory, reviews int)) {
	for _, card := range slices.Sorted(maps.Keys(s.index)) {
		reviews := s.cards[s.index[card]]
		m := w.First(int(reviews[0].grade))
		for _, r := range reviews[1:] {
			m = w.Next(m, int(r.elapsed), int(r.grade), sameDay)
		}
		yield(card, m, len(reviews))
	}
}

// of returns the reviews of an item; the last one is the review to predict.
func (s *Set) of(it item) []review { return s.cards[it.card][:it.length] }

// days returns how many of the reviews came on another day than the one before.
func days(reviews []review) (n int) {
	for _, r := range reviews {
		if r.elapsed > 0 {
			n++
		}
	}
	return n
}

// second returns the first of the reviews that came on another day than the one before.
func second(reviews []review) review {
	for _, r := range reviews {
		if r.elapsed > 0 {
			return r
		}
	}
	return review{}
}

// Limits of outliers (compute_outlier_analysis in fsrs-rs src/dataset.rs). Of the cards with one
// first grade, the rarest waits until the second day are outliers: a twentieth of the cards, or 20;
// and those of fewer than minGroup cards, or longer than anybody plans.
const (
	minOutliers  = 20
	outlierShare = 20
	minGroup     = 6
	maxWait      = 100
	maxWaitEasy  = 365
)

// withoutOutliers returns the items of cards that are not outliers, in their order, and among them
// those of the second day of a card, by first grade and wait.
func (s *Set) withoutOutliers() (kept, seconds []item) {
	var groups [fsrs.Easy + 1]map[uint16][]item
	for _, it := range s.items {
		reviews := s.of(it)
		if days(reviews) != 1 {
			continue
		}
		g := reviews[0].grade
		if groups[g] == nil {
			groups[g] = map[uint16][]item{}
		}
		wait := reviews[len(reviews)-1].elapsed
		groups[g][wait] = append(groups[g][wait], it)
	}
	var removed [fsrs.Easy + 1]map[uint16]bool
	for g, byWait := range groups {
		var keep []item
		keep, removed[g] = splitOutliers(byWait, g)
		seconds = append(seconds, keep...)
	}
	for _, it := range s.items {
		if reviews := s.of(it); !removed[reviews[0].grade][second(reviews).elapsed] {
			kept = append(kept, it)
		}
	}
	return kept, seconds
}

// splitOutliers splits the second reviews of cards with one first grade.
func splitOutliers(byWait map[uint16][]item, grade int) (keep []item, removed map[uint16]bool) {
	total := 0
	for _, list := range byWait {
		total += len(list)
	}
	waits := slices.SortedFunc(maps.Keys(byWait), func(a, b uint16) int { // rare and short ones first
		return cmp.Or(cmp.Compare(len(byWait[a]), len(byWait[b])), cmp.Compare(a, b))
	})
	longest := uint16(maxWait)
	if grade == fsrs.Easy {
		longest = maxWaitEasy
	}
	removed = map[uint16]bool{}
	gone := 0
	for _, wait := range waits {
		list := byWait[wait]
		switch {
		case gone+len(list) < max(minOutliers, total/outlierShare):
			gone += len(list)
			removed[wait] = true
		case len(list) >= minGroup && wait <= longest:
			keep = append(keep, list...)
		default:
			removed[wait] = true
		}
	}
	return keep, removed
}

// recencyWeight returns the weight of the item with that index of n in order of time: old reviews
// count a quarter of the newest (recency_weighted_fsrs_items in fsrs-rs src/dataset.rs).
func recencyWeight(i, n int) float64 {
	return 0.25 + 0.75*math.Pow(float64(i)/max(float64(n-1), 1), 3)
}
