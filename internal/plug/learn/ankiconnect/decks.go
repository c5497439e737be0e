package ankiconnect

import (
	"context"
	"strconv"
	"strings"

	"patchbay/internal/control"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

func deckActions() map[string]*action {
	return map[string]*action{
		"deckNames":       doing(toolDecks, (*exchange).deckNames),
		"deckNamesAndIds": doing(toolDecks, (*exchange).deckNamesAndIDs),
		"deckNameFromId":  doing(toolDecks, (*exchange).deckNameFromID),
		"getDecks":        doing(toolDecks, (*exchange).decksOfCards),
		"createDeck":      doing(toolDeck, (*exchange).createDeck),
		"changeDeck":      doing(toolEdit, (*exchange).changeDeck),
		"deleteDecks":     doing(toolDrop, (*exchange).deleteDecks).and(toolEdit),
		"getDeckConfig":   doing(toolDecks, (*exchange).deckConfig),
		"getDeckStats":    doing(toolDecks, (*exchange).deckStats),
	}
}

// deckParams names a deck.
type deckParams struct {
	Deck string `json:"deck"`
}

// cardsParams names cards.
type cardsParams struct {
	Cards []int64 `json:"cards"`
}

func (x *exchange) learner(ctx context.Context) (*learn.Learner, error) {
	return x.points.Learner(ctx, x.person)
}

func (x *exchange) deckNames(ctx context.Context, _ none) (any, error) {
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, d := range l.AnkiDecks() {
		names = append(names, d.Name)
	}
	return names, nil
}

func (x *exchange) deckNamesAndIDs(ctx context.Context, _ none) (any, error) {
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, d := range l.AnkiDecks() {
		out[d.Name] = learn.AnkiDeckID(&d)
	}
	return out, nil
}

func (x *exchange) deckNameFromID(ctx context.Context, in struct {
	ID int64 `json:"deckId"`
}) (any, error) {
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range l.AnkiDecks() {
		if learn.AnkiDeckID(&d) == in.ID {
			return d.Name, nil
		}
	}
	return nil, refusal("deck was not found: %d", in.ID)
}

// deckNamed returns a deck by its name, as Anki writes it.
func deckNamed(l *learn.Learner, name string) (*store.Deck, error) {
	if id, ok := l.DeckID(name); ok && name != "" {
		for _, d := range l.AnkiDecks() {
			if d.ID == id && !strings.EqualFold(name, d.ID) {
				return &d, nil
			}
		}
	}
	return nil, refusal("deck was not found: %s", name)
}

func (x *exchange) decksOfCards(ctx context.Context, in cardsParams) (any, error) {
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	cards, err := x.cards(ctx, in.Cards)
	if err != nil {
		return nil, err
	}
	out := map[string][]int64{}
	for _, id := range in.Cards {
		if p := cards[id]; p != nil {
			name := l.AnkiDeckName(p.Deck)
			out[name] = append(out[name], id)
		}
	}
	return out, nil
}

func (x *exchange) createDeck(ctx context.Context, in deckParams) (any, error) {
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	if d, err := deckNamed(l, in.Deck); err == nil {
		return learn.AnkiDeckID(d), nil
	}
	made, err := x.learning.AddDeck(ctx, x.caller, control.NewLearnDeck{Name: in.Deck})
	if err != nil {
		return nil, err
	}
	return learn.AnkiDeckID(&store.Deck{ID: made.ID}), nil
}

func (x *exchange) changeDeck(ctx context.Context, in struct {
	cardsParams
	deckParams
}) (any, error) {
	if in.Deck == "" {
		return nil, refusal("deck was not found: ")
	}
	return nil, x.editCards(ctx, in.Cards, control.LearnEdit{Deck: &in.Deck})
}

// deleteDecks deletes decks with those below them. Their cards go to the trash.
func (x *exchange) deleteDecks(ctx context.Context, in struct {
	Decks    []string `json:"decks"`
	CardsToo bool     `json:"cardsToo"`
}) (any, error) {
	if !in.CardsToo { // as Anki since 2.1.28
		return nil, clientError("decks are deleted with their cards alone: cardsToo must be true")
	}
	if len(in.Decks) > maxInfos {
		return nil, refusal("there are %d decks at most", maxInfos)
	}
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	for _, name := range in.Decks {
		d, err := deckNamed(l, name)
		if err != nil || gone[d.ID] {
			continue
		}
		for _, id := range l.Subdecks(d.ID) {
			if gone[id] {
				continue
			}
			if err := x.deleteDeck(ctx, id); err != nil {
				return nil, err
			}
			gone[id] = true
		}
	}
	return nil, nil
}

func (x *exchange) deleteDeck(ctx context.Context, id string) error {
	name, yes := id, true
	if id == "" {
		name = learn.DefaultDeck
	}
	_, err := x.learning.Edit(ctx, x.caller, control.LearnEdit{Query: `deck:"` + name + `"`, Deleted: &yes})
	if err == nil && id != "" {
		_, err = x.learning.RemoveDeck(ctx, x.caller, control.LearnDeckRef{Deck: id})
	}
	return err
}

// deckConfig returns the settings of a deck, as far as Anki's deck options have them
// (rslib/src/deckconfig/schema11.rs).
func (x *exchange) deckConfig(ctx context.Context, in deckParams) (any, error) {
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	d, err := deckNamed(l, in.Deck)
	if err != nil {
		return false, nil
	}
	s := l.Settings(d.ID)
	action := 1 // tag
	if s.LeechSuspend {
		action = 0
	}
	return map[string]any{
		"id": learn.AnkiDeckID(d), "name": d.Name, "mod": 0, "usn": 0, "maxTaken": 60, "autoplay": true, "timer": 0,
		"replayq": true, "dyn": false, "desiredRetention": s.Retention,
		"new": map[string]any{"delays": s.Steps, "perDay": s.NewPerDay, "bury": s.Bury, "order": 1,
			"ints": []int{1, 4, 0}, "initialFactor": 2500},
		"rev": map[string]any{"perDay": s.ReviewsPerDay, "maxIvl": s.MaxInterval, "bury": s.Bury, "ease4": 1.3,
			"ivlFct": 1, "hardFactor": 1.2},
		"lapse": map[string]any{"delays": s.Relearn, "leechFails": s.Leech, "leechAction": action, "mult": 0,
			"minInt": 1},
	}, nil
}

func (x *exchange) deckStats(ctx context.Context, in struct {
	Decks []string `json:"decks"`
}) (any, error) {
	if len(in.Decks) > maxInfos {
		return nil, refusal("there are %d decks at most", maxInfos)
	}
	l, list, err := x.points.Decks(ctx, x.person)
	if err != nil {
		return nil, err
	}
	steps := map[string]int{}
	waiting, err := x.points.Waiting(ctx, x.person, l.Today)
	if err != nil {
		return nil, err
	}
	for _, w := range waiting {
		if w.Queue == store.QueueSteps {
			steps[w.Deck] += w.N
		}
	}
	out := map[string]any{}
	for _, name := range in.Decks {
		d, err := deckNamed(l, name)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if s.ID == d.ID {
				short := d.Name[strings.LastIndex(d.Name, "::")+1:]
				out[strconv.FormatInt(learn.AnkiDeckID(d), 10)] = map[string]any{"deck_id": learn.AnkiDeckID(d),
					"name": strings.TrimPrefix(short, ":"), "new_count": s.New, "learn_count": steps[s.ID],
					"review_count": max(s.Due-steps[s.ID], 0), "total_in_deck": s.Points}
			}
		}
	}
	return out, nil
}
