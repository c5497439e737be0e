package fit

import (
	"container/heap"
	"math"
	"math/rand/v2"

	"patchbay/internal/plug/learn/fsrs"
)

// learner is a simulated learner with a memory and habits of their own.
type learner struct {
	weights   fsrs.Weights // true memory
	fresh     int          // new cards a day
	days      int          // how long they learn
	most      int          // reviews a day
	skip      float64      // share of days without learning
	retention float64
	sameDay   bool // repeats cards on the day on which they are new or forgotten
	noise     float64
}

// newLearner returns a learner. The weights differ from the published ones by up to a deviation of
// what differs among people; the habits are drawn from usual ones.
func newLearner(seed uint64, reviews int) learner {
	r := rand.New(rand.NewPCG(seed, 1))
	l := learner{weights: fsrs.Published, retention: 0.8 + 0.15*r.Float64(), skip: 0.3 * r.Float64(),
		sameDay: seed%4 != 3, noise: 0.03 * r.Float64()}
	for i := range l.weights {
		if i < 4 {
			l.weights[i] *= math.Exp(0.6 * r.NormFloat64())
		} else {
			l.weights[i] += 0.5 * deviations[i] * r.NormFloat64()
		}
	}
	for i := 1; i < 4; i++ {
		l.weights[i] = max(l.weights[i], l.weights[i-1])
	}
	clip(&l.weights, Options{SameDay: true, Relearn: 1})
	l.fresh = 5 + r.IntN(20)
	l.most = 50 + r.IntN(200)
	l.days = max(reviews/(l.fresh*5), 40)
	return l
}

// entry is a review of a log.
type entry struct{ Card, Grade, Elapsed int }

// due is a queue of cards by day.
type due []struct{ day, card int }

func (d due) Len() int { return len(d) }
func (d due) Less(i, j int) bool {
	return d[i].day < d[j].day || d[i].day == d[j].day && d[i].card < d[j].card
}
func (d due) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *due) Push(x any)   { *d = append(*d, x.(struct{ day, card int })) }
func (d *due) Pop() any     { last := (*d)[len(*d)-1]; *d = (*d)[:len(*d)-1]; return last }

// memory is what a learner remembers of a card, and what the program believes.
type memory struct {
	real, planned fsrs.Memory
	last          int
	known         bool
}

// log simulates the learner until there are so many reviews, or the days are over.
func (l learner) log(seed uint64, reviews int) (out []entry) {
	r := rand.New(rand.NewPCG(seed, 2))
	var cards []memory
	queue := &due{}
	review := func(day, card, grade int) {
		m := &cards[card]
		elapsed := -1
		if m.known {
			elapsed = day - m.last
			m.real = l.weights.Next(m.real, elapsed, grade, true)
			m.planned = fsrs.Published.Next(m.planned, elapsed, grade, true)
		} else {
			m.real, m.planned = l.weights.First(grade), fsrs.Published.First(grade)
		}
		m.known, m.last = true, day
		out = append(out, entry{card, grade, elapsed})
	}
	for day := 0; day < l.days && len(out) < reviews; day++ {
		if r.Float64() < l.skip {
			continue
		}
		done := 0
		sit := func(card, grade int) {
			review(day, card, grade)
			done++
			for l.sameDay && grade == fsrs.Again || l.sameDay && grade == fsrs.Hard && r.IntN(3) == 0 {
				grade = []int{fsrs.Again, fsrs.Hard, fsrs.Good, fsrs.Good, fsrs.Good, fsrs.Good}[r.IntN(6)]
				review(day, card, grade)
			}
			m := &cards[card]
			wait := fsrs.Published.Interval(m.planned.Stability, l.retention)
			wait = max(1, math.Round(wait*(0.95+0.1*r.Float64())))
			heap.Push(queue, struct{ day, card int }{day + int(wait), card})
		}
		for queue.Len() > 0 && (*queue)[0].day <= day && done < l.most {
			card := heap.Pop(queue).(struct{ day, card int }).card
			m := &cards[card]
			sit(card, l.grade(r, l.weights.Retrievability(float64(day-m.last), m.real.Stability)))
		}
		for range l.fresh {
			cards = append(cards, memory{})
			sit(len(cards)-1, []int{1, 1, 1, 2, 3, 3, 3, 3, 3, 4}[r.IntN(10)])
		}
	}
	return out
}

// grade draws a grade for a card that is remembered with a probability. Some grades are mistakes.
func (l learner) grade(r *rand.Rand, probability float64) int {
	if r.Float64() < l.noise {
		return fsrs.Again + r.IntN(4)
	}
	if r.Float64() >= probability {
		return fsrs.Again
	}
	return []int{fsrs.Hard, fsrs.Good, fsrs.Good, fsrs.Good, fsrs.Good, fsrs.Good, fsrs.Good, fsrs.Easy}[r.IntN(8)]
}

// setOf returns the set of a log.
func setOf(log []entry) *Set {
	set := NewSet()
	for _, e := range log {
		set.Add(int64(e.Card), e.Grade, e.Elapsed)
	}
	return set
}
