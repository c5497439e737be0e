package learn

import (
	"context"
	"fmt"

	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
)

// Stats summarizes a person's learning.
type Stats struct {
	Today    store.Day `json:"today"`
	Zone     string    `json:"time_zone"`
	DayStart string    `json:"day_start"`
	Points   int       `json:"points"` // without the trash; drafts included
	Left     Remaining `json:"left_today"`
	Done     DoneToday `json:"done_today"`
	Streak   int       `json:"streak_days"` // days in a row with a review, until today or yesterday
	// share of reviews in 30 days not graded "again"; 0 if there were none
	Retention float64        `json:"retention_30d"`
	Reviews30 int            `json:"reviews_30d"`       // reviews in 30 days
	Forecast  []ForecastDay  `json:"forecast"`          // from today
	Decks     []DeckStats    `json:"decks"`             // by name
	History   []HistoryEntry `json:"history,omitempty"` // days with reviews, oldest first
}

// DoneToday counts today's reviews.
type DoneToday struct {
	Reviews int `json:"reviews"`
	New     int `json:"new"`
	Again   int `json:"again"`
	Minutes int `json:"minutes"`
}

// ForecastDay is the number of points due on a day; the first day includes overdue ones.
type ForecastDay struct {
	Day store.Day `json:"date"`
	Due int       `json:"due"`
}

// HistoryEntry is a day's work.
type HistoryEntry struct {
	Day     store.Day `json:"date"`
	Reviews int       `json:"reviews"`
	Again   int       `json:"again"`
}

// DeckStats is a deck with its points to review.
type DeckStats struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Points   int               `json:"points"`
	New      int               `json:"new"`
	Due      int               `json:"due"`
	Settings schedule.Settings `json:"settings"`
	Own      []byte            `json:"-"` // the deck's own settings, as JSON
}

// maxForecastDays is the longest forecast, in days.
const maxForecastDays = 365

// Stats computes a person's statistics, with a forecast of days days and a history of back days.
func (s *Service) Stats(ctx context.Context, person string, days, back int) (*Stats, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	days = min(max(days, 1), maxForecastDays)
	f, err := s.Store.Learn.Figures(ctx, person, l.Today, l.Today-maxStreakDays, l.Today+store.Day(days)-1)
	if err != nil {
		return nil, fmt.Errorf("look up statistics: %w", err)
	}
	out := &Stats{Today: l.Today, Zone: l.Calendar.Zone.String(),
		DayStart: fmt.Sprintf("%02d:%02d", int(l.Calendar.Start.Hours()), int(l.Calendar.Start.Minutes())%60)}
	if out.Left, err = s.left(ctx, l, nil, l.budgets(f.Work), &f.Today, true); err != nil {
		return nil, err
	}
	out.countDecks(l, f.Totals, f.Waiting)
	out.forecast(l, f.Due, days)
	out.history(l, f.Days, back)
	return out, nil
}

// Decks lists a person's decks with their points to review, the default deck first.
func (s *Service) Decks(ctx context.Context, person string) (*Learner, []DeckStats, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, nil, err
	}
	totals, err := s.Store.Learn.Totals(ctx, person)
	if err != nil {
		return nil, nil, err
	}
	waiting, err := s.Store.Learn.Waiting(ctx, person, l.Today)
	var out Stats
	out.countDecks(l, totals, waiting)
	return l, out.Decks, err
}

func (out *Stats) countDecks(l *Learner, totals, waiting []store.Count) {
	at := map[string]int{}
	for i, d := range append([]store.Deck{{Name: DefaultDeck}}, l.Decks...) {
		at[d.ID] = i
		out.Decks = append(out.Decks, DeckStats{ID: d.ID, Name: d.Name, Settings: l.Settings(d.ID), Own: d.Settings})
	}
	for _, c := range totals {
		out.Points += c.N
		if i, ok := at[c.Deck]; ok {
			out.Decks[i].Points += c.N
		}
	}
	for _, c := range waiting {
		i, ok := at[c.Deck]
		switch {
		case !ok:
		case c.Queue == store.QueueNew:
			out.Decks[i].New += c.N
		case c.Queue != store.QueueNone:
			out.Decks[i].Due += c.N
		}
	}
}

func (out *Stats) forecast(l *Learner, due []store.Count, days int) {
	out.Forecast = make([]ForecastDay, days)
	for i := range out.Forecast {
		out.Forecast[i].Day = l.Today + store.Day(i)
	}
	for _, c := range due {
		out.Forecast[max(c.Day-l.Today, 0)].Due += c.N
	}
}

// maxStreakDays limits how far back a streak is counted, in days.
const maxStreakDays = 3660

func (out *Stats) history(l *Learner, days []store.DayWork, back int) {
	byDay := make(map[store.Day]store.DayWork, len(days))
	for _, w := range days {
		byDay[w.Day] = w
	}
	today := byDay[l.Today]
	out.Done = DoneToday{Reviews: today.Reviews(), New: today.Fresh, Again: today.Again,
		Minutes: int(today.Took.Minutes())}
	again := 0
	for i := range 30 {
		w := byDay[l.Today-store.Day(i)]
		out.Reviews30 += w.Reviews()
		again += w.Again
	}
	if out.Reviews30 > 0 {
		out.Retention = float64(out.Reviews30-again) / float64(out.Reviews30)
	}
	day := l.Today
	if today.Reviews() == 0 {
		day-- // today is not over yet
	}
	for ; ; day-- {
		if w := byDay[day]; w.Reviews() == 0 {
			break
		}
		out.Streak++
	}
	for i := min(back, maxForecastDays) - 1; i >= 0; i-- {
		d := l.Today - store.Day(i)
		if w := byDay[d]; w.Reviews() > 0 {
			out.History = append(out.History, HistoryEntry{Day: d, Reviews: w.Reviews(), Again: w.Again})
		}
	}
}

// Waiting counts a person's points by deck and state, as far as they are due until a day.
func (s *Service) Waiting(ctx context.Context, person string, until store.Day) ([]store.Count, error) {
	return s.Store.Learn.Waiting(ctx, person, until)
}

// Recalls counts a person's due reviews by day, from a day on.
func (s *Service) Recalls(ctx context.Context, person string, from store.Day) ([]store.DayRecalls, error) {
	return s.Store.Learn.Recalls(ctx, person, from)
}
