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

	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// deckFor finds a deck by name, or makes it.
func (s *Service) deckFor(ctx context.Context, l *Learner, name string) (string, error) {
	if id, ok := l.DeckID(strings.TrimSpace(name)); ok {
		return id, nil
	}
	d, err := s.addDeck(ctx, l, name, nil)
	return d.ID, err
}

func (s *Service) addDeck(ctx context.Context, l *Learner, name string, settings json.RawMessage) (store.Deck, error) {
	name, err := deckName(name)
	if err != nil {
		return store.Deck{}, err
	}
	if len(l.Decks) >= maxDecks {
		return store.Deck{}, invalid(talk.Say{Zh: "已经有 %d 个牌组，不能再多了", En: "there are %d decks already, which is the most"}, maxDecks)
	}
	if len(settings) == 0 {
		settings = json.RawMessage("{}")
	}
	d := store.Deck{ID: newID(), Person: l.Person, Name: name, Settings: settings, Created: l.Now}
	err = s.Store.Learn.AddDeck(ctx, d)
	if errors.Is(err, store.ErrExists) { // somebody else was first
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
		return "", invalid(talk.Say{Zh: "牌组需要名称", En: "a deck needs a name"})
	case len(name) > maxName:
		return "", invalid(talk.Say{Zh: "牌组名称最多 %d 字节", En: "the name of a deck has %d bytes at most"}, maxName)
	case strings.EqualFold(name, DefaultDeck):
		return "", invalid(talk.Say{Zh: "%q 是每个人都有的牌组，请换一个名称", En: "%q is the deck that everybody has; take another name"}, name)
	}
	return name, nil
}

// DeckEdit says what changes about a deck.
type DeckEdit struct {
	Name     string          // the deck; one that does not exist is made
	NewName  string          // empty: the name stays
	Settings json.RawMessage // changes of its settings; null values fall back to the person's
}

// SaveDeck makes or changes a deck. If its schedule changes, all its points get
// dates of the other one; progress, which may be nil, hears how far that is.
func (s *Service) SaveDeck(ctx context.Context, person string, e DeckEdit, progress func(done, total int)) (store.Deck, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return store.Deck{}, err
	}
	id, known := l.DeckID(e.Name)
	if known && id == "" {
		return store.Deck{}, invalid(talk.Say{Zh: "默认牌组用的是全部牌组共同的设置，请改那些设置", En: "the default deck has the settings that all decks have in common: change those instead"})
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
		return store.Deck{}, invalid(sayPlain, err)
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
	taken := invalid(talk.Say{Zh: "已经有牌组 %q", En: "there is a deck %q already"}, d.Name)
	if slices.ContainsFunc(l.Decks, func(other store.Deck) bool { return other.Name == d.Name && other.ID != id }) {
		return d, taken
	}
	if before.Schedule != after.Schedule {
		// The points come first: if this is cut off, the deck still says the other
		// schedule, and who asks again gets the rest done.
		if err := s.replanAs(ctx, person, id, after, progress); err != nil {
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

// mergePatch puts changes over an object; a null takes a member away.
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
			return nil, invalid(talk.Say{Zh: "设置必须是一个 JSON 对象", En: "settings must be a JSON object"})
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

// mergeInside merges some members of an object that are objects themselves member by
// member, where changes has them.
func mergeInside(merged, was, changes json.RawMessage, names ...string) (json.RawMessage, error) {
	var out, old, change map[string]json.RawMessage
	for text, into := range map[*json.RawMessage]any{&merged: &out, &was: &old, &changes: &change} {
		if err := json.Unmarshal(*text, into); err != nil {
			return nil, invalid(talk.Say{Zh: "设置必须是一个 JSON 对象", En: "settings must be a JSON object"})
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
		return l.NoDeck(name)
	}
	if id == "" {
		return invalid(talk.Say{Zh: "默认牌组不能删除", En: "the default deck stays"})
	}
	before := l.Settings(id).Schedule
	if before != l.common.Schedule {
		// Its points get the dates of where they go, while they can still be told
		// from those that are there.
		if err := s.replanAs(ctx, person, id, l.common, nil); err != nil {
			return err
		}
	}
	err = s.Store.Learn.RemoveDeck(ctx, person, id)
	if errors.Is(err, store.ErrNotFound) {
		return l.NoDeck(name)
	}
	return err
}

// SaveProfile changes what a person decided: changes is a JSON object with members
// of [Profile], in which null takes a decision back; defaults and remind are merged
// member by member. If the common schedule changes, points get dates of the other one.
func (s *Service) SaveProfile(ctx context.Context, person string, changes json.RawMessage, progress func(done, total int)) (*Learner, error) {
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
		return nil, invalid(talk.Say{Zh: "设置：%s", En: "settings: %s"}, strings.TrimPrefix(err.Error(), "json: "))
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
		return nil, invalid(sayPlain, err)
	}
	for _, deck := range append([]store.Deck{{}}, l.Decks...) {
		if to := next.Settings(deck.ID); l.Settings(deck.ID).Schedule != to.Schedule {
			// As in SaveDeck, before the settings say so.
			if err := s.replanAs(ctx, person, deck.ID, to, progress); err != nil {
				return nil, err
			}
		}
	}
	if err := s.Store.Learn.SaveLearner(ctx, person, text); err != nil {
		return nil, fmt.Errorf("save settings: %w", err)
	}
	return s.Learner(ctx, person)
}

// replanAtOnce is how many points change at the same time, so that they share
// the disk's work.
const replanAtOnce = 32

// replanAs gives all points of a deck the dates of some settings.
func (s *Service) replanAs(ctx context.Context, person, deck string, to schedule.Settings, progress func(done, total int)) error {
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
		group.SetLimit(replanAtOnce)
		for _, p := range points {
			group.Go(func() error {
				_, err := s.change(each, person, p.ID, func(_ context.Context, c *store.PointChange) error {
					replan(c, l, to)
					return nil
				})
				if errors.Is(err, ErrNotFound) {
					return nil // it was deleted in between
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

// replan gives a point the dates of a schedule. What was done stays.
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
		p.Card = schedule.Turn(p.Card, to)
		if p.Card.Phase == store.New {
			p.Card.Due = l.Today
		}
		c.Sittings = append(c.Sittings, store.Sitting{ID: newID(), Day: p.Card.Due, Number: len(done) + 1, Created: l.Now})
		return
	}
	resume(c, l)
}

// resume appends what is left of the classic course to a plan of which only what
// was done is there.
func resume(c *store.PointChange, l *Learner) {
	p := &c.Point
	// Steps of one day count as one review.
	seen := map[store.Day]bool{}
	for _, s := range c.Sittings {
		seen[l.Calendar.Day(s.Completed)] = true
	}
	done := len(seen)
	days := schedule.Resume(done, l.Calendar.Day(p.Created), p.Card.LastDay, l.Today)
	p.Card.Phase, p.Card.Step, p.Card.DueAt = store.Done, 0, time.Time{}
	if len(days) > 0 {
		p.Card.Phase, p.Card.Due = store.Review, days[0]
	}
	for i, day := range days {
		c.Sittings = append(c.Sittings, store.Sitting{ID: newID(), Day: day, Number: done + i + 1, Created: l.Now})
	}
}
