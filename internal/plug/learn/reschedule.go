package learn

import (
	"context"
	"slices"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// Reschedule moves a point to another date; see [rescheduled].
func (s *Service) Reschedule(ctx context.Context, person, id string, due store.Day, channel string) (*Entry, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	return s.rescheduleOf(ctx, l, id, due, channel)
}

// rescheduleOf is [Service.Reschedule] for a person who is loaded already.
func (s *Service) rescheduleOf(ctx context.Context, l *Learner, id string, due store.Day,
	channel string) (*Entry, error) {
	if err := checkDue(l, due); err != nil {
		return nil, err
	}
	return s.change(ctx, l.Person, id, func(_ context.Context, c *store.PointChange) error {
		return reschedule(c, l, due, channel)
	})
}

func checkDue(l *Learner, due store.Day) error {
	if due < l.Today || due > l.Today+36500 {
		return invalid(i18n.Message("the date must lie between today (%s) and a hundred years from now"), l.Today)
	}
	return nil
}

// reschedule moves a point to another date.
func reschedule(c *store.PointChange, l *Learner, due store.Day, channel string) error {
	p := &c.Point
	before := p.Card
	open := (&Entry{*p, c.Sittings}).OpenSitting()
	switch {
	case !p.InPlan || p.Draft:
		return ErrNoPlan
	case open == nil: // the classic course is complete
		c.Sittings = append(c.Sittings, store.Sitting{ID: newID(), Day: due, Number: len(c.Sittings) + 1,
			Created: l.Now})
		p.Card.Phase = store.Review
	default:
		open.Day = due
		if i := slices.IndexFunc(c.Sittings, func(v store.Sitting) bool { return v.ID == open.ID }); i >= 0 {
			c.Sittings[i].Day = due
		}
	}
	p.Card = rescheduled(p.Card, due)
	c.Log = append(c.Log, rescheduleEntry(c, l, before, channel))
	return nil
}

// rescheduleEntry returns the log entry for a new date of a point.
func rescheduleEntry(c *store.PointChange, l *Learner, before store.Card, channel string) store.LogEntry {
	return store.LogEntry{
		ID: newID(), Person: l.Person, Point: c.Point.Number, Kind: store.LogReschedule, At: l.Now, Day: l.Today,
		Zone:  l.Calendar.Zone.String(),
		Score: -1, Channel: channel, Before: encodeCard(before), After: encodeCard(c.Point.Card),
	}
}
