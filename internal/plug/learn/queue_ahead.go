package learn

import (
	"context"
	"fmt"

	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
)

// maxKinScan limits the points of a queue whose kin are looked for. Of a longer queue, the rest is
// counted as if it had no kin.
const maxKinScan = 2000

// kinSlack is how many points are looked at besides twice those that may be asked.
const kinSlack = 100

// hiddenKin returns, as negative counts, the waiting points that will not be asked today because
// kin of theirs are asked before: so a count of what is left does not fall by several when one
// point is reviewed.
func (s *Service) hiddenKin(ctx context.Context, l *Learner, f store.QueueFilter, waiting []store.Count,
	budgets map[string]budget) ([]store.Count, error) {
	f.Today, f.Now = l.Today, l.Calendar.StartOf(l.Today+1)
	sizes := map[store.Queue]int{}
	for _, c := range waiting {
		sizes[c.Queue] += c.N
	}
	if sizes[store.QueueDay]+sizes[store.QueueNew] == 0 {
		return nil, nil
	}
	// Of queues with a limit only the first points are asked, and nearly all are no kin of others.
	scans := map[store.Queue]int{store.QueueSteps: maxKinScan, store.QueueDay: kinSlack, store.QueueNew: kinSlack}
	for _, b := range budgets {
		scans[store.QueueDay] += 2 * max(b.Reviews, 0)
		scans[store.QueueNew] += 2 * max(b.New, 0)
	}
	var queues []store.QueueFilter
	var most []int
	for _, f.Queue = range []store.Queue{store.QueueSteps, store.QueueDay, store.QueueNew} {
		if sizes[f.Queue] > 0 {
			queues, most = append(queues, f), append(most, min(scans[f.Queue], maxKinScan))
		}
	}
	points, err := s.Store.Learn.KinQueued(ctx, l.Person, queues, most)
	if err != nil {
		return nil, fmt.Errorf("look up the kin of what waits: %w", err)
	}
	var out []store.Count
	asked := map[string]bool{}
	for _, p := range points {
		if asked[p.Kin] && p.Queue != store.QueueSteps {
			out = append(out, store.Count{Deck: p.Deck, Queue: p.Queue, N: -1})
		}
		asked[p.Kin] = asked[p.Kin] || l.Settings(p.Deck).Bury
	}
	return out, nil
}

// Preview returns what each grade would lead to now.
func (l *Learner) Preview(p *store.Point) [4]schedule.Choice {
	return schedule.Preview(p.Card, l.Settings(p.Deck), l.Calendar, l.Now)
}

// maxDaysAhead limits the days with due points that NextDay looks at. More are looked at only if
// the limits of decks let none of their points be asked.
const maxDaysAhead = 14

// NextDay finds the next day after today on which points will be asked, and how many: due ones and
// new ones, within the limits of that day. n is 0 if there is none within a year.
func (s *Service) NextDay(ctx context.Context, l *Learner) (day store.Day, n int, err error) {
	budgets := l.fullBudgets()
	leftOn := func(day store.Day) (int, error) {
		then := *l
		then.Today = day
		today, err := s.Store.Learn.Today(ctx, l.Person, day)
		if err != nil {
			return 0, fmt.Errorf("count what waits: %w", err)
		}
		left, err := s.left(ctx, &then, nil, budgets, &today, true)
		return left.Total(), err
	}
	day = l.Today + 1
	if n, err = leftOn(day); err != nil || n > 0 {
		return day, n, err
	}
	counts, err := s.Store.Learn.Forecast(ctx, l.Person, day+1, l.Today+maxForecastDays)
	if err != nil {
		return 0, 0, err
	}
	looked := 0
	for _, c := range counts { // by day
		if c.Day == day {
			continue
		}
		if looked++; looked > maxDaysAhead {
			break
		}
		day = c.Day
		if n, err = leftOn(day); err != nil || n > 0 {
			return day, n, err
		}
	}
	return 0, 0, nil
}
