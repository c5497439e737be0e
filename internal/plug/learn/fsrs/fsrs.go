// Package fsrs is FSRS-6, the published model of how a memory fades: from the
// grades of its reviews it estimates how long a memory holds, and from that when it
// should be asked for again. It is arithmetic alone, without clocks, dates or chance.
//
// All functions may be called concurrently, take any number without panicking, and
// return numbers within the limits of [Memory]; only weights that pass
// [Weights.Validate] make the numbers mean something.
package fsrs

import (
	"math"

	"patchbay/internal/talk"
)

// Grades of a review. What lies outside counts as the nearest.
const (
	Again = 1 // forgotten
	Hard  = 2
	Good  = 3
	Easy  = 4
)

// The limits of a memory, as they were published.
const (
	minStability  = 0.001
	maxStability  = 36500
	minDifficulty = 1
	maxDifficulty = 10
	// minFirst keeps a point that was forgotten at its first review from being asked
	// for again within minutes for ever.
	minFirst = 0.1
)

// Weights are the parameters w0 to w20.
type Weights [21]float64

// Published are the weights that were fitted to the reviews of very many learners.
var Published = Weights{
	0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796,
	1.4835, 0.0614, 0.2629, 1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542,
}

// bounds are the ranges to which the published optimisers hold the weights.
var bounds = [len(Weights{})][2]float64{
	{minStability, 100}, {minStability, 100}, {minStability, 100}, {minStability, 100},
	{1, 10}, {0.001, 4}, {0.001, 4}, {0.001, 0.75},
	{0, 4.5}, {0, 0.8}, {0.001, 3.5},
	{0.001, 5}, {0.001, 0.25}, {0.001, 0.9}, {0, 4},
	{0, 1}, {1, 6},
	{0, 2}, {0, 2}, {0, 0.8},
	{0.1, 0.8},
}

var sayWeight = talk.Say{Zh: "w%d 是 %v；要在 %v 到 %v 之间", En: "w%d is %v; it must be from %v to %v"}

// Validate says which weight is outside the range that the published optimisers
// allow for it.
func (w *Weights) Validate() error {
	for i, b := range bounds {
		if !(w[i] >= b[0] && w[i] <= b[1]) { // so that NaN fails
			return sayWeight.Wrong(i, w[i], b[0], b[1])
		}
	}
	return nil
}

// Memory is the state of one memory.
type Memory struct {
	Stability  float64 // days until it is recalled with 90 %, from 0.001 to 36500
	Difficulty float64 // from 1 to 10
}

// First is the memory after its first review.
func (w *Weights) First(g int) Memory {
	g = grade(g)
	return Memory{max(stability(w[g-1]), minFirst), difficulty(w.firstDifficulty(g))}
}

// Next is the memory after a review that came elapsed whole days after the one
// before; fewer than 0 count as 0. sameDay is for learners who repeat within minutes:
// reviews on the day of the one before then have a formula of their own, and a
// forgotten memory ends a little shorter. Without it, recalling something again on
// one day adds no stability.
func (w *Weights) Next(m Memory, elapsed int, g int, sameDay bool) Memory {
	g = grade(g)
	m.Stability, m.Difficulty = stability(m.Stability), difficulty(m.Difficulty)
	elapsed = max(elapsed, 0)
	next := Memory{Difficulty: w.nextDifficulty(m.Difficulty, g)}
	switch {
	case sameDay && elapsed == 0:
		next.Stability = w.repeated(m.Stability, g)
	case g == Again:
		next.Stability = w.forgotten(m, w.Retrievability(float64(elapsed), m.Stability), sameDay)
	default:
		next.Stability = w.recalled(m, w.Retrievability(float64(elapsed), m.Stability), g)
	}
	next.Stability = stability(next.Stability)
	return next
}

// Retrievability is how likely a memory of that stability is recalled after elapsed
// days, from 0 to 1.
func (w *Weights) Retrievability(elapsed, s float64) float64 {
	if !(elapsed > 0) {
		return 1
	}
	decay := -w[20]
	return min(math.Pow(1+w.factor()*elapsed/stability(s), decay), 1)
}

// Interval is after how many days a memory of that stability is recalled with the
// probability retention, which lies between 0 and 1. It is neither rounded nor
// limited.
func (w *Weights) Interval(s, retention float64) float64 {
	decay := -w[20]
	return stability(s) / w.factor() * (math.Pow(retention, 1/decay) - 1)
}

// factor makes the retrievability 90 % when as many days have passed as the
// stability has.
func (w *Weights) factor() float64 { return math.Pow(0.9, -1/w[20]) - 1 }

func (w *Weights) firstDifficulty(g int) float64 {
	return w[4] - math.Exp(w[5]*float64(g-1)) + 1
}

// nextDifficulty moves less the nearer it is to its upper end, and is drawn a
// little to what an easy first review gives.
func (w *Weights) nextDifficulty(d float64, g int) float64 {
	moved := d - w[6]*float64(g-Good)*(maxDifficulty-d)/9
	return difficulty(w[7]*w.firstDifficulty(Easy) + (1-w[7])*moved)
}

func (w *Weights) recalled(m Memory, r float64, g int) float64 {
	grow := math.Exp(w[8]) * (11 - m.Difficulty) * math.Pow(m.Stability, -w[9]) * math.Expm1((1-r)*w[10])
	switch g {
	case Hard:
		grow *= w[15]
	case Easy:
		grow *= w[16]
	}
	return m.Stability * (1 + grow)
}

func (w *Weights) forgotten(m Memory, r float64, sameDay bool) float64 {
	left := w[11] * math.Pow(m.Difficulty, -w[12]) * (math.Pow(m.Stability+1, w[13]) - 1) * math.Exp((1-r)*w[14])
	most := m.Stability
	if sameDay {
		most /= math.Exp(w[17] * w[18])
	}
	return min(left, most)
}

func (w *Weights) repeated(s float64, g int) float64 {
	c := math.Exp(w[17]*(float64(g-Good)+w[18])) * math.Pow(s, -w[19])
	if g >= Hard {
		c = max(c, 1)
	}
	return s * c
}

func grade(g int) int { return min(max(g, Again), Easy) }

func stability(s float64) float64 { return clamp(s, minStability, maxStability) }

func difficulty(d float64) float64 { return clamp(d, minDifficulty, maxDifficulty) }

// clamp takes what is no number for the least.
func clamp(x, least, most float64) float64 {
	if !(x >= least) {
		return least
	}
	return min(x, most)
}
