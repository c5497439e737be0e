package fit

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"patchbay/internal/plug/learn/fsrs"
)

// TestGradient compares the derivatives with differences.
func TestGradient(t *testing.T) {
	histories := [][]review{
		{{1, 0}, {3, 0}, {1, 0}, {4, 0}, {3, 1}, {2, 3}, {3, 4}},
		{{2, 0}, {4, 0}, {4, 0}, {3, 1}, {1, 3}, {3, 6}, {3, 11}},
		{{3, 0}, {2, 0}, {4, 0}, {3, 1}, {3, 3}, {3, 6}, {3, 12}},
		{{4, 0}, {4, 0}, {3, 1}, {3, 3}, {3, 5}, {4, 12}, {1, 23}},
		{{3, 0}, {1, 2}, {1, 0}, {3, 1}, {1, 1}, {2, 40}, {1, 300}},
	}
	for _, w := range []fsrs.Weights{fsrs.Published, newLearner(5, 1000).weights} {
		for n, history := range histories {
			var got gradient
			var steps []step
			newModel(&w).learn(history, 0.7, &steps, &got)
			for i := range w {
				const tiny = 1e-6
				at := func(delta float64) float64 {
					moved := w
					moved[i] += delta
					r, _, _ := newModel(&moved).recall(history, nil)
					return 0.7 * loss(r, history[len(history)-1].grade)
				}
				want := (at(tiny) - at(-tiny)) / (2 * tiny)
				if math.Abs(got[i]-want) > 1e-5*max(1, math.Abs(want)) {
					t.Errorf("history %d, w%d: the derivative is %v, want %v", n, i, got[i], want)
				}
			}
		}
	}
}

// TestFit fits a log, with any number of workers to the same result, and better than before.
func TestFit(t *testing.T) {
	l := newLearner(1, 6000)
	set := setOf(l.log(1, 6000))
	o := Options{SameDay: true, Relearn: 1}
	calls, last := 0, 0
	o.Progress = func(done, total int) {
		if calls++; done <= last || done > total {
			t.Errorf("progress %d after %d of %d", done, last, total)
		}
		last = done
	}
	w, err := Fit(t.Context(), set, o)
	if err != nil || calls == 0 {
		t.Fatal(err, calls)
	}
	if err := w.Validate(); err != nil {
		t.Error(err)
	}
	before, after := measured(t, set, fsrs.Published), measured(t, set, w)
	if after.LogLoss >= before.LogLoss || after.RMSE >= before.RMSE {
		t.Errorf("the fitted weights predict no better: %+v, before %+v", after, before)
	}
	o.Progress = nil
	for _, o.Workers = range []int{2, 3, 8} {
		if again, err := Fit(t.Context(), set, o); err != nil || again != w {
			t.Errorf("with %d workers: %v, %v; with one %v", o.Workers, again, err, w)
		}
	}
}

// TestCancel ends in the middle.
func TestCancel(t *testing.T) {
	l := newLearner(1, 3000)
	set := setOf(l.log(1, 3000))
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{SameDay: true, Workers: 2, Progress: func(int, int) { cancel() }}
	if _, err := Fit(ctx, set, o); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if _, err := set.Measure(ctx, fsrs.Published); !errors.Is(err, context.Canceled) {
		t.Errorf("the error of measuring is %v", err)
	}
}

// TestFewReviews checks what few reviews lead to.
func TestFewReviews(t *testing.T) {
	set := NewSet()
	if w, err := Fit(t.Context(), set, Options{}); err != nil || w != fsrs.Published {
		t.Error("no reviews", w, err)
	}
	if m := measured(t, set, fsrs.Published); m != (Measure{}) {
		t.Error("measure of no reviews", m)
	}
	for card := range 40 {
		set.Add(int64(card), fsrs.Good, -1)
		set.Add(int64(card), fsrs.Good, 0)
		set.Add(int64(card), []int{fsrs.Again, fsrs.Good, fsrs.Good}[card%3], 5)
	}
	if set.Reviews() != 120 || set.Items() != 40 {
		t.Fatal(set.Reviews(), set.Items())
	}
	w, err := Fit(t.Context(), set, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w[2] >= fsrs.Published[2] || w[2] < 0.1 || w[4] != fsrs.Published[4] {
		t.Errorf("of 40 cards, a third forgotten after 5 days: %v", w)
	}
}

// TestAdd checks what is an item.
func TestAdd(t *testing.T) {
	set := NewSet()
	set.Add(1, 0, -1)
	set.Add(1, 0, 3)  // not graded
	set.Add(1, 3, 9)  // an item
	set.Add(1, 9, 0)  // the same day
	set.Add(1, 3, -1) // begins anew
	set.Add(1, 1, 99999)
	want := [][]review{{{3, 0}, {3, 3}, {3, 9}, {4, 0}}, {{3, 0}, {1, maxElapsed}}}
	if !reflect.DeepEqual(set.cards, want) || !slices.Equal(set.items, []item{{0, 3}, {1, 2}}) {
		t.Error(set.cards, set.items)
	}
}

// TestFillStabilities compares with values of the reference (smooth_and_fill).
func TestFillStabilities(t *testing.T) {
	for _, c := range []struct {
		known  [4]float64
		counts [4]int
	}{
		{[4]float64{0.4, 0, 2, 8}, [4]int{9, 0, 9, 9}},
		{[4]float64{0.4, 1, 0, 8}, [4]int{9, 9, 0, 9}},
		{[4]float64{0.4, 0, 0, 8}, [4]int{9, 0, 0, 9}},
		{[4]float64{0, 1, 2, 0}, [4]int{0, 9, 9, 0}},
		{[4]float64{0, 1, 0, 8}, [4]int{0, 9, 0, 9}},
		{[4]float64{0, 0, 2, 8}, [4]int{0, 0, 9, 9}},
		{[4]float64{0.4, 1, 0, 0}, [4]int{9, 9, 0, 0}},
		{[4]float64{0.4, 0, 2, 0}, [4]int{9, 0, 9, 0}},
		{[4]float64{0, 0, 5, 0}, [4]int{0, 0, 9, 0}},
		{[4]float64{3, 0, 2, 0}, [4]int{9, 0, 19, 0}},
		{[4]float64{}, [4]int{}},
	} {
		got := fillStabilities(c.known, c.counts)
		if got[1] < got[0]-1e-9 || got[2] < got[1]-1e-9 || got[3] < got[2]-1e-9 {
			t.Errorf("%v: %v do not rise", c.known, got)
		}
		for i := range got {
			if c.known[i] > 0 && got[i] != c.known[i] && c.known != [4]float64{3, 0, 2, 0} {
				t.Errorf("%v: %v changes what is known", c.known, got)
			}
		}
		inner := math.Pow(got[0], lower)*math.Pow(got[2], 1-lower) - got[1]
		outer := math.Pow(got[1], 1-upper)*math.Pow(got[3], upper) - got[2]
		if c.counts[0]+c.counts[1]+c.counts[2]+c.counts[3] == 18 && (math.Abs(inner) > 1e-9 || math.Abs(outer) > 1e-9) {
			t.Errorf("%v: %v are off by %v and %v", c.known, got, inner, outer)
		}
	}
}

func FuzzSet(f *testing.F) {
	f.Add([]byte{1, 3, 255, 1, 3, 9, 1, 1, 200})
	f.Fuzz(func(t *testing.T, log []byte) {
		set := NewSet()
		for ; len(log) >= 3; log = log[3:] {
			set.Add(int64(log[0]%8), int(int8(log[1])), int(int8(log[2]))*300)
		}
		w, err := Fit(t.Context(), set, Options{SameDay: len(log) == 1, Relearn: len(log)})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Validate(); err != nil {
			t.Error(err)
		}
		if m := measured(t, set, w); math.IsNaN(m.LogLoss) || math.IsNaN(m.RMSE) {
			t.Error(m)
		}
	})
}

// BenchmarkFit fits 100,000 reviews.
func BenchmarkFit(b *testing.B) {
	l := newLearner(7, 100_000)
	l.days, l.most, l.fresh = 3000, 1000, 12
	log := l.log(7, 100_000)
	for _, workers := range []int{1, 2} {
		b.Run(strconv.Itoa(workers), func(b *testing.B) {
			for b.Loop() {
				set := setOf(log)
				w, err := Fit(b.Context(), set, Options{SameDay: true, Relearn: 1, Workers: workers})
				if err != nil {
					b.Fatal(err)
				}
				for _, w := range []fsrs.Weights{fsrs.Published, w} {
					if _, err := set.Measure(b.Context(), w); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(set.Reviews()), "reviews")
				b.ReportMetric(float64(set.Items()), "items")
			}
		})
	}
}
