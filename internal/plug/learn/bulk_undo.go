package learn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/internal/store"
)

// LastBulk returns the edit that [Service.UndoBulk] would take back, and the number of its points.
// It returns [store.ErrNotFound] if there is none.
func (s *Service) LastBulk(ctx context.Context, person string) (e BulkEdit, points int, err error) {
	last, err := s.Store.Learn.LastBulk(ctx, person, s.Now())
	if err == nil {
		err = json.Unmarshal(last.Edit, &e)
	}
	return e, last.Points, err
}

// UndoBulk takes back the last edit of many points. Of each point it puts back what the edit
// changed and nothing else changed since. If it is interrupted, a second call finishes the work.
func (s *Service) UndoBulk(ctx context.Context, person, channel string,
	progress func(done, total int)) (*UndoneBulk, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	out := &UndoneBulk{}
	last, err := s.Store.Learn.LastBulk(ctx, person, l.Now)
	if errors.Is(err, store.ErrNotFound) {
		return nil, invalid(msgNoBulk)
	}
	if err == nil {
		err = json.Unmarshal(last.Edit, &out.Edit)
	}
	if err != nil {
		return out, fmt.Errorf("undo an edit of points: %w", err)
	}
	for done := 0; done < last.Points; {
		part, err := s.Store.Learn.FirstPart(ctx, person, last.ID)
		if errors.Is(err, store.ErrNotFound) { // somebody else undid it too
			return out, nil
		}
		if err != nil {
			return out, fmt.Errorf("undo an edit of points: %w", err)
		}
		n, kept, err := s.undoPart(ctx, l, part, channel)
		if err != nil {
			return out, fmt.Errorf("undo an edit of points: %w", err)
		}
		out.Points, out.Kept = out.Points+n, out.Kept+kept
		if done += part.N; progress != nil {
			progress(done, max(done, last.Points))
		}
	}
	return out, nil
}

func (s *Service) undoPart(ctx context.Context, l *Learner, part store.BulkPart, channel string) (n, kept int,
	err error) {
	var list []pointBefore
	if err := json.Unmarshal(part.Changes, &list); err != nil {
		return 0, 0, err
	}
	byNumber := make(map[int64]*pointBefore, len(list))
	points := store.ManyPoints{Numbers: make([]int64, len(list))}
	for i := range list {
		w := &list[i]
		byNumber[w.Number], points.Numbers[i] = w, w.Number
		points.Plans = points.Plans || w.Deck != nil || w.Card != nil
	}
	err = s.Store.Learn.ChangeMany(ctx, l.Person, points, func(changes []*store.PointChange) (*store.BulkPart, error) {
		n = 0
		for _, c := range changes {
			if byNumber[c.Point.Number].restore(c, l, channel) {
				n++
				c.Point.Updated = l.Now
			} else {
				c.Unchanged = true
			}
		}
		return nil, nil
	}, &part)
	return n, len(list) - n, err
}

// restore puts back what an edit changed and nobody changed since. It reports whether that is
// anything.
func (w *pointBefore) restore(c *store.PointChange, l *Learner, channel string) bool {
	p := &c.Point
	before := snapshot(c)
	movedOn := w.Deck != nil && p.Deck != w.Deck[1]
	if w.Deck != nil && !movedOn {
		p.Deck = w.Deck[0]
	}
	if w.Suspended != nil && p.Suspended == w.Suspended[1] {
		p.Suspended = w.Suspended[0]
	}
	if w.Flag != nil && p.Flag == w.Flag[1] {
		p.Flag = w.Flag[0]
	}
	if w.Deleted != nil && deletedMillis(p) == w.Deleted[1] {
		if p.Deleted = (time.Time{}); w.Deleted[0] != 0 {
			p.Deleted = time.UnixMilli(w.Deleted[0])
		}
	}
	if w.Card != nil && !movedOn && sameCard(p.Card, w.Card[1]) {
		p.Card = w.Card[0]
		if w.Sittings != nil {
			c.Sittings = w.Sittings
		}
		if !samePlan(w.Card[0], w.Card[1]) {
			c.Log = append(c.Log, rescheduleEntry(c, l, w.Card[1], channel))
		}
	} else if to := l.Settings(p.Deck); to.Schedule != l.Settings(before.point.Deck).Schedule {
		replan(c, l, to)
	}
	if len(w.Added)+len(w.Removed) > 0 {
		tags := append(without(p.Tags, w.Added), without(w.Removed, p.Tags)...)
		if slices.Sort(tags); !slices.Equal(tags, p.Tags) && len(tags) <= maxTags {
			p.Tags = tags
			p.Words = IndexWords(p.Question, p.Answer, p.Tags...)
		}
	}
	_, changed := before.diff(c)
	return changed
}

// samePlan reports whether two cards come back alike.
func samePlan(a, b store.Card) bool {
	return a.Phase == b.Phase && a.Step == b.Step && a.Due == b.Due && a.DueAt.Equal(b.DueAt)
}
