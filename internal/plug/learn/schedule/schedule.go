// Package schedule computes when a point is due again: by FSRS, from how well it is remembered, or
// on the fixed days of the classic course. It reads no clock and keeps no state; the same arguments
// always give the same dates.
//
// All functions are safe for concurrent use as long as the slices and maps of the settings do not
// change. Settings must pass [Settings.Validate]; [Next] checks this, the other functions only do
// not panic.
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

// Range of years for reviews. The last year leaves room for the longest interval, so that the year
// of every date has four digits.
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

// Next returns the card after a review. FSRS updates the memory under every schedule, so that a
// deck can change its schedule at any time; a review without a grade counts as good.
//
// Under FSRS the card is due at DueAt while on learning steps, otherwise on the date Due. load
// returns how many points are due on a day; Next calls it for the days near the new date, and it
// may be nil. The seed should be specific to the card; it decides between equally good days.
//
// In the classic course the caller keeps the dates, and sets Due and the end of the course: Next
// sets only memory, counts, times, and the phase Review.
//
// Buried stays unchanged. Reviews must be passed in the order in which they happened. A review with
// an earlier date than the one before, because the learner travelled, counts as on the same day.
func Next(card store.Card, s Settings, cal Calendar, r Review, seed int64,
	load func(store.Day) int) (store.Card, error) {
	if err := r.validate(); err != nil {
		return card, err
	}
	if err := s.Validate(); err != nil {
		return card, err
	}
	today := cal.Day(r.At)
	p := newGradeOutcomes(card, s, today)
	phase := p.phase
	g := fsrsGrade(r.Grade)
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
	return p.transitions[g-1].apply(card, s, cal, r.At, mix(uint64(seed))+uint64(card.Reps), load), nil
}

// apply moves the card along the transition.
func (w transition) apply(card store.Card, s Settings, cal Calendar, at time.Time, seed uint64,
	load func(store.Day) int) store.Card {
	card.Phase, card.Step = w.phase, w.step
	if w.wait > 0 {
		card.DueAt = at.Round(0).UTC().Add(w.wait)
		card.Due = cal.Day(card.DueAt)
		return card
	}
	today := cal.Day(at)
	card.DueAt = time.Time{}
	card.Due = today + store.Day(s.chooseInterval(today, w.days, seed, load))
	return card
}

// Choice is the result that a grade would have.
type Choice struct {
	Grade store.Grade
	Phase store.Phase
	Due   store.Day
	DueAt time.Time     // on learning steps; zero otherwise
	Wait  time.Duration // until DueAt; 0 if not on steps
	Days  int           // from today to Due; 0 on steps
}

// Preview returns what each grade, from again to easy, would lead to at that moment. Balancing may
// still move the date by a few percent. In the classic course grades move nothing: every choice has
// the card's own date.
func Preview(card store.Card, s Settings, cal Calendar, at time.Time) [4]Choice {
	s.Balance, s.EasyDays = false, nil
	today := cal.Day(at)
	p := newGradeOutcomes(card, s, today)
	var choices [4]Choice
	for i, w := range p.transitions {
		c := Choice{Grade: store.Again + store.Grade(i), Phase: w.phase, Wait: w.wait, Days: w.days}
		if s.Schedule == Classic {
			c.Phase, c.Wait, c.Days, c.Due = card.Phase, 0, int(max(card.Due-today, 0)), card.Due
		} else {
			next := w.apply(card, s, cal, at, 0, nil)
			c.Due, c.DueAt = next.Due, next.DueAt
		}
		choices[i] = c
	}
	return choices
}

// BecameLeech reports whether the review between the two cards made the point a leech: its lapses
// reach s.Leech, or exceed that by a multiple of half of it (rounded up).
func BecameLeech(before, after store.Card, s Settings) bool {
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

// ToFSRS returns the card when its deck changes from the classic course to FSRS. A card that was
// never reviewed is new and keeps its date; any other is due when its memory requires, counted from
// the last review, which may be in the past.
func ToFSRS(card store.Card, s Settings) store.Card {
	card.Step, card.DueAt = 0, time.Time{}
	if !hasMemory(card) {
		card.Phase = store.New
		return card
	}
	card.Phase = store.Review
	card.Due = card.LastDay + store.Day(s.days(card.Stability))
	return card
}

// Replay returns the card of a point that was created and reviewed elsewhere, without balancing. It
// sorts the reviews by time and skips those with impossible grades or times. In the classic course
// each review, whatever its grade, takes the next date of the course.
func Replay(s Settings, cal Calendar, created time.Time, reviews []Review) store.Card {
	s.Balance, s.EasyDays = false, nil
	day := cal.Day(created)
	card := store.Card{Due: day}
	course := ClassicDates(day)
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

// hasMemory reports whether the card has a memory state.
func hasMemory(card store.Card) bool { return card.Stability > 0 }

// Elapsed returns the number of days since the last review, 0 if there was none. Crossing the date
// line may put today before the last review; that counts as the same day.
func Elapsed(card store.Card, today store.Day) int {
	if !hasMemory(card) || card.LastDay >= today {
		return 0
	}
	if n := today - card.LastDay; n > 0 && n < math.MaxInt32 {
		return int(n)
	}
	return math.MaxInt32
}

// fsrsGrade converts a grade to FSRS's numbers.
func fsrsGrade(g store.Grade) int {
	if g == store.Ungraded {
		g = store.Good
	}
	return int(g)
}

// days returns the interval for a memory of that stability, in whole days.
func (s Settings) days(stability float64) int {
	n := math.Round(s.weights().Interval(stability, s.Retention))
	most := max(s.MaxInterval, 1)
	if !(n >= 1) {
		return 1
	}
	return int(min(n, float64(most)))
}

// weights returns the weights of the settings, or the published ones.
func (s Settings) weights() *fsrs.Weights {
	if len(s.Weights) != len(fsrs.Weights{}) {
		return &fsrs.Published
	}
	return (*fsrs.Weights)(s.Weights)
}
