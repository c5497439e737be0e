package learn

import (
	"context"
	"fmt"
	"slices"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/fsrs"
	"patchbay/internal/plug/learn/fsrs/simulate"
	"patchbay/internal/store"
)

// Limits of a simulation: 100,000 points over two years with one retention take about a second.
const (
	maxSimulatedDays       = 3650
	maxSimulatedRetentions = 10
	maxSimulatedPoints     = 100_000 // new ones
	minRetention           = 0.70
	maxRetention           = 0.99
)

const (
	defaultSimulatedDays = 365
	// imaginedPoints is how many new points a person without any is given.
	imaginedPoints = 1000
	// defaultSeconds is how long a review takes of somebody of whom that is not known, and
	// minTimedReviews how many reviews it takes to know it.
	defaultSeconds  = 10
	minTimedReviews = 50
	timedDays       = 365
)

// simulatedRetentions are the retentions that are compared if none are given.
var simulatedRetentions = []float64{0.80, 0.85, 0.90, 0.95, 0.97}

// Simulation selects what is simulated.
type Simulation struct {
	Deck       string    // name; empty: all points, by the common settings
	Retentions []float64 // empty: usual ones
	Days       int       // 0: a year
	NewPoints  *int      // nil: the person's own, or some if there are no points at all
	Seed       uint64    // decides by chance; the same seed gives the same results
}

// SimulationReport is what other retentions would cost and bring.
type SimulationReport struct {
	Days       int               `json:"days"`
	Retention  float64           `json:"retention"`  // the current one
	Points     int               `json:"points"`     // that were reviewed before
	NewPoints  int               `json:"new_points"` // that were not
	NewPerDay  int               `json:"new_per_day"`
	Seconds    float64           `json:"seconds_per_review"`
	Remembered float64           `json:"remembered_now"`
	Results    []simulate.Result `json:"results"` // by retention
}

func (o *Simulation) validate() error {
	if o.Days < 0 || o.Days > maxSimulatedDays {
		return invalid(i18n.Message("days must be from 1 to %d"), maxSimulatedDays)
	}
	if o.NewPoints != nil && (*o.NewPoints < 0 || *o.NewPoints > maxSimulatedPoints) {
		return invalid(i18n.Message("new_points must be from 0 to %d"), maxSimulatedPoints)
	}
	if len(o.Retentions) > maxSimulatedRetentions {
		return invalid(i18n.Message("at most %d retentions can be compared"), maxSimulatedRetentions)
	}
	for _, r := range o.Retentions {
		if !(r >= minRetention && r <= maxRetention) {
			return invalid(i18n.Message("a retention is from %.2f to %.2f, not %v"), minRetention, maxRetention, r)
		}
	}
	return nil
}

// Simulate plays through a person's coming days with several retentions. It changes nothing.
func (s *Service) Simulate(ctx context.Context, person string, in Simulation) (*SimulationReport, error) {
	if err := in.validate(); err != nil {
		return nil, err
	}
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	o, err := s.simulationOptions(ctx, l, &in)
	if err != nil {
		return nil, err
	}
	deck, err := deckFilter(l, &in.Deck)
	if err != nil {
		return nil, err
	}
	settings := l.common
	if deck != nil {
		settings = l.Settings(*deck)
	}
	out := &SimulationReport{Days: o.Days, Retention: settings.Retention, Points: len(o.Cards), NewPoints: o.New,
		NewPerDay: o.NewPerDay, Seconds: o.Seconds, Remembered: simulate.Remembered(&o.Weights, o.Cards, 0)}
	retentions := slices.Clone(in.Retentions)
	if len(retentions) == 0 {
		retentions = append(slices.Clone(simulatedRetentions), settings.Retention)
	}
	slices.Sort(retentions)
	for _, retention := range slices.Compact(retentions) {
		r, err := simulate.Run(ctx, o, retention)
		if err != nil {
			return nil, err
		}
		out.Results = append(out.Results, r)
	}
	return out, nil
}

// simulationOptions describes the person for the simulation.
func (s *Service) simulationOptions(ctx context.Context, l *Learner, in *Simulation) (o simulate.Options, err error) {
	deck, err := deckFilter(l, &in.Deck)
	if err != nil {
		return o, err
	}
	settings := l.common
	if deck != nil {
		settings = l.Settings(*deck)
	}
	o = simulate.Options{Weights: weightsOf(settings), Days: in.Days, NewPerDay: settings.NewPerDay,
		ReviewsPerDay: settings.ReviewsPerDay, MaxInterval: settings.MaxInterval,
		Steps: max(len(settings.Steps)-1, 0), Relearn: len(settings.Relearn), Seed: in.Seed}
	if o.Days == 0 {
		o.Days = defaultSimulatedDays
	}
	err = s.Store.Learn.ReadMemories(ctx, l.Person, deck, func(m store.PlannedMemory) error {
		if m.Stability <= 0 {
			o.New++
			return nil
		}
		o.Cards = append(o.Cards, simulate.Card{Memory: fsrs.Memory{Stability: m.Stability, Difficulty: m.Difficulty},
			Last: min(int(m.LastDay-l.Today), 0), Due: int(m.Due - l.Today)})
		return nil
	})
	if err != nil {
		return o, fmt.Errorf("read the memory of points: %w", err)
	}
	switch {
	case in.NewPoints != nil:
		o.New = *in.NewPoints
	case o.New == 0 && len(o.Cards) == 0:
		o.New = imaginedPoints
	}
	o.Seconds, err = s.secondsPerReview(ctx, l)
	return o, err
}

// secondsPerReview returns how long a review takes on average.
func (s *Service) secondsPerReview(ctx context.Context, l *Learner) (float64, error) {
	work, err := s.Store.Learn.Work(ctx, l.Person, l.Today-timedDays)
	if err != nil {
		return 0, fmt.Errorf("look up the time of reviews: %w", err)
	}
	reviews, took := 0, 0.0
	for _, w := range work {
		if w.Took > 0 {
			reviews += w.Reviews()
			took += w.Took.Seconds()
		}
	}
	if reviews < minTimedReviews {
		return defaultSeconds, nil
	}
	return took / float64(reviews), nil
}
