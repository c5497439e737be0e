package learn

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
)

// event is an entry of the log, in the order in which a point's state is computed again.
type event struct {
	store.LogEntry
	added bool // not in the log yet
}

// replay adds reviews to a point and takes others back, and computes its state from the first of
// them on. Each later entry of the log keeps the state of before it, so nothing earlier is read.
func (s *Service) replay(ctx context.Context, c *store.PointChange, l *Learner, add, drop []store.LogEntry,
	channel string) error {
	since := time.Unix(1<<40, 0)
	for _, e := range slices.Concat(add, drop) {
		if e.At.Before(since) {
			since = e.At
		}
	}
	history, err := c.History(ctx, since)
	if err != nil {
		return err
	}
	p := &replayer{s: s, c: c, l: l, settings: l.Settings(c.Point.Deck), was: c.Point.Card, card: c.Point.Card}
	events, err := p.begin(history, add, drop)
	if err != nil {
		return err
	}
	for i := range events {
		if events[i].Kind == store.LogReview {
			err = p.review(ctx, &events[i])
		} else {
			p.reschedule(&events[i])
		}
		if err != nil {
			return err
		}
	}
	p.finish()
	for _, e := range drop {
		p.undo(e, channel)
	}
	return nil
}

// replayer computes the state of a point again.
type replayer struct {
	s        *Service
	c        *store.PointChange
	l        *Learner
	settings schedule.Settings
	was      store.Card // of the point, before
	card     store.Card
	// kept are rows of the plan that stay as they are; the others are completed one by one, in
	// their order. done is how many of those are.
	kept, rows []store.Sitting
	done       int
	last       event // review that was computed last
}

// begin returns the events to compute, by time, and sets the state before them.
func (p *replayer) begin(history, add, drop []store.LogEntry) ([]event, error) {
	// Entries of another program have no states, so their effect cannot be computed again. What is
	// added goes behind them.
	for i, e := range slices.Backward(history) {
		if len(e.Before) == 0 {
			history = history[i+1:]
			break
		}
	}
	repeated := map[string]bool{}
	var events []event
	if len(history) > 0 {
		p.card = store.Card{} // the JSON leaves out what is zero
		if err := json.Unmarshal(history[0].Before, &p.card); err != nil {
			return nil, fmt.Errorf("read what was before a review: %w", err)
		}
	}
	for _, e := range history {
		repeated[e.Sitting] = e.Kind == store.LogReview
		if !slices.ContainsFunc(drop, func(d store.LogEntry) bool { return d.ID == e.ID }) {
			events = append(events, event{LogEntry: e})
		}
	}
	for _, e := range add {
		events = append(events, event{LogEntry: e, added: true})
	}
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID))
	})
	for _, v := range p.c.Sittings {
		if v.Completed.IsZero() || repeated[v.ID] {
			p.rows = append(p.rows, v)
		} else {
			p.kept = append(p.kept, v)
		}
	}
	return events, nil
}

// review computes the state after a review.
func (p *replayer) review(ctx context.Context, e *event) error {
	calendar := p.calendar(e)
	before := p.card
	at := e.At
	if at.Before(before.LastAt) {
		at = before.LastAt
	}
	after, err := schedule.Next(before, p.settings, calendar, schedule.Review{Grade: e.Grade, At: at},
		p.c.Point.Number, func(d store.Day) int { return p.c.Load(ctx, d) })
	if err != nil {
		return fmt.Errorf("schedule the next review: %w", err)
	}
	after.Buried = 0
	was := e.LogEntry
	e.Sitting = p.completeRow(before, e)
	if p.settings.Schedule == schedule.Classic {
		p.course(&after, calendar.Day(at))
	}
	e.Queue, e.Elapsed = queueOf(before), -1
	if before.Reps > 0 {
		e.Elapsed = schedule.Elapsed(before, calendar.Day(at))
	}
	e.Before, e.After = encodeCard(before), encodeCard(after)
	p.card, p.last = after, *e
	if !e.added {
		p.revise(was, e.LogEntry)
		return nil
	}
	p.c.Log = append(p.c.Log, e.LogEntry)
	if p.settings.Bury && e.Day >= p.l.Today {
		p.c.BuryKin = max(p.c.BuryKin, e.Day+1)
	}
	return nil
}

// calendar returns the calendar in which a review was counted.
func (p *replayer) calendar(e *event) schedule.Calendar {
	cal := p.l.Calendar
	if e.Zone == "" || e.Zone == cal.Zone.String() {
		return cal
	}
	if zone, err := time.LoadLocation(e.Zone); err == nil {
		cal.Zone = zone
	}
	return cal
}

// revise records that the computed fields of an entry have changed.
func (p *replayer) revise(was, now store.LogEntry) {
	if was.Sitting != now.Sitting || was.Queue != now.Queue || was.Elapsed != now.Elapsed ||
		!bytes.Equal(was.Before, now.Before) || !bytes.Equal(was.After, now.After) {
		p.c.Revised = append(p.c.Revised, store.LogRevision{Was: was, Now: now})
	}
}

// completeRow completes the next row of the plan, and returns its ID.
func (p *replayer) completeRow(before store.Card, e *event) string {
	if p.done == len(p.rows) {
		p.rows = append(p.rows, store.Sitting{ID: newID(), Day: before.Due, Number: p.lastNumber() + 1, Created: e.At})
	}
	row := &p.rows[p.done]
	if p.settings.Schedule != schedule.Classic {
		row.Day = before.Due
	}
	row.Completed, row.Recall = e.At, e.Recall
	p.done++
	return row.ID
}

func (p *replayer) lastNumber() (n int) {
	for _, v := range p.kept {
		n = max(n, v.Number)
	}
	for _, v := range p.rows {
		n = max(n, v.Number)
	}
	return n
}

// course sets where the classic course goes on after a review, as [Service.planNext] does.
func (p *replayer) course(card *store.Card, today store.Day) {
	if p.done == len(p.rows) {
		card.Phase = store.Done
		return
	}
	card.Phase, card.Due = store.Review, max(p.rows[p.done].Day, today+1)
}

// reschedule repeats that the date was set by hand, or that undoing an edit brought back a plan.
func (p *replayer) reschedule(e *event) {
	var from, set store.Card
	if json.Unmarshal(e.Before, &from) != nil || json.Unmarshal(e.After, &set) != nil {
		return // they were written as JSON
	}
	was, before := e.LogEntry, p.card
	p.card = rescheduled(p.card, set.Due)
	if !samePlan(set, rescheduled(from, set.Due)) {
		p.card.Phase, p.card.Step, p.card.DueAt, p.card.Buried = set.Phase, set.Step, set.DueAt, set.Buried
	}
	if p.done < len(p.rows) {
		p.rows[p.done].Day = set.Due
	}
	e.Before, e.After = encodeCard(before), encodeCard(p.card)
	p.revise(was, e.LogEntry)
}

// rescheduled returns a card that comes on a date. A card that was never reviewed stays out of the
// queue until then.
func rescheduled(card store.Card, due store.Day) store.Card {
	card.Buried = 0
	if card.Phase == store.New {
		card.Buried = due
	} else {
		card.Phase, card.Step, card.DueAt = store.Review, 0, time.Time{}
	}
	card.Due = due
	return card
}

// finish writes state and plan into the change.
func (p *replayer) finish() {
	point := &p.c.Point
	if p.last.ID != "" && !p.last.added {
		p.card.Buried = p.was.Buried // what was buried after the last review stays so
	}
	point.Card = p.card
	left := p.rows[p.done:]
	for i := range left {
		left[i].Completed, left[i].Recall = time.Time{}, ""
	}
	if p.settings.Schedule != schedule.Classic {
		// FSRS keeps one open row. It is a new one after a review, as undoing expects it.
		switch {
		case p.done > 0:
			p.rows = p.rows[:p.done]
			if point.InPlan {
				p.rows = append(p.rows, store.Sitting{ID: newID(), Day: p.card.Due, Number: p.lastNumber() + 1,
					Created: p.last.At})
			}
		case len(left) > 0:
			p.rows = left[:1]
			p.rows[0].Day = p.card.Due
		}
	}
	p.c.Sittings = slices.Concat(p.kept, p.rows)
	slices.SortStableFunc(p.c.Sittings, func(a, b store.Sitting) int { return cmp.Compare(a.Number, b.Number) })
	p.markLeech()
}

// markLeech tags a point that has become a leech, or is none any more.
func (p *replayer) markLeech() {
	point := &p.c.Point
	switch {
	case schedule.BecameLeech(p.was, p.card, p.settings):
		if !slices.Contains(point.Tags, LeechTag) {
			point.Tags = append(slices.Clone(point.Tags), LeechTag)
			slices.Sort(point.Tags)
		}
		point.Suspended = point.Suspended || p.settings.LeechSuspend
	case schedule.BecameLeech(p.card, p.was, p.settings):
		point.Tags = slices.DeleteFunc(slices.Clone(point.Tags), func(tag string) bool { return tag == LeechTag })
		point.Suspended = point.Suspended && !p.settings.LeechSuspend
	}
}

// undo records that a review was taken back.
func (p *replayer) undo(e store.LogEntry, channel string) {
	at := p.l.Now
	if at.UnixMilli() <= e.At.UnixMilli() {
		at = e.At.Add(time.Millisecond)
	}
	p.c.Log = append(p.c.Log, store.LogEntry{
		ID: newID(), Person: p.l.Person, Point: e.Point, Kind: store.LogUndo, At: at, Day: e.Day,
		Zone: p.l.Calendar.Zone.String(), Grade: e.Grade, Queue: e.Queue, Deck: e.Deck, Sitting: e.Sitting,
		Score: -1, Channel: channel, Elapsed: e.Elapsed, Before: encodeCard(p.was),
		After: encodeCard(p.card), Undoes: e.ID,
	})
}

// queueOf returns the queue in which a card waits, if its point is among those that are reviewed.
func queueOf(card store.Card) store.Queue {
	p := store.Point{InPlan: true, Card: card}
	return p.Queue()
}
