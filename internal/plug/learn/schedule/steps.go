package schedule

import (
	"slices"
	"time"

	"patchbay/internal/plug/learn/fsrs"
	"patchbay/internal/store"
)

// gradeOutcomes holds the results of the four grades, from again to easy, for a card.
type gradeOutcomes struct {
	phase       store.Phase // the card's current phase
	memories    [4]fsrs.Memory
	transitions [4]transition
}

// transition is the step or interval that a card moves to after a review.
type transition struct {
	phase store.Phase
	step  int
	wait  time.Duration // on a step
	days  int           // otherwise
}

func newGradeOutcomes(card store.Card, s Settings, today store.Day) gradeOutcomes {
	p := gradeOutcomes{phase: phaseOf(card)}
	w, sameDay := s.weights(), len(s.Steps) > 0
	m := fsrs.Memory{Stability: card.Stability, Difficulty: card.Difficulty}
	gone := Elapsed(card, today)
	for g := fsrs.Again; g <= fsrs.Easy; g++ {
		after := &p.memories[g-1]
		if hasMemory(card) {
			*after = w.Next(m, gone, g, sameDay)
		} else {
			*after = w.First(g)
		}
		p.transitions[g-1] = s.transition(p.phase, card.Step, g)
		if p.transitions[g-1].wait == 0 {
			p.transitions[g-1].days = s.days(after.Stability)
		}
	}
	s.separateGrades(&p.transitions)
	return p
}

// phaseOf returns the card's phase for FSRS. The memory decides, because cards from the classic
// course have only the phases Review and Done.
func phaseOf(card store.Card) store.Phase {
	switch {
	case !hasMemory(card):
		return store.New
	case card.Phase == store.Learning || card.Phase == store.Relearning:
		return card.Phase
	}
	return store.Review
}

// transition returns where a grade leads, without the number of days.
func (s Settings) transition(phase store.Phase, step, g int) transition {
	steps, on := s.Steps, store.Learning
	switch phase {
	case store.New:
		step = 0
	case store.Review:
		steps, on, step = s.Relearn, store.Relearning, 0
		if g != fsrs.Again {
			return transition{phase: store.Review}
		}
	case store.Relearning:
		steps, on = s.Relearn, store.Relearning
	}
	if len(steps) == 0 || g == fsrs.Easy {
		return transition{phase: store.Review}
	}
	step = min(max(step, 0), len(steps)-1) // the settings may have fewer steps than before
	wait := time.Duration(steps[step]) * time.Minute
	switch g {
	case fsrs.Again:
		step, wait = 0, time.Duration(steps[0])*time.Minute
	case fsrs.Hard:
		if step == 0 && len(steps) == 1 {
			wait += wait / 2
		} else if step == 0 {
			wait = time.Duration(steps[0]+steps[1]) * time.Minute / 2
		}
	case fsrs.Good:
		if step++; step == len(steps) {
			return transition{phase: store.Review}
		}
		wait = time.Duration(steps[step]) * time.Minute
	}
	return transition{phase: on, step: step, wait: min(wait, time.Duration(max(s.MaxInterval, 1))*day)}
}

// separateGrades makes a better grade lead at least one day further than the grade below it, within
// the longest interval.
func (s Settings) separateGrades(ways *[4]transition) {
	most := max(s.MaxInterval, 1)
	// With fitted weights, a worse grade may lead further.
	for i, w := range slices.Backward(ways[:]) {
		if w.wait == 0 {
			most = min(most, w.days)
			ways[i].days = most
		}
	}
	least := 1
	for i := range ways {
		if ways[i].wait == 0 {
			ways[i].days = min(max(ways[i].days, least), max(s.MaxInterval, 1))
			least = ways[i].days + 1
		}
	}
}
