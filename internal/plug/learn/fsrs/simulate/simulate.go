// Package simulate plays through how a learner's work and memory develop, if points are reviewed
// when they are remembered with a certain probability. It assumes that the memory model is right.
// The same options always give the same results.
package simulate

import (
	"context"
	"math"
	"math/rand/v2"

	"patchbay/internal/plug/learn/fsrs"
)

// Shares of grades, as among many learners: of first reviews from again to easy, and of recalls
// from hard to easy (SimulatorConfig in github.com/open-spaced-repetition/fsrs-rs
// src/simulation.rs at 0cbb9d3).
var (
	firstShares  = [...]float64{0.24, 0.094, 0.495, 0.171}
	recallShares = [...]float64{0.224, 0.631, 0.145}
)

// Card is a point that was reviewed before the first day. Days are counted from the first day, 0.
type Card struct {
	fsrs.Memory
	Last int // day of the last review, not after 0
	Due  int // day of the next review; before 0: overdue
}

// Options describe the learner.
type Options struct {
	Weights fsrs.Weights
	Cards   []Card
	New     int // points that were never reviewed
	Days    int

	NewPerDay, ReviewsPerDay int
	MaxInterval              int // days
	// Steps and Relearn are the numbers of reviews on the day on which a point is new or forgotten,
	// after the first one.
	Steps, Relearn int
	Seconds        float64 // that a review takes
	Seed           uint64
}

// Result is the work of a simulated learner, and what they remember in the end.
type Result struct {
	Retention  float64 `json:"retention"`
	Reviews    float64 `json:"reviews_per_day"`
	Minutes    float64 `json:"minutes_per_day"`
	Remembered float64 `json:"remembered"` // expected number of points
	Learned    int     `json:"learned"`    // points that were reviewed at least once
}

// simulation is a run.
type simulation struct {
	Options
	retention float64
	cards     []Card
	due       [][]int32 // indexes of cards by day
	random    *rand.Rand
	reviews   int
}

// Run simulates a learner with a desired retention, from 0 to 1 exclusive. The error is the
// context's.
func Run(ctx context.Context, o Options, retention float64) (Result, error) {
	s := &simulation{Options: o, retention: retention, cards: append([]Card(nil), o.Cards...),
		due: make([][]int32, o.Days+1), random: rand.New(rand.NewPCG(o.Seed, 0))} //nolint:gosec // nothing to guess
	for i := range s.cards {
		s.enqueue(int32(i), s.cards[i].Due, 0)
	}
	left := o.New
	for day := range o.Days {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		s.reviewDay(day)
		fresh := min(left, o.NewPerDay)
		left -= fresh
		for range fresh {
			s.learn(day)
		}
	}
	r := Result{Retention: retention, Learned: len(s.cards)}
	r.Remembered = Remembered(&o.Weights, s.cards, o.Days)
	if o.Days > 0 {
		r.Reviews = float64(s.reviews) / float64(o.Days)
		r.Minutes = r.Reviews * o.Seconds / 60
	}
	return r, nil
}

// Remembered returns how many of the cards are expected to be remembered on a day.
func Remembered(w *fsrs.Weights, cards []Card, day int) (n float64) {
	for _, c := range cards {
		n += w.Retrievability(float64(day-c.Last), c.Stability)
	}
	return n
}

// enqueue puts a card into the queue of a day, which is today at the earliest.
func (s *simulation) enqueue(card int32, day, today int) {
	if day = max(day, today); day < s.Days {
		s.due[day] = append(s.due[day], card)
	}
}

// reviewDay reviews what is due. What exceeds the limit waits for the next day.
func (s *simulation) reviewDay(day int) {
	queue := s.due[day]
	if n := min(len(queue), s.ReviewsPerDay); n < len(queue) {
		s.due[day+1] = append(queue[n:len(queue):len(queue)], s.due[day+1]...)
		queue = queue[:n]
	}
	for _, i := range queue {
		c := &s.cards[i]
		recall := s.Weights.Retrievability(float64(day-c.Last), c.Stability)
		grade, more := fsrs.Again, s.Relearn
		if s.random.Float64() < recall {
			grade, more = fsrs.Hard+s.draw(recallShares[:]), 0
		}
		c.Memory = s.Weights.Next(c.Memory, day-c.Last, grade, s.Steps > 0)
		s.repeat(i, day, more)
	}
	s.due[day] = nil
}

// learn begins a new card.
func (s *simulation) learn(day int) {
	grade, more := fsrs.Again+s.draw(firstShares[:]), s.Steps
	if grade == fsrs.Easy {
		more = 0 // leaves the steps at once
	}
	s.cards = append(s.cards, Card{Memory: s.Weights.First(grade)})
	s.repeat(int32(len(s.cards)-1), day, more)
}

// repeat reviews a card again on the same day, with success, and plans its next review.
func (s *simulation) repeat(i int32, day, more int) {
	c := &s.cards[i]
	for range more {
		c.Memory = s.Weights.Next(c.Memory, 0, fsrs.Good, s.Steps > 0)
	}
	s.reviews += 1 + more
	days := math.Round(s.Weights.Interval(c.Stability, s.retention))
	wait := int(min(max(days, 1), float64(max(s.MaxInterval, 1))))
	c.Last, c.Due = day, day+wait
	s.enqueue(i, c.Due, day+1)
}

// draw returns an index with the given shares, whose sum is 1.
func (s *simulation) draw(shares []float64) int {
	x := s.random.Float64()
	for i, share := range shares {
		if x -= share; x < 0 {
			return i
		}
	}
	return len(shares) - 1
}
