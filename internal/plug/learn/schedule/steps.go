package schedule

import (
	"slices"
	"time"

	"patchbay/internal/plug/learn/fsrs"
	"patchbay/internal/store"
)

// prospect is what the four grades, from again to easy, would make of a card.
type prospect struct {
	phase    store.Phase // in which the card is now
	memories [4]fsrs.Memory
	ways     [4]way
}

// way is where a card goes after a review: onto a step, or away for days.
type way struct {
	phase store.Phase
	step  int
	wait  time.Duration // on a step
	days  int           // otherwise
}

func prospects(card store.Card, s Settings, today store.Day) prospect {
	p := prospect{phase: phaseOf(card)}
	w, sameDay := s.weights(), len(s.Steps) > 0
	m := fsrs.Memory{Stability: card.Stability, Difficulty: card.Difficulty}
	gone := Elapsed(card, today)
	for g := fsrs.Again; g <= fsrs.Easy; g++ {
		after := &p.memories[g-1]
		if reviewed(card) {
			*after = w.Next(m, gone, g, sameDay)
		} else {
			*after = w.First(g)
		}
		p.ways[g-1] = s.way(p.phase, card.Step, g)
		if p.ways[g-1].wait == 0 {
			p.ways[g-1].days = s.days(after.Stability)
		}
	}
	s.part(&p.ways)
	return p
}

// phaseOf is the card's phase as FSRS sees it. The memory decides: cards come from
// the classic course too, which knows only Review and Done.
func phaseOf(card store.Card) store.Phase {
	switch {
	case !reviewed(card):
		return store.New
	case card.Phase == store.Learning || card.Phase == store.Relearning:
		return card.Phase
	}
	return store.Review
}

// way is where a grade leads, without the number of days.
func (s Settings) way(phase store.Phase, step, g int) way {
	steps, on := s.Steps, store.Learning
	switch phase {
	case store.New:
		step = 0
	case store.Review:
		steps, on, step = s.Relearn, store.Relearning, 0
		if g != fsrs.Again {
			return way{phase: store.Review}
		}
	case store.Relearning:
		steps, on = s.Relearn, store.Relearning
	}
	if len(steps) == 0 || g == fsrs.Easy {
		return way{phase: store.Review}
	}
	step = min(max(step, 0), len(steps)-1) // there may be fewer now than there were
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
			return way{phase: store.Review}
		}
		wait = time.Duration(steps[step]) * time.Minute
	}
	return way{phase: on, step: step, wait: min(wait, time.Duration(max(s.MaxInterval, 1))*day)}
}

// part sees to it that a better grade leads at least a day further than the one
// before it, so that the choice means something, as far as the longest interval
// leaves room.
func (s Settings) part(ways *[4]way) {
	most := max(s.MaxInterval, 1)
	// Weights that somebody fitted may let a worse grade lead further.
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
