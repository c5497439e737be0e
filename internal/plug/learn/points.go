package learn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Entry is a point with its plan.
type Entry struct {
	store.Point
	Sittings []store.Sitting // by number
}

// OpenSitting returns the earliest review that is not completed, or nil.
func (e *Entry) OpenSitting() *store.Sitting {
	for i := range e.Sittings {
		if e.Sittings[i].Completed.IsZero() {
			return &e.Sittings[i]
		}
	}
	return nil
}

// Draft is a point to be added.
type Draft struct {
	Question string
	Answer   string
	Deck     string // name; created if it does not exist. Empty: the default deck
	Tags     []string
	// Unplanned points are stored but not reviewed.
	Unplanned bool
	// Unconfirmed points are drafts until their person confirms them.
	Unconfirmed bool
}

// CreateResult is the result for one [Draft].
type CreateResult struct {
	Entry Entry
	More  []Entry // further cards of a note with clozes
	Err   error   // an *[Invalid], or nil
}

// Create adds the valid drafts in one transaction; each with clozes ({{c1::…}}) has its own, and
// becomes a note with a point for each number. The results report the errors of the others one by
// one.
func (s *Service) Create(ctx context.Context, person string, drafts []Draft) ([]CreateResult, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	return s.create(ctx, l, drafts)
}

// create is [Service.Create] for a person who is loaded already.
func (s *Service) create(ctx context.Context, l *Learner, drafts []Draft) ([]CreateResult, error) {
	out := make([]CreateResult, len(drafts))
	var rows []store.NewPoint
	var at []int
	for i, d := range drafts {
		if isCloze(&d) {
			made, err := s.createCloze(ctx, l, d)
			if err != nil && !problem.Is(err, problem.Invalid) {
				return nil, err
			}
			if out[i].Err = err; err == nil {
				out[i].Entry, out[i].More = made[0], made[1:]
			}
			continue
		}
		n, err := s.draft(ctx, l, d)
		if err != nil {
			if !problem.Is(err, problem.Invalid) {
				return nil, err
			}
			out[i].Err = err
			continue
		}
		rows, at = append(rows, n), append(at, i)
	}
	if len(rows) > 0 {
		if err := s.Store.Learn.Add(ctx, l.Person, rows); err != nil {
			return nil, fmt.Errorf("add points: %w", err)
		}
	}
	for j, i := range at {
		out[i].Entry = Entry{rows[j].Point, rows[j].Sittings}
	}
	return out, nil
}

func (s *Service) draft(ctx context.Context, l *Learner, d Draft) (store.NewPoint, error) {
	p := store.Point{ID: newID(), Question: strings.TrimSpace(d.Question), Answer: strings.TrimSpace(d.Answer),
		InPlan: !d.Unplanned, Draft: d.Unconfirmed, Created: l.Now, Updated: l.Now}
	if err := checkTexts(p.Question, p.Answer); err != nil {
		return store.NewPoint{}, err
	}
	var err error
	if p.Tags, err = cleanTags(d.Tags); err != nil {
		return store.NewPoint{}, err
	}
	if p.Deck, err = s.findOrAddDeck(ctx, l, d.Deck); err != nil {
		return store.NewPoint{}, err
	}
	p.Words = IndexWords(p.Question, p.Answer, p.Tags...)
	n := store.NewPoint{Point: p}
	startPlan(&n.Point, &n.Sittings, l)
	return n, nil
}

// startPlan creates the plan of a point that has none.
func startPlan(p *store.Point, sittings *[]store.Sitting, l *Learner) {
	settings := l.Settings(p.Deck)
	number := len(*sittings) + 1
	p.Card.Phase, p.Card.Due, p.Card.DueAt, p.Card.Step = store.New, l.Today, time.Time{}, 0
	if settings.Schedule != schedule.Classic {
		*sittings = append(*sittings, store.Sitting{ID: newID(), Day: l.Today, Number: number, Created: l.Now})
		return
	}
	p.Card.Phase = store.Review
	for i, day := range schedule.ClassicDates(l.Today) {
		*sittings = append(*sittings, store.Sitting{ID: newID(), Day: day, Number: number + i, Created: l.Now})
		if i == 0 {
			p.Card.Due = day
		}
	}
}

func checkTexts(question, answer string) error {
	switch {
	case strings.TrimSpace(question) == "":
		return invalid(msgNoQuestion)
	case strings.TrimSpace(answer) == "":
		return invalid(msgNoAnswer)
	case len(question) > MaxText:
		return invalid(msgLongQuestion, MaxText>>10)
	case len(answer) > MaxText:
		return invalid(msgLongAnswer, MaxText>>10)
	}
	return nil
}

// cleanTags normalizes tags to one line each, sorted, without duplicates.
func cleanTags(tags []string) ([]string, error) {
	var out []string
	for _, tag := range tags {
		tag = strings.Join(strings.Fields(strings.TrimPrefix(strings.TrimSpace(tag), "#")), "-")
		if tag == "" {
			continue
		}
		if len(tag) > maxTagBytes {
			return nil, invalid(i18n.Message("the tag %q is longer than %d bytes"),
				truncateBytes(tag, 30), maxTagBytes)
		}
		out = append(out, tag)
	}
	slices.Sort(out)
	if out = slices.Compact(out); len(out) > maxTags {
		return nil, invalid(i18n.Message("a point has %d tags at most"), maxTags)
	}
	return out, nil
}

// Get returns a point of a person.
func (s *Service) Get(ctx context.Context, person, id string) (*Entry, error) {
	p, plan, err := s.Store.Learn.PointWithPlan(ctx, person, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	return &Entry{p, plan}, err
}

// entries joins points with their plans.
func (s *Service) entries(ctx context.Context, points []store.Point) ([]Entry, error) {
	numbers := make([]int64, len(points))
	for i, p := range points {
		numbers[i] = p.Number
	}
	plans, err := s.Store.Learn.Sittings(ctx, numbers)
	if err != nil {
		return nil, fmt.Errorf("look up plans: %w", err)
	}
	out := make([]Entry, len(points))
	for i, p := range points {
		out[i] = Entry{p, plans[p.Number]}
	}
	return out, nil
}

// List returns points, newest first, after a key.
func (s *Service) List(ctx context.Context, person string, f store.PointFilter, after store.PointKey,
	limit int) ([]Entry, error) {
	points, err := s.Store.Learn.Points(ctx, person, f, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list points: %w", err)
	}
	return s.entries(ctx, points)
}

// Edit is a change of a point; nil fields stay unchanged.
type Edit struct {
	Question  *string   `json:"question,omitempty"`
	Answer    *string   `json:"answer,omitempty"`
	Deck      *string   `json:"deck,omitempty"` // name
	Tags      *[]string `json:"tags,omitempty"`
	InPlan    *bool     `json:"is_in_review_plan,omitempty"`
	Suspended *bool     `json:"suspended,omitempty"`
	Draft     *bool     `json:"draft,omitempty"` // false confirms a draft
	Flag      *int      `json:"flag,omitempty"`  // 1 to 7; 0: none
	Bury      *bool     `json:"bury,omitempty"`  // hides it until tomorrow; false shows it again
	// Fields changes fields of the note that the point is a card of, by name; HTML.
	Fields *map[string]string `json:"fields,omitempty"`
}

// Update changes a point. Plan and history stay, except that a point that moves to a deck with
// another schedule gets dates of that schedule.
func (s *Service) Update(ctx context.Context, person, id string, e Edit) (*Entry, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	return s.update(ctx, l, id, e)
}

// update is [Service.Update] for a person who is loaded already.
func (s *Service) update(ctx context.Context, l *Learner, id string, e Edit) (_ *Entry, err error) {
	deck := ""
	if e.Deck != nil {
		if deck, err = s.findOrAddDeck(ctx, l, *e.Deck); err != nil {
			return nil, err
		}
	}
	var tags []string
	if e.Tags != nil {
		if tags, err = cleanTags(*e.Tags); err != nil {
			return nil, err
		}
	}
	if e.Flag != nil && (*e.Flag < 0 || *e.Flag > MaxFlag) {
		return nil, invalid(msgFlagRange)
	}
	if id, err = s.updateNote(ctx, l, id, &e); err != nil {
		return nil, err
	}
	return s.change(ctx, l.Person, id, func(_ context.Context, c *store.PointChange) error {
		p := &c.Point
		if e.Question != nil {
			p.Question = strings.TrimSpace(*e.Question)
		}
		if e.Answer != nil {
			p.Answer = strings.TrimSpace(*e.Answer)
		}
		if err := checkTexts(p.Question, p.Answer); err != nil {
			return err
		}
		if e.Tags != nil {
			p.Tags = tags
		}
		if e.Question != nil || e.Answer != nil || e.Tags != nil {
			p.Words = IndexWords(p.Question, p.Answer, p.Tags...)
		}
		if e.Suspended != nil {
			p.Suspended = *e.Suspended
		}
		if e.Draft != nil {
			p.Draft = *e.Draft
		}
		if e.Flag != nil {
			p.Flag = *e.Flag
		}
		if e.Bury != nil {
			bury(p, l, *e.Bury)
		}
		if e.InPlan != nil {
			p.InPlan = *e.InPlan
			if open := (&Entry{*p, c.Sittings}).OpenSitting(); p.InPlan && open == nil {
				startPlan(p, &c.Sittings, l)
			}
		}
		if e.Deck != nil && deck != p.Deck {
			from := l.Settings(p.Deck).Schedule
			p.Deck = deck
			if to := l.Settings(deck); to.Schedule != from {
				replan(c, l, to)
			}
		}
		p.Updated = l.Now
		return nil
	})
}

// change applies a function to a point that is not in the trash.
func (s *Service) change(ctx context.Context, person, id string,
	f func(context.Context, *store.PointChange) error) (*Entry, error) {
	c, err := s.Store.Learn.Change(ctx, person, id, func(ctx context.Context, c *store.PointChange) error {
		if !c.Point.Deleted.IsZero() {
			return ErrNotFound
		}
		return f(ctx, c)
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return &Entry{c.Point, c.Sittings}, nil
}

// Delete moves a point to the trash.
func (s *Service) Delete(ctx context.Context, person, id string) error {
	now := s.Now()
	_, err := s.change(ctx, person, id, func(_ context.Context, c *store.PointChange) error {
		c.Point.Deleted = now
		return nil
	})
	return err
}

// Restore takes a point out of the trash.
func (s *Service) Restore(ctx context.Context, person, id string) (*Entry, error) {
	c, err := s.Store.Learn.Change(ctx, person, id, func(_ context.Context, c *store.PointChange) error {
		c.Point.Deleted = time.Time{}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return &Entry{c.Point, c.Sittings}, nil
}

// EmptyTrash permanently deletes points that have been in the trash for [TrashRetention], and what
// is kept to undo old edits.
func (s *Service) EmptyTrash(ctx context.Context) (int, error) {
	if err := s.Store.Learn.ForgetOldBulks(ctx, s.Now()); err != nil {
		return 0, err
	}
	return s.Store.Learn.EmptyTrash(ctx, "", s.Now().Add(-TrashRetention))
}

// maxLog limits the history of a point. It is short, because reviews are days apart.
const maxLog = 1000

// Log returns the history of a point, oldest entry first.
func (s *Service) Log(ctx context.Context, person string, e *Entry) ([]store.LogEntry, error) {
	return s.Store.Learn.Log(ctx, person, e.Number, e.Created.AddDate(-100, 0, 0), "", maxLog)
}
