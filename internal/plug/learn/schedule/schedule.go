// Package schedule says when a point comes again: by FSRS, as well as it is
// remembered, or on the fixed days of the classic course. It reads no clock and
// keeps nothing; the same arguments always give the same dates.
//
// All functions may be called concurrently as long as nobody changes the settings'
// slices and maps. Settings must pass [Settings.Validate]; [Next] checks that, the
// others only do not panic.
package schedule

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"patchbay/internal/plug/learn/fsrs"
	"patchbay/internal/store"
)

// Years in which a review may lie. The last leaves room for the longest interval, so
// that every date keeps four digits of its year.
const (
	firstYear = 1970
	lastYear  = 9890
)

// Review is one review of a point.
type Review struct {
	Grade store.Grade
	At    time.Time
}

func (r Review) validate() error {
	if r.Grade < store.Ungraded || r.Grade > store.Easy {
		return fmt.Errorf("grade %d: it must be from %d to %d", r.Grade, store.Ungraded, store.Easy)
	}
	if y := r.At.UTC().Year(); r.At.IsZero() || y < firstYear || y > lastYear {
		return errors.New("the time of the review is missing or impossible")
	}
	return nil
}

// Next is the card after a review. Its memory is kept by FSRS whatever the schedule,
// so that a deck can change over at any time; what nobody judged counts as good.
//
// By FSRS the card is due again at DueAt, on the steps, or on the date Due. load
// says how much is due on a day already; it is asked about the days near the new
// date, and may be nil. The seed, which should belong to the card, decides between
// days that are equally good.
//
// In the classic course, Due and the end of the course are left to the caller, who
// keeps its dates: Next sets only memory, counts, times, and the phase Review.
//
// Buried is left as it is. Reviews must come in the order in which they happened;
// one that lies on an earlier date than the one before, because the learner
// travelled, counts as on the same day.
func Next(card store.Card, s Settings, cal Calendar, r Review, seed int64, load func(store.Day) int) (store.Card, error) {
	if err := r.validate(); err != nil {
		return card, err
	}
	if err := s.Validate(); err != nil {
		return card, err
	}
	today := cal.Day(r.At)
	p := prospects(card, s, today)
	phase := p.phase
	g := judged(r.Grade)
	if g == fsrs.Again && phase == store.Review {
		card.Lapses++
	}
	card.Reps++
	m := p.memories[g-1]
	card.Stability, card.Difficulty = m.Stability, m.Difficulty
	card.LastAt, card.LastDay = r.At.Round(0).UTC(), today
	if s.Schedule == Classic {
		card.Step, card.DueAt = 0, time.Time{}
		if card.Phase != store.Done {
			card.Phase = store.Review
		}
		return card, nil
	}
	return p.ways[g-1].take(card, s, cal, r.At, mix(uint64(seed))+uint64(card.Reps), load), nil
}

// take puts the card on the way that the review opened.
func (w way) take(card store.Card, s Settings, cal Calendar, at time.Time, seed uint64, load func(store.Day) int) store.Card {
	card.Phase, card.Step = w.phase, w.step
	if w.wait > 0 {
		card.DueAt = at.Round(0).UTC().Add(w.wait)
		card.Due = cal.Day(card.DueAt)
		return card
	}
	today := cal.Day(at)
	card.DueAt = time.Time{}
	card.Due = today + store.Day(s.place(today, w.days, seed, load))
	return card
}

// Choice is what a grade would lead to.
type Choice struct {
	Grade store.Grade
	Phase store.Phase
	Due   store.Day
	DueAt time.Time     // on the steps; zero otherwise
	Wait  time.Duration // until DueAt; 0 when the point rests for days
	Days  int           // from today to Due, when the point rests for days
}

// Preview says what each grade, from again to easy, would lead to at that moment,
// for people to choose. Balancing may still move the date by a few percent. In the
// classic course grades move nothing: every choice has the card's own date.
func Preview(card store.Card, s Settings, cal Calendar, at time.Time) [4]Choice {
	s.Balance, s.EasyDays = false, nil
	today := cal.Day(at)
	p := prospects(card, s, today)
	var choices [4]Choice
	for i, w := range p.ways {
		c := Choice{Grade: store.Again + store.Grade(i), Phase: w.phase, Wait: w.wait, Days: w.days}
		if s.Schedule == Classic {
			c.Phase, c.Wait, c.Days, c.Due = card.Phase, 0, int(max(card.Due-today, 0)), card.Due
		} else {
			next := w.take(card, s, cal, at, 0, nil)
			c.Due, c.DueAt = next.Due, next.DueAt
		}
		choices[i] = c
	}
	return choices
}

// Leech says whether the review between the two cards made the point a leech: when
// its lapses reach s.Leech, and again with every half of that (rounded up) more.
func Leech(before, after store.Card, s Settings) bool {
	if s.Leech <= 0 {
		return false
	}
	half := (s.Leech + 1) / 2
	warnings := func(lapses int) int {
		if lapses < s.Leech {
			return 0
		}
		return 1 + (lapses-s.Leech)/half
	}
	return warnings(after.Lapses) > warnings(before.Lapses)
}

// Turn is the card when its deck changes over from the classic course to FSRS. What
// was never reviewed is new and keeps its date; the rest is due when its memory says,
// counted from the last review, which may be in the past.
func Turn(card store.Card, s Settings) store.Card {
	card.Step, card.DueAt = 0, time.Time{}
	if !reviewed(card) {
		card.Phase = store.New
		return card
	}
	card.Phase = store.Review
	card.Due = card.LastDay + store.Day(s.days(card.Stability))
	return card
}

// Replay is the card of a point that was created and reviewed elsewhere. Nothing is
// balanced. Reviews are taken in the order of their times, and those with
// impossible grades or times are left out. In the classic course each review, however
// it was graded, takes the next date of the course.
func Replay(s Settings, cal Calendar, created time.Time, reviews []Review) store.Card {
	s.Balance, s.EasyDays = false, nil
	day := cal.Day(created)
	card := store.Card{Due: day}
	course := Course(day)
	if s.Schedule == Classic {
		card.Due = course[0]
	}
	later := func(a, b Review) int { return a.At.Compare(b.At) }
	if !slices.IsSortedFunc(reviews, later) {
		reviews = slices.Clone(reviews)
		slices.SortStableFunc(reviews, later)
	}
	for _, r := range reviews {
		next, err := Next(card, s, cal, r, 0, nil)
		if err != nil {
			continue
		}
		card = next
		if s.Schedule != Classic {
			continue
		}
		if card.Reps < len(course) {
			card.Due = course[card.Reps]
		} else {
			card.Phase = store.Done
		}
	}
	return card
}

// Retrievability is how likely the point is recalled today, from 0 to 1: 1 on the
// day of its last review, and 0 if it has had none.
func Retrievability(card store.Card, s Settings, today store.Day) float64 {
	if !reviewed(card) {
		return 0
	}
	return s.weights().Retrievability(float64(Elapsed(card, today)), card.Stability)
}

// reviewed says whether there is a memory of the point.
func reviewed(card store.Card) bool { return card.Stability > 0 }

// Elapsed is the number of days since the last review, 0 if there was none. Learners
// who fly over the date line may come back before it; that is the same day.
func Elapsed(card store.Card, today store.Day) int {
	if !reviewed(card) || card.LastDay >= today {
		return 0
	}
	if n := today - card.LastDay; n > 0 && n < math.MaxInt32 {
		return int(n)
	}
	return math.MaxInt32
}

// judged is the grade as FSRS knows it.
func judged(g store.Grade) int {
	if g == store.Ungraded {
		g = store.Good
	}
	return int(g)
}

// days is the interval for a memory of that stability, in whole days.
func (s Settings) days(stability float64) int {
	n := math.Round(s.weights().Interval(stability, s.Retention))
	most := max(s.MaxInterval, 1)
	if !(n >= 1) {
		return 1
	}
	return int(min(n, float64(most)))
}

// weights are the published ones unless the settings have others.
func (s Settings) weights() *fsrs.Weights {
	if len(s.Weights) != len(fsrs.Weights{}) {
		return &fsrs.Published
	}
	return (*fsrs.Weights)(s.Weights)
}
