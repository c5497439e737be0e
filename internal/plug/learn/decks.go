package learn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
)

// findOrAddDeck finds a deck by name, or creates it.
func (s *Service) findOrAddDeck(ctx context.Context, l *Learner, name string) (string, error) {
	if id, ok := l.DeckID(strings.TrimSpace(name)); ok {
		return id, nil
	}
	d, err := s.addDeck(ctx, l, name, nil)
	return d.ID, err
}

func (s *Service) addDeck(ctx context.Context, l *Learner, name string, settings json.RawMessage) (store.Deck, error) {
	return s.addDeckOf(ctx, l, name, settings, "")
}

// addDeckOf adds a deck with its source, see [store.Deck].
func (s *Service) addDeckOf(ctx context.Context, l *Learner, name string, settings json.RawMessage,
	source string) (store.Deck, error) {
	name, err := deckName(name)
	if err != nil {
		return store.Deck{}, err
	}
	if len(l.Decks) >= maxDecks {
		return store.Deck{}, invalid(i18n.Message("there are %d decks already, which is the most"), maxDecks)
	}
	if len(settings) == 0 {
		settings = json.RawMessage("{}")
	}
	d := store.Deck{ID: newID(), Person: l.Person, Name: name, Settings: settings, Created: l.Now, Source: source}
	err = s.Store.Learn.AddDeck(ctx, d)
	if errors.Is(err, store.ErrExists) { // another request created it first
		if l.Decks, err = s.Store.Learn.Decks(ctx, l.Person); err != nil {
			return d, err
		}
		if id, ok := l.DeckID(name); ok {
			return *l.deck(id), nil
		}
	}
	if err != nil {
		return d, fmt.Errorf("add a deck: %w", err)
	}
	l.Decks = append(l.Decks, d)
	return d, nil
}

func deckName(name string) (string, error) {
	name = strings.Join(strings.Fields(name), " ")
	switch {
	case name == "":
		return "", invalid(i18n.Message("a deck needs a name"))
	case len(name) > maxName:
		return "", invalid(i18n.Message("the name of a deck has %d bytes at most"), maxName)
	case strings.EqualFold(name, DefaultDeck):
		return "", invalid(i18n.Message("%q is the deck that everybody has; take another name"), name)
	}
	return name, nil
}

// DeckEdit is a change of a deck.
type DeckEdit struct {
	Name     string          // the deck; created if it does not exist
	NewName  string          // empty: keep the name
	Settings json.RawMessage // changed settings; null falls back to the person's setting
}

// SaveDeck creates or changes a deck. If the schedule of the deck changes, all its points get dates
// of the new one. progress reports how far that is; it may be nil.
func (s *Service) SaveDeck(ctx context.Context, person string, e DeckEdit,
	progress func(done, total int)) (store.Deck, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return store.Deck{}, err
	}
	id, known := l.DeckID(e.Name)
	if known && id == "" {
		return store.Deck{},
			invalid(i18n.Message("the default deck has the settings that all decks have in common: change those instead"))
	}
	var was store.Deck
	before := l.common
	if known {
		was, before = *l.deck(id), l.Settings(id)
	}
	patch, err := mergePatch(was.Settings, e.Settings)
	if err != nil {
		return store.Deck{}, err
	}
	after, err := l.common.With(patch)
	if err != nil {
		return store.Deck{}, invalid(msgPlain, err)
	}
	if !known {
		return s.addDeck(ctx, l, e.Name, patch)
	}
	d := was
	d.Settings = patch
	if e.NewName != "" {
		if d.Name, err = deckName(e.NewName); err != nil {
			return d, err
		}
	}
	taken := invalid(i18n.Message("there is a deck %q already"), d.Name)
	if slices.ContainsFunc(l.Decks, func(other store.Deck) bool { return other.Name == d.Name && other.ID != id }) {
		return d, taken
	}
	if before.Schedule != after.Schedule {
		// The points come first: if this is interrupted, the deck still names the old schedule, and
		// a repeated request finishes the work.
		if err := s.replanDeck(ctx, person, id, after, progress); err != nil {
			return d, err
		}
	}
	err = s.Store.Learn.SaveDeck(ctx, d)
	if errors.Is(err, store.ErrExists) {
		return d, taken
	}
	if err != nil {
		return d, fmt.Errorf("save a deck: %w", err)
	}
	return d, nil
}

// mergePatch applies changes to a JSON object; a null removes the member.
func mergePatch(base, changes json.RawMessage) (json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	if len(base) > 0 {
		if err := json.Unmarshal(base, &out); err != nil {
			return nil, err
		}
	}
	if len(changes) > 0 {
		var more map[string]json.RawMessage
		if err := json.Unmarshal(changes, &more); err != nil {
			return nil, invalid(i18n.Message("settings must be a JSON object"))
		}
		for name, value := range more {
			if string(value) == "null" {
				delete(out, name)
			} else {
				out[name] = value
			}
		}
	}
	return json.Marshal(out)
}

// mergeInside merges the named members, which are objects themselves, member by member where
// changes contains them.
func mergeInside(merged, was, changes json.RawMessage, names ...string) (json.RawMessage, error) {
	var out, old, change map[string]json.RawMessage
	for text, into := range map[*json.RawMessage]any{&merged: &out, &was: &old, &changes: &change} {
		if err := json.Unmarshal(*text, into); err != nil {
			return nil, invalid(i18n.Message("settings must be a JSON object"))
		}
	}
	for _, name := range names {
		inner := change[name]
		if len(inner) == 0 || string(inner) == "null" {
			continue
		}
		var err error
		if out[name], err = mergePatch(old[name], inner); err != nil {
			return nil, err
		}
	}
	return json.Marshal(out)
}

// RemoveDeck deletes a deck. Its points move to the default one.
func (s *Service) RemoveDeck(ctx context.Context, person, name string) error {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return err
	}
	id, ok := l.DeckID(name)
	if !ok {
		return l.DeckNotFound(name)
	}
	if id == "" {
		return invalid(i18n.Message("the default deck stays"))
	}
	before := l.Settings(id).Schedule
	if before != l.common.Schedule {
		// The points get the dates of their new deck while they can still be told from the points
		// there.
		if err := s.replanDeck(ctx, person, id, l.common, nil); err != nil {
			return err
		}
	}
	err = s.Store.Learn.RemoveDeck(ctx, person, id)
	if errors.Is(err, store.ErrNotFound) {
		return l.DeckNotFound(name)
	}
	return err
}

// SaveProfile changes a person's profile. changes is a JSON object with members of [Profile], in
// which null resets a member; defaults and remind are merged member by member. If the common
// schedule changes, the points of the decks that follow it get new dates.
func (s *Service) SaveProfile(ctx context.Context, person string, changes json.RawMessage,
	progress func(done, total int)) (*Learner, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	was, err := json.Marshal(l.Profile)
	if err != nil {
		return nil, err
	}
	merged, err := mergePatch(was, changes)
	if err == nil {
		merged, err = mergeInside(merged, was, changes, "defaults", "remind")
	}
	if err != nil {
		return nil, err
	}
	var p Profile
	dec := json.NewDecoder(strings.NewReader(string(merged)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return nil, invalid(i18n.Message("settings: %s"), strings.TrimPrefix(err.Error(), "json: "))
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	next := *l
	if next.common, err = schedule.Default().With(p.Defaults); err != nil {
		return nil, invalid(msgPlain, err)
	}
	for _, deck := range append([]store.Deck{{}}, l.Decks...) {
		if to := next.Settings(deck.ID); l.Settings(deck.ID).Schedule != to.Schedule {
			// The points come before the settings, as in SaveDeck.
			if err := s.replanDeck(ctx, person, deck.ID, to, progress); err != nil {
				return nil, err
			}
		}
	}
	if err := s.Store.Learn.SaveLearner(ctx, person, text); err != nil {
		return nil, fmt.Errorf("save settings: %w", err)
	}
	return s.Learner(ctx, person)
}

// replanBatch is how many points change concurrently, so that they share disk writes.
const replanBatch = 32

// replanDeck gives all points of a deck the dates of the given settings.
func (s *Service) replanDeck(ctx context.Context, person, deck string, to schedule.Settings,
	progress func(done, total int)) error {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return err
	}
	total := 0
	totals, err := s.Store.Learn.Totals(ctx, person)
	if err != nil {
		return err
	}
	for _, c := range totals {
		if c.Deck == deck {
			total = c.N
		}
	}
	var after store.PointKey
	for done := 0; ; {
		points, err := s.Store.Learn.Points(ctx, person, store.PointFilter{Deck: &deck}, after, 500)
		if err != nil || len(points) == 0 {
			return err
		}
		group, each := errgroup.WithContext(ctx)
		group.SetLimit(replanBatch)
		for _, p := range points {
			group.Go(func() error {
				_, err := s.change(each, person, p.ID, func(_ context.Context, c *store.PointChange) error {
					replan(c, l, to)
					return nil
				})
				if errors.Is(err, ErrNotFound) {
					return nil // deleted meanwhile
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		last := points[len(points)-1]
		after = store.PointKey{At: last.Created, Number: last.Number}
		if done += len(points); progress != nil {
			progress(done, max(done, total))
		}
	}
}

// replan gives a point the dates of a schedule. Completed reviews stay.
func replan(c *store.PointChange, l *Learner, to schedule.Settings) {
	var done []store.Sitting
	for _, s := range c.Sittings {
		if !s.Completed.IsZero() {
			done = append(done, s)
		}
	}
	p := &c.Point
	c.Sittings = done
	if to.Schedule != schedule.Classic {
		p.Card = schedule.ToFSRS(p.Card, to)
		if p.Card.Phase == store.New {
			p.Card.Due = l.Today
		}
		c.Sittings = append(c.Sittings, store.Sitting{ID: newID(), Day: p.Card.Due, Number: len(done) + 1,
			Created: l.Now})
		return
	}
	resumeCourse(c, l)
}

// resumeCourse appends the rest of the classic course to a plan that holds only completed reviews.
func resumeCourse(c *store.PointChange, l *Learner) {
	p := &c.Point
	// Learning steps on one day count as one review.
	seen := map[store.Day]bool{}
	for _, s := range c.Sittings {
		seen[l.Calendar.Day(s.Completed)] = true
	}
	done := len(seen)
	days := schedule.ResumeClassic(done, l.Calendar.Day(p.Created), p.Card.LastDay, l.Today)
	p.Card.Phase, p.Card.Step, p.Card.DueAt = store.Done, 0, time.Time{}
	if len(days) > 0 {
		p.Card.Phase, p.Card.Due = store.Review, days[0]
	}
	for i, day := range days {
		c.Sittings = append(c.Sittings, store.Sitting{ID: newID(), Day: day, Number: done + i + 1, Created: l.Now})
	}
}
