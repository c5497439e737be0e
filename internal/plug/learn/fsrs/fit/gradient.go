package fit

import (
	"math"

	"patchbay/internal/plug/learn/fsrs"
)

// Limits of difficulty (D_MIN, D_MAX in fsrs-rs src/simulation.rs).
const (
	minDifficulty = 1
	maxDifficulty = 10
)

// minProbability keeps logarithms of probabilities finite (MIN_PROB in fsrs-rs src/analytic.rs).
const minProbability = 1e-7

// gradient has the derivatives of a loss with respect to the weights.
type gradient [len(fsrs.Weights{})]float64

// model evaluates FSRS-6 with certain weights, and differentiates it. Its formulas are those of
// package fsrs, except that the stability after the first review has no lower limit of its own.
type model struct {
	w           *fsrs.Weights
	decay       float64 // −w20
	factor      float64 // 0.9^(1/decay) − 1
	factorSlope float64 // its derivative with respect to decay
	grow        float64 // e^w8
	lapseLimit  float64 // e^(w17·w18)
	easiest     float64 // difficulty after an easy first review, not limited
	easiestExp  float64 // e^(3·w5)
}

func newModel(w *fsrs.Weights) *model {
	m := &model{w: w, decay: -w[20], grow: math.Exp(w[8]), lapseLimit: math.Exp(w[17] * w[18]),
		easiestExp: math.Exp(3 * w[5])}
	power := math.Exp(math.Log(0.9) / m.decay)
	m.factor = power - 1
	m.factorSlope = -power * math.Log(0.9) / (m.decay * m.decay)
	m.easiest = w[4] - m.easiestExp + 1
	return m
}

// kind is the formula by which a review changes the stability.
type kind uint8

const (
	firstReview kind = iota
	sameDay          // on the day of the review before
	recalled
	forgotten
	forgottenAtLimit // as stable as a forgotten point may be
)

// step is a review of a history with what its derivative needs. All are values before the review,
// except the next ones, which are not yet limited to their ranges.
type step struct {
	kind           kind
	grade          uint8
	t, s, d, r     float64
	nextS, nextD   float64
	sPower         float64 // s^−w9, s^−w19 or (s+1)^w13, by kind
	dPower, rPower float64 // d^−w12; e^((1−r)·w10) or e^((1−r)·w14)
	logS           float64
	logBase        float64 // of the forgetting curve
}

// curve returns the probability of recall after t days, and the logarithm of the curve's base.
func (m *model) curve(t, s float64) (r, logBase float64) {
	logBase = math.Log1p(t / s * m.factor)
	return math.Exp(m.decay * logBase), logBase
}

// curveBack adds to the gradient what the probability of recall contributes, whose derivative is g,
// and returns the derivative with respect to s.
func (m *model) curveBack(t, s, r, logBase, g float64, into *gradient) float64 {
	base := math.Exp(logBase)
	into[20] -= g * r * (logBase + m.decay/base*t/s*m.factorSlope)
	return -g * r * m.decay / base * t * m.factor / (s * s)
}

// first begins a history.
func (m *model) first(c *step, r review) {
	*c = step{kind: firstReview, grade: r.grade, nextS: m.w[r.grade-1]}
	c.nextD = m.w[4] - math.Exp(m.w[5]*float64(r.grade-1)) + 1
}

// next continues a history with a memory of stability s and difficulty d.
func (m *model) next(c *step, s, d float64, r review) {
	w, g := m.w, float64(r.grade)
	*c = step{grade: r.grade, t: float64(r.elapsed), s: s, d: d, r: 1}
	c.logS = math.Log(s)
	if r.elapsed > 0 {
		c.r, c.logBase = m.curve(c.t, s)
	}
	switch {
	case r.elapsed == 0:
		c.kind = sameDay
		c.sPower = math.Exp(w[17]*(g-fsrs.Good+w[18]) - w[19]*c.logS) // the whole factor
		c.nextS = s * c.sPower
		if r.grade >= fsrs.Hard {
			c.nextS = s * max(c.sPower, 1)
		}
	case r.grade == fsrs.Again:
		c.kind = forgotten
		c.sPower = math.Pow(s+1, w[13])
		c.dPower = math.Pow(d, -w[12])
		c.rPower = math.Exp((1 - c.r) * w[14])
		c.nextS = w[11] * c.dPower * (c.sPower - 1) * c.rPower
		if most := s / m.lapseLimit; most < c.nextS {
			c.kind, c.nextS = forgottenAtLimit, most
		}
	default:
		c.kind = recalled
		c.sPower = math.Exp(-w[9] * c.logS)
		c.rPower = math.Exp((1 - c.r) * w[10])
		c.nextS = s * (1 + m.growth(c)*(c.rPower-1))
	}
	moved := d - w[6]*(g-fsrs.Good)*(maxDifficulty-d)/9
	c.nextD = w[7]*m.easiest + (1-w[7])*moved
}

// growth returns by how much a recall increases the stability, without what the probability of
// recall contributes.
func (m *model) growth(c *step) float64 {
	return m.grow * (11 - c.d) * c.sPower * m.gradeFactor(c.grade)
}

func (m *model) gradeFactor(grade uint8) float64 {
	switch grade {
	case fsrs.Hard:
		return m.w[15]
	case fsrs.Easy:
		return m.w[16]
	}
	return 1
}

// memory returns the memory after a step, and which of the two values is inside its range: only
// those depend on the weights.
func (c *step) memory() (s, d float64, sFree, dFree bool) {
	s = min(max(c.nextS, minStability), maxStability)
	d = min(max(c.nextD, minDifficulty), maxDifficulty)
	return s, d, s == c.nextS, d == c.nextD
}

// back adds to the gradient what a step contributes. gs and gd are the derivatives with respect to
// the memory after the step; those with respect to the memory before are returned.
func (m *model) back(c *step, gs, gd float64, into *gradient) (float64, float64) {
	_, _, sFree, dFree := c.memory()
	if !sFree {
		gs = 0
	}
	if !dFree {
		gd = 0
	}
	if c.kind == firstReview {
		grade := float64(c.grade - 1)
		into[c.grade-1] += gs
		into[4] += gd
		into[5] -= gd * grade * math.Exp(grade*m.w[5])
		return 0, 0
	}
	var s, d, r float64
	if gs != 0 {
		s, d, r = m.stabilityBack(c, gs, into)
	}
	if gd != 0 {
		d += m.difficultyBack(c, gd, into)
	}
	if r != 0 && c.t > 0 {
		s += m.curveBack(c.t, c.s, c.r, c.logBase, r, into)
	}
	return s, d
}

// stabilityBack differentiates the next stability, whose derivative is g. It returns the
// derivatives with respect to the stability, the difficulty and the probability of recall before.
func (m *model) stabilityBack(c *step, g float64, into *gradient) (s, d, r float64) {
	w := m.w
	switch c.kind {
	case sameDay:
		if c.grade >= fsrs.Hard && c.sPower < 1 {
			return g, 0, 0
		}
		into[17] += g * c.nextS * (float64(c.grade) - fsrs.Good + w[18])
		into[18] += g * c.nextS * w[17]
		into[19] -= g * c.nextS * c.logS
		return g * c.sPower * (1 - w[19]), 0, 0
	case forgottenAtLimit:
		into[17] -= g * c.nextS * w[18]
		into[18] -= g * c.nextS * w[17]
		return g / m.lapseLimit, 0, 0
	case forgotten:
		most := w[11] * c.dPower * c.rPower
		into[11] += g * c.nextS / w[11]
		into[12] -= g * c.nextS * math.Log(c.d)
		into[13] += g * most * c.sPower * math.Log1p(c.s)
		into[14] += g * c.nextS * (1 - c.r)
		return g * most * w[13] * c.sPower / (c.s + 1), -g * c.nextS * w[12] / c.d, -g * c.nextS * w[14]
	}
	growth, left := m.growth(c), c.rPower-1
	more := g * c.s * growth // the derivative with respect to left
	into[8] += more * left
	into[9] -= more * left * c.logS
	into[10] += more * (1 - c.r) * c.rPower
	switch c.grade {
	case fsrs.Hard:
		into[15] += g * c.s * m.grow * (11 - c.d) * c.sPower * left
	case fsrs.Easy:
		into[16] += g * c.s * m.grow * (11 - c.d) * c.sPower * left
	}
	return g * (1 + growth*left*(1-w[9])), -more * left / (11 - c.d), -more * w[10] * c.rPower
}

// difficultyBack differentiates the next difficulty, whose derivative is g. It returns the
// derivative with respect to the difficulty before.
func (m *model) difficultyBack(c *step, g float64, into *gradient) float64 {
	w, grade := m.w, float64(c.grade)-fsrs.Good
	moved := c.d - w[6]*grade*(maxDifficulty-c.d)/9
	into[7] += g * (m.easiest - moved)
	into[4] += g * w[7]
	into[5] -= g * w[7] * 3 * m.easiestExp
	into[6] -= g * (1 - w[7]) * grade * (maxDifficulty - c.d) / 9
	return g * (1 - w[7]) * (1 + w[6]*grade/9)
}

// recall returns the probability that the last of the reviews succeeds, according to those before
// it. If steps is not nil, it gets one step for each of those.
func (m *model) recall(reviews []review, steps *[]step) (r, s, logBase float64) {
	var d float64
	var one step
	last := len(reviews) - 1
	for i, v := range reviews[:last] {
		if i == 0 {
			m.first(&one, v)
		} else {
			m.next(&one, s, d, v)
		}
		s, d, _, _ = one.memory()
		if steps != nil {
			*steps = append(*steps, one)
		}
	}
	r, logBase = m.curve(float64(reviews[last].elapsed), s)
	return r, s, logBase
}

// loss returns the cross-entropy of a prediction.
func loss(r float64, grade uint8) float64 {
	r = min(max(r, minProbability), 1-minProbability)
	if grade > fsrs.Again {
		return -math.Log(r)
	}
	return -math.Log1p(-r)
}

// learn adds the gradient of the loss of predicting the last of the reviews, times weight. steps is
// memory that is reused.
func (m *model) learn(reviews []review, weight float64, steps *[]step, into *gradient) {
	*steps = (*steps)[:0]
	r, s, logBase := m.recall(reviews, steps)
	if r <= minProbability || r >= 1-minProbability {
		return
	}
	last := reviews[len(reviews)-1]
	g := weight / (1 - r)
	if last.grade > fsrs.Again {
		g = -weight / r
	}
	gs := m.curveBack(float64(last.elapsed), s, r, logBase, g, into)
	var gd float64
	for i := len(*steps) - 1; i >= 0; i-- {
		gs, gd = m.back(&(*steps)[i], gs, gd, into)
	}
}
