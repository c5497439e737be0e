// Package fit finds the weights of FSRS-6 that explain a learner's own reviews best, and measures
// how well weights explain them. It follows the reference optimizer, fsrs-rs: the same reviews are
// learned from, with the same loss, penalty, schedule of learning rates and limits.
//
// The same reviews and options always give the same weights, on any number of processors.
//
// Comments cite github.com/open-spaced-repetition/fsrs-rs at 0cbb9d3 as fsrs-rs.
package fit

import (
	"context"
	"math"

	"patchbay/internal/plug/learn/fsrs"
)

// Minimum numbers of items: below minItems the published weights are returned, below minTraining
// (or if all items are second reviews) only the stabilities after the first review are fitted
// (compute_parameters in fsrs-rs src/training.rs).
const (
	minItems    = 8
	minTraining = 64
)

// Options configure [Fit].
type Options struct {
	// SameDay fits the weights of reviews on the same day too; without it, w17 to w19 become 0 and
	// the stabilities after the first review are only estimated (enable_short_term in fsrs-rs).
	SameDay bool
	// Relearn is the number of relearning steps. With several, forgetting and relearning a point on
	// one day must not make it more stable than it was.
	Relearn int
	// Workers is how many goroutines compute; 0: one. The result does not depend on it.
	Workers int
	// Progress is called now and then with the number of processed items; nil: it is not.
	Progress func(done, total int)
}

// Fit returns the weights that explain the reviews best. It returns [fsrs.Published] if there are
// too few of them, and the context's error if that ends first.
func Fit(ctx context.Context, set *Set, o Options) (fsrs.Weights, error) {
	items, seconds := set.withoutOutliers()
	if len(items) < minItems {
		return fsrs.Published, nil
	}
	start := fsrs.Published
	first, counts, ok := set.firstStabilities(items, seconds)
	if !ok {
		return fsrs.Published, nil
	}
	copy(start[:], first[:])
	if len(items) < minTraining || len(items) == len(seconds) {
		return start, nil
	}
	w, err := train(ctx, set, items, start, o)
	if err != nil {
		return w, err
	}
	for _, x := range w {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return start, nil
		}
	}
	var known [4]float64
	for i := range known {
		if counts[i] > 0 {
			known[i] = w[i]
		}
	}
	last := fillStabilities(known, counts)
	copy(w[:], last[:])
	return w, nil
}
