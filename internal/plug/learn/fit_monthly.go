package learn

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	// fitEvery is how many days pass between two fits that nobody asks for.
	fitEvery = 30
	// fitInterval is the time between two looks for people whose fit is due.
	fitInterval = time.Hour
)

// RunFits fits the weights of people who want that each month, until ctx ends, and then returns
// nil. Of several instances one fits those of a person. call wraps each fit, so that it is recorded
// in the audit trail; nil: it is not.
func (s *Service) RunFits(ctx context.Context, call func(person string, do func() error) error) error {
	if call == nil {
		call = func(_ string, do func() error) error { return do() }
	}
	for {
		if err := s.fitDue(ctx, call); err != nil && ctx.Err() == nil {
			s.Logger.ErrorContext(ctx, "no weights were fitted", "error", err)
		}
		if netx.Wait(ctx, fitInterval) != nil {
			return nil
		}
	}
}

// fitDue fits the weights of all people whose fit is due.
func (s *Service) fitDue(ctx context.Context, call func(person string, do func() error) error) error {
	people, err := s.Store.Learn.Learners(ctx)
	if err != nil {
		return fmt.Errorf("look up who learns: %w", err)
	}
	for _, p := range people {
		var wishes Profile
		if json.Unmarshal(p.Settings, &wishes) != nil || !wishes.FitMonthly {
			continue
		}
		if err := s.fitMonthly(ctx, p.Person, call); err != nil && ctx.Err() == nil {
			s.Logger.ErrorContext(ctx, "a person's weights were not fitted", "person", p.Person, "error", err)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

// fitMonthly fits a person's weights if the last time is long enough ago. If another fit runs here,
// the next look tries again.
func (s *Service) fitMonthly(ctx context.Context, person string,
	call func(person string, do func() error) error) error {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return err
	}
	last, err := s.Store.Learn.Fitted(ctx, person)
	if err != nil || last > l.Today-fitEvery {
		return err
	}
	first, err := s.Store.Learn.MarkFitted(ctx, person, l.Today, l.Today-fitEvery)
	if err != nil || !first {
		return err
	}
	var report *FitReport
	err = call(person, func() (err error) {
		report, err = s.Fit(ctx, person, FitOptions{})
		return err
	})
	if problem.Is(err, problem.Unavailable) || ctx.Err() != nil {
		return s.retryFit(ctx, person, l.Today, last)
	}
	if err != nil {
		return err
	}
	for _, f := range report.Fits {
		s.Logger.InfoContext(ctx, "weights were fitted to reviews", "person", person, "deck", f.Deck,
			"outcome", f.Outcome, "reviews", f.Reviews)
	}
	return nil
}

// retryFit takes the mark of a day back, so that a fit that did not begin or was interrupted by a
// stop is made soon.
func (s *Service) retryFit(ctx context.Context, person string, today, last store.Day) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseTimeout)
	defer cancel()
	_, err := s.Store.Learn.MarkFitted(ctx, person, last, today)
	return err
}
