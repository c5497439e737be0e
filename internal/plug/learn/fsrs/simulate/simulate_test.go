package simulate

import (
	"context"
	"errors"
	"math"
	"testing"

	"patchbay/internal/plug/learn/fsrs"
)

func learner() Options {
	return Options{Weights: fsrs.Published, New: 2000, Days: 365, NewPerDay: 10, ReviewsPerDay: 200, MaxInterval: 36500,
		Steps: 1, Relearn: 1, Seconds: 10, Seed: 1}
}

func run(t *testing.T, o Options, retention float64) Result {
	t.Helper()
	r, err := Run(t.Context(), o, retention)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMoreRetentionCostsMore checks what a higher retention costs and brings.
func TestMoreRetentionCostsMore(t *testing.T) {
	before := Result{}
	for _, retention := range []float64{0.80, 0.85, 0.90, 0.95, 0.97} {
		r := run(t, learner(), retention)
		if r.Reviews <= before.Reviews || r.Minutes <= before.Minutes || r.Remembered <= before.Remembered {
			t.Errorf("with %v there is less work or memory than with less: %+v, %+v", retention, r, before)
		}
		if r.Learned != 2000 || r.Remembered > 2000 || math.Abs(r.Minutes-r.Reviews/6) > 1e-9 {
			t.Errorf("%+v", r)
		}
		if again := run(t, learner(), retention); again != r {
			t.Errorf("the same learner worked differently: %+v, %+v", again, r)
		}
		before = r
	}
}

// TestLimits checks the limits of a day.
func TestLimits(t *testing.T) {
	o := learner()
	o.NewPerDay = 0
	for range 1000 {
		o.Cards = append(o.Cards, Card{Memory: fsrs.Memory{Stability: 1000, Difficulty: 5}, Last: -500, Due: -100})
	}
	o.ReviewsPerDay, o.Days, o.Relearn = 50, 10, 0
	if r := run(t, o, 0.9); r.Reviews != 50 || r.Learned != 1000 {
		t.Errorf("%+v; 50 reviews a day are allowed", r)
	}
	o.ReviewsPerDay, o.Days = 5000, 1
	if r := run(t, o, 0.9); r.Reviews != 1000 || r.Remembered < Remembered(&o.Weights, o.Cards, 1) {
		t.Errorf("%+v; all 1,000 are due on the first day", r)
	}
	if o.Cards[0].Last != -500 {
		t.Error("the options were changed")
	}
	o.Days = 0
	if r := run(t, o, 0.9); r.Reviews != 0 {
		t.Errorf("no days: %+v", r)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, learner(), 0.9); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
