package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"patchbay/internal/plug/learn/fsrs"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/store"
)

// history is how often a card was reviewed, and in how many days it is due. A card that was never
// reviewed is new.
type history struct{ reviews, due int }

// The learner remembers new cards three times as long as most people, which a fit finds out.
const (
	betterMemory = 3
	// retention is that of the program by which they have learned.
	retention = 0.9
	// morning is when they begin to review, after midnight; later if the day begins later.
	morning = 7*time.Hour + 40*time.Minute
)

// memory returns the weights of the learner's real memory.
func memory() *fsrs.Weights {
	w := fsrs.Published
	for i := range 4 {
		w[i] *= betterMemory
	}
	return &w
}

// chance returns a source of random numbers for a card. PCG begins alike with seeds that are close.
func chance(card int64, use uint64) *rand.Rand {
	const spread = 0x9e3779b97f4a7c16 // about 2^64 divided by the golden ratio
	return rand.New(rand.NewPCG(uint64(card+1)*spread, use*spread))
}

// learn gives an item its reviews: each came when the program asked for it, the learner forgot as
// their memory has it, and the last one was so long ago that the card is due when h says.
func (d *deck) learn(it *transfer.Item, h history, seed int64) error {
	if h.reviews == 0 {
		d.Fresh++
		return nil
	}
	random := chance(seed, 1)
	real, mind, day := memory(), fsrs.Memory{}, 0
	var days, grades []int
	plan := fsrs.Memory{}
	for range h.reviews {
		grade := fsrs.Good
		if len(days) == 0 {
			mind, plan = real.First(grade), fsrs.Published.First(grade)
		} else {
			elapsed := day - days[len(days)-1]
			if random.Float64() >= real.Retrievability(float64(elapsed), mind.Stability) {
				grade = fsrs.Again
			}
			mind, plan = real.Next(mind, elapsed, grade, false), fsrs.Published.Next(plan, elapsed, grade, false)
		}
		days, grades = append(days, day), append(grades, grade)
		day += max(1, int(fsrs.Published.Interval(plan.Stability, retention)+0.5))
	}
	h.due = min(h.due, day-days[len(days)-1]-1) // the last review was before today
	if h.due == 0 {
		d.Due++
	}
	d.Reviews += h.reviews
	if err := d.log(it, days, grades, day-h.due, seed); err != nil {
		return err
	}
	it.Card.Due = d.calendar().Day(d.o.Now) + store.Day(h.due)
	return nil
}

func (d *deck) calendar() schedule.Calendar {
	return schedule.Calendar{Zone: d.o.Zone, Start: d.o.DayStart}
}

// log writes the reviews of an item into its history. today is the number of the present day, as
// the days are counted.
func (d *deck) log(it *transfer.Item, days, grades []int, today int, seed int64) error {
	cal := d.calendar()
	local := d.o.Now.In(d.o.Zone).Add(-d.o.DayStart)
	midnight := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, d.o.Zone)
	random := chance(seed, 2)
	card := store.Card{}
	for i, day := range days {
		// Not more than one review in a millisecond: that is its id in a package.
		at := midnight.AddDate(0, 0, day-today).Add(max(d.o.DayStart, morning) + time.Duration(seed)*9*time.Second)
		elapsed := -1
		if i > 0 {
			elapsed = day - days[i-1]
		}
		it.History = append(it.History, store.LogEntry{Kind: store.LogReview, At: at, Day: cal.Day(at),
			Grade: store.Grade(grades[i]), Took: time.Duration(3+random.IntN(9)) * time.Second,
			Score: -1, Elapsed: elapsed})
		var err error
		card, err = schedule.Next(card, schedule.Settings{Schedule: schedule.FSRS, Retention: retention,
			MaxInterval: 36500}, cal, schedule.Review{Grade: store.Grade(grades[i]), At: at}, seed, nil)
		if err != nil {
			return err
		}
	}
	it.Card = &card
	it.Created = slices.MinFunc([]time.Time{it.Created, it.History[0].At.Add(-time.Minute)}, time.Time.Compare)
	return nil
}
