package fit

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"patchbay/internal/plug/learn/fsrs"
)

// Measure says how well weights predict reviews; less is better.
type Measure struct {
	LogLoss float64 `json:"log_loss"`
	// RMSE is the root mean square difference between predicted and actual recall, of reviews with
	// similar waits, numbers of reviews and lapses.
	RMSE float64 `json:"rmse"`
}

// bin is a group of similar reviews.
type bin struct{ wait, length, lapses int }

// binOf returns the group of a review (r_matrix_index in fsrs-rs src/dataset.rs).
func binOf(reviews []review) bin {
	last, lapses := reviews[len(reviews)-1], 0
	for _, r := range reviews[:len(reviews)-1] {
		if r.grade == fsrs.Again && r.elapsed > 0 {
			lapses++
		}
	}
	round := func(scale, base float64, n int) int {
		return int(math.Round(scale * math.Pow(base, math.Floor(math.Log(float64(n))/math.Log(base)))))
	}
	b := bin{wait: round(248, 3.62, int(last.elapsed)), length: round(1.99, 1.89, days(reviews)+1)}
	if lapses > 0 {
		b.lapses = round(1.65, 1.73, lapses)
	}
	return b
}

// measureEvery is how many items are measured between two looks at the context.
const measureEvery = 1024

// Measure returns how well weights predict the reviews of the set. Recent reviews count more
// (FSRS::evaluate in fsrs-rs src/inference.rs). Without items both numbers are 0. The error is the
// context's.
func (s *Set) Measure(ctx context.Context, w fsrs.Weights) (Measure, error) {
	return s.measure(ctx, s.items, w)
}

func (s *Set) measure(ctx context.Context, items []item, w fsrs.Weights) (Measure, error) {
	type sums struct{ predicted, actual, n, weight float64 }
	bins := map[bin]*sums{}
	m := newModel(&w)
	var total, weights float64
	for i, it := range items {
		if i%measureEvery == 0 && ctx.Err() != nil {
			return Measure{}, ctx.Err()
		}
		reviews := s.of(it)
		grade, weight := reviews[len(reviews)-1].grade, recencyWeight(i, len(items))
		r, _, _ := m.recall(reviews, nil)
		total += weight * loss(r, grade)
		weights += weight
		b := binOf(reviews)
		sum := bins[b]
		if sum == nil {
			sum = &sums{}
			bins[b] = sum
		}
		sum.predicted += r
		if grade > fsrs.Again {
			sum.actual++
		}
		sum.n++
		sum.weight += weight
	}
	if weights == 0 {
		return Measure{}, nil
	}
	// Sums of floating-point numbers depend on their order, and that of a map changes.
	keys := slices.SortedFunc(maps.Keys(bins), func(a, b bin) int {
		return cmp.Or(cmp.Compare(a.wait, b.wait), cmp.Compare(a.length, b.length), cmp.Compare(a.lapses, b.lapses))
	})
	var squares float64
	for _, k := range keys {
		sum := bins[k]
		wrong := (sum.predicted - sum.actual) / sum.n
		squares += wrong * wrong * sum.weight
	}
	return Measure{LogLoss: total / weights, RMSE: math.Sqrt(squares / weights)}, nil
}
