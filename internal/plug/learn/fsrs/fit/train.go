package fit

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"patchbay/internal/plug/learn/fsrs"
)

// Parameters of the training (TrainingConfig and HostAdam in fsrs-rs src/training.rs).
const (
	epochs       = 5
	batchSize    = 512
	maxLength    = 256 // reviews of a history; longer ones are not learned from
	learningRate = 4e-2
	beta1, beta2 = 0.9, 0.999
	epsilon      = 1e-8
)

// deviations are the standard deviations of the weights among learners (PARAMS_STDDEV in fsrs-rs
// src/training.rs). The penalty for leaving the starting weights is measured in them.
var deviations = fsrs.Weights{
	6.43, 9.66, 17.58, 27.85, 0.57, 0.28, 0.6, 0.12, 0.39, 0.18, 0.33, 0.3, 0.09, 0.16, 0.57, 0.25, 1.03,
	0.31, 0.32, 0.14, 0.27,
}

// weighted is an item with its weight in the loss.
type weighted struct {
	item
	weight float64
}

// trainer fits weights by stochastic gradient descent with Adam.
type trainer struct {
	set     *Set
	o       Options
	start   fsrs.Weights
	w       fsrs.Weights
	batches [][]weighted
	total   int

	mean, square gradient // Adam's moments
	steps        int
	workers      []worker
}

// worker is what a goroutine needs.
type worker struct {
	steps []step
}

// train returns the weights of the epoch with the least loss.
func train(ctx context.Context, set *Set, items []item, start fsrs.Weights, o Options) (fsrs.Weights, error) {
	t := &trainer{set: set, o: o, start: start, workers: make([]worker, max(o.Workers, 1))}
	if !o.SameDay {
		t.start[17], t.start[18], t.start[19] = 0, 0, 0
	}
	t.w = t.start
	t.makeBatches(items)
	order := newShuffler(orderSeed)
	indexes := make([]int, len(t.batches))
	steps := (t.total/batchSize + 1) * epochs
	done := 0
	best, least := t.w, math.Inf(1)
	for range epochs {
		for i := range indexes {
			indexes[i] = i
		}
		order.shuffle(indexes)
		for _, i := range indexes {
			if err := ctx.Err(); err != nil {
				return t.w, err
			}
			t.step(t.batches[i], learningRate*(1+math.Cos(math.Pi*float64(t.steps)/float64(steps)))/2)
			done += len(t.batches[i])
			if o.Progress != nil {
				o.Progress(done, t.total*epochs)
			}
		}
		if loss := t.loss(); loss < least {
			best, least = t.w, loss
		}
	}
	return best, nil
}

// makeBatches puts items with histories of similar length together, as the reference does.
func (t *trainer) makeBatches(items []item) {
	list := make([]weighted, 0, len(items))
	for i, it := range items {
		if it.length <= maxLength {
			list = append(list, weighted{it, recencyWeight(i, len(items))})
		}
	}
	slices.SortStableFunc(list, func(a, b weighted) int { return cmp.Compare(a.length, b.length) })
	t.total = len(list)
	t.batches = slices.Collect(slices.Chunk(list, batchSize))
}

// step moves the weights by the gradient of one batch.
func (t *trainer) step(batch []weighted, rate float64) {
	g := t.gradient(batch)
	share := float64(len(batch)) / float64(t.total)
	for i := range g {
		g[i] += 2 * (t.w[i] - t.start[i]) / (deviations[i] * deviations[i]) * share
	}
	if !t.o.SameDay {
		clear(g[:4])
		clear(g[17:20])
	}
	t.steps++
	for i := range g {
		t.mean[i] = beta1*t.mean[i] + (1-beta1)*g[i]
		t.square[i] = beta2*t.square[i] + (1-beta2)*g[i]*g[i]
		mean := t.mean[i] / (1 - math.Pow(beta1, float64(t.steps)))
		square := t.square[i] / (1 - math.Pow(beta2, float64(t.steps)))
		t.w[i] -= rate * mean / (math.Sqrt(square) + epsilon)
	}
	clip(&t.w, t.o)
}

// gradient returns the gradient of the loss of a batch, without the penalty.
func (t *trainer) gradient(batch []weighted) (sum gradient) {
	m := newModel(&t.w)
	parts := make([]gradient, parts(batch))
	t.share(batch, func(w *worker, part int, it weighted) {
		m.learn(t.set.of(it.item), it.weight, &w.steps, &parts[part])
	})
	for i := range parts {
		for k := range sum {
			sum[k] += parts[i][k]
		}
	}
	return sum
}

// loss returns the loss of all items, with the penalty.
func (t *trainer) loss() (sum float64) {
	m := newModel(&t.w)
	for _, batch := range t.batches {
		parts := make([]float64, parts(batch))
		t.share(batch, func(_ *worker, part int, it weighted) {
			reviews := t.set.of(it.item)
			r, _, _ := m.recall(reviews, nil)
			parts[part] += it.weight * loss(r, reviews[len(reviews)-1].grade)
		})
		for _, x := range parts {
			sum += x
		}
	}
	for i := range t.w {
		far := (t.w[i] - t.start[i]) / deviations[i]
		sum += far * far
	}
	return sum
}

// chunk is how many items are summed up by one goroutine. The sums are added in the order of the
// chunks, so that rounding does not depend on the number of workers.
const chunk = 32

func parts(batch []weighted) int { return (len(batch) + chunk - 1) / chunk }

// share calls do for each item, with the number of its chunk. Items of one chunk are passed to one
// worker, in their order.
func (t *trainer) share(batch []weighted, do func(w *worker, part int, it weighted)) {
	work := func(n int) {
		for part := n; part < parts(batch); part += len(t.workers) {
			for _, it := range batch[part*chunk : min((part+1)*chunk, len(batch))] {
				do(&t.workers[n], part, it)
			}
		}
	}
	var group sync.WaitGroup
	for n := 1; n < len(t.workers); n++ {
		group.Go(func() { work(n) })
	}
	work(0)
	group.Wait()
}

// limits are the ranges of the weights (clip_parameters_in_place in fsrs-rs
// src/parameter_clipper.rs).
var limits = [len(fsrs.Weights{})][2]float64{
	{minStability, maxFirst}, {minStability, maxFirst}, {minStability, maxFirst}, {minStability, maxFirst},
	{minDifficulty, maxDifficulty}, {0.001, 4}, {0.001, 4}, {0.001, 0.75},
	{0, 4.5}, {0, 0.8}, {0.001, 3.5},
	{0.001, 5}, {0.001, 0.25}, {0.001, 0.9}, {0, 4},
	{0, 1}, {1, 6},
	{0, 2}, {0, 2}, {0, 0.8},
	{0.1, 0.8},
}

// minSameDayPower is the least w19 if reviews on the same day are fitted.
const minSameDayPower = 0.01

// clip moves weights into their ranges. With several relearning steps, w17 and w18 are limited so
// that a point that is forgotten and relearned does not become more stable: with difficulty 1,
// recall 0.7 and stability 1, Relearn·w17·w18 is at most −ln(w11·(2^w13−1)·e^(0.3·w14)).
func clip(w *fsrs.Weights, o Options) {
	repeated := limits[17][1]
	if o.Relearn > 1 {
		left := -(math.Log(w[11]) + math.Log(math.Exp2(w[13])-1) + w[14]*0.3) / float64(o.Relearn)
		repeated = min(math.Sqrt(max(left, 0.01)), repeated)
	}
	for i, l := range limits {
		w[i] = min(max(w[i], l[0]), l[1])
	}
	w[17], w[18] = min(w[17], repeated), min(w[18], repeated)
	if o.SameDay {
		w[19] = max(w[19], minSameDayPower)
	}
}
