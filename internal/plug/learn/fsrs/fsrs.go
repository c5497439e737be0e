// Package fsrs implements FSRS-6, the memory model of open-spaced-repetition. From the grades of a
// point's reviews it estimates how long the memory lasts and when the next review is due. It is
// pure arithmetic, without clocks, dates or randomness.
//
// All functions are safe for concurrent use, accept any number without panicking, and return
// numbers within the limits of [Memory]. The results are meaningful only for weights that pass
// [Weights.Validate].
//
// Comments cite two implementations: py-fsrs is github.com/open-spaced-repetition/py-fsrs at
// 3abe686 (6.3.1), go-fsrs is github.com/open-spaced-repetition/go-fsrs at 81c1d8c (4.0.0-rc1).
package fsrs

import (
	"math"

	"patchbay/internal/i18n"
)

// Grades of a review (Rating in py-fsrs fsrs/rating.py). Other values count as the nearest grade.
const (
	Again = 1 // forgotten
	Hard  = 2
	Good  = 3
	Easy  = 4
)

// Limits of a memory: sMin, sMax, dMin and dMax of go-fsrs arithmetic.go; STABILITY_MIN,
// MIN_DIFFICULTY and MAX_DIFFICULTY of py-fsrs fsrs/scheduler.py are the same. Stability is in
// days.
const (
	minStability  = 0.001
	maxStability  = 36500
	minDifficulty = 1
	maxDifficulty = 10
	// minFirst is the least stability after the first review, in days (go-fsrs arithmetic.go,
	// initStability). It keeps a forgotten new point from coming back every few minutes.
	minFirst = 0.1
)

// Weights are the parameters w0 to w20.
type Weights [21]float64

// Published are the default weights of FSRS-6 (DEFAULT_PARAMETERS in py-fsrs fsrs/scheduler.py),
// which were fitted to the reviews of many learners.
var Published = Weights{
	0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796,
	1.4835, 0.0614, 0.2629, 1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542,
}

// bounds are the valid ranges of the weights (LOWER_BOUNDS_PARAMETERS and UPPER_BOUNDS_PARAMETERS
// in py-fsrs fsrs/scheduler.py).
var bounds = [len(Weights{})][2]float64{
	{minStability, 100}, {minStability, 100}, {minStability, 100}, {minStability, 100},
	{1, 10}, {0.001, 4}, {0.001, 4}, {0.001, 0.75},
	{0, 4.5}, {0, 0.8}, {0.001, 3.5},
	{0.001, 5}, {0.001, 0.25}, {0.001, 0.9}, {0, 4},
	{0, 1}, {1, 6},
	{0, 2}, {0, 2}, {0, 0.8},
	{0.1, 0.8},
}

const msgWeight = i18n.Message("w%d is %v; it must be from %v to %v")

// Validate returns an error that names the first weight outside its range.
func (w *Weights) Validate() error {
	for i, b := range bounds {
		if !(w[i] >= b[0] && w[i] <= b[1]) { // so that NaN fails
			return msgWeight.Errorf(i, w[i], b[0], b[1])
		}
	}
	return nil
}

// Memory is the memory state of one point.
type Memory struct {
	Stability  float64 // days until recall probability falls to 90 %; 0.001 to 36500
	Difficulty float64 // 1 to 10
}

// First returns the memory after the first review.
func (w *Weights) First(g int) Memory {
	g = grade(g)
	return Memory{max(stability(w[g-1]), minFirst), difficulty(w.firstDifficulty(g))}
}

// Next returns the memory after a review that came elapsed whole days after the one before;
// negative values count as 0. sameDay is for learners who repeat within minutes: reviews on the
// same day then have a formula of their own, and the stability after forgetting is limited to a
// slightly lower value (_short_term_stability and _next_forget_stability in py-fsrs
// fsrs/scheduler.py). Without sameDay, another successful review on the same day adds no stability.
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

// Retrievability returns the probability, from 0 to 1, that a memory of stability s is recalled
// after elapsed days.
func (w *Weights) Retrievability(elapsed, s float64) float64 {
	if !(elapsed > 0) {
		return 1
	}
	decay := -w[20]
	return min(math.Pow(1+w.factor()*elapsed/stability(s), decay), 1)
}

// Interval returns the number of days after which a memory of stability s is recalled with the
// probability retention, which lies between 0 and 1 (go-fsrs arithmetic.go, stabilityToInterval).
// The result is neither rounded nor limited.
func (w *Weights) Interval(s, retention float64) float64 {
	decay := -w[20]
	return stability(s) / w.factor() * (math.Pow(retention, 1/decay) - 1)
}

// factor scales the forgetting curve so that the retrievability is 90 % when the elapsed days equal
// the stability.
func (w *Weights) factor() float64 { return math.Pow(0.9, -1/w[20]) - 1 }

func (w *Weights) firstDifficulty(g int) float64 {
	return w[4] - math.Exp(w[5]*float64(g-1)) + 1
}

// nextDifficulty returns the difficulty after a review. It changes less the closer it is to the
// maximum (linear damping), and reverts slightly to the difficulty of an easy first review (mean
// reversion): _next_difficulty in py-fsrs fsrs/scheduler.py.
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

// clamp limits x to the range; NaN becomes the least value.
func clamp(x, least, most float64) float64 {
	if !(x >= least) {
		return least
	}
	return min(x, most)
}
