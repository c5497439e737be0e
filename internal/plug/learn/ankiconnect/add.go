package ankiconnect

import (
	"context"
	"encoding/json"
	"strings"

	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/card"
)

// prepared is a note that was read, with where duplicates of it count.
type prepared struct {
	learn.NewAnkiNote
	deck  string // its ID
	scope learn.DuplicateScope
	// free means that duplicates are allowed, or looked for in a deck that does not exist.
	free    bool
	same    bool  // whether there is a duplicate
	refused error // why it cannot be read
}

// prepare reads a note. Its error is for the client.
func prepare(l *learn.Learner, types []learn.StoredType, in *noteIn) (*prepared, error) {
	out := &prepared{}
	for i := range types {
		if types[i].Name == in.Model {
			out.Type = types[i]
		}
	}
	if out.Type.Type == nil {
		return nil, refusal("model was not found: %s", in.Model)
	}
	deck, err := deckNamed(l, in.Deck)
	if err != nil {
		return nil, err
	}
	out.Deck, out.deck = deck.Name, deck.ID
	if in.Tags != nil {
		out.Tags = *in.Tags
	}
	out.Fields = make([]string, len(out.Type.Fields))
	for name, value := range in.Fields {
		for i, f := range out.Type.Fields {
			if strings.EqualFold(f.Name, name) {
				out.Fields[i] = value
			}
		}
	}
	if text := string(in.Options.AllowDuplicate); text != "" && text != "null" {
		if err := json.Unmarshal(in.Options.AllowDuplicate, &out.free); err != nil {
			return nil, clientError(`option parameter "allowDuplicate" must be boolean`)
		}
	}
	out.scope = learn.DuplicateScope{AllTypes: in.Options.ScopeOptions.Models, Type: out.Type}
	if in.Options.Scope == "deck" {
		if name := in.Options.ScopeOptions.Deck; name != nil {
			if deck, err = deckNamed(l, *name); err != nil {
				out.free = true
				return out, nil
			}
		}
		out.scope.Decks = []string{deck.ID}
		if in.Options.ScopeOptions.Children {
			out.scope.Decks = l.Subdecks(deck.ID)
		}
	}
	return out, nil
}

// prepareAll reads notes, and finds those of which there are duplicates. Its error is of the
// database, or that there are too many.
func (x *exchange) prepareAll(ctx context.Context, notes []noteIn) ([]*prepared, error) {
	if err := atMostNotes(len(notes)); err != nil {
		return nil, err
	}
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	types, err := x.points.AnkiTypes(ctx, x.person)
	if err != nil {
		return nil, err
	}
	out := make([]*prepared, len(notes))
	for i := range notes {
		if out[i], err = prepare(l, types, &notes[i]); err != nil {
			out[i] = &prepared{refused: err}
		}
	}
	return out, x.findDuplicates(ctx, l, out...)
}

// findDuplicates finds of which of some notes there are duplicates.
func (x *exchange) findDuplicates(ctx context.Context, l *learn.Learner, notes ...*prepared) error {
	var first []learn.FirstField
	var of []*prepared
	for _, p := range notes {
		if p.refused == nil && !p.free && !p.isEmpty() {
			first = append(first, learn.FirstField{Text: p.Fields[0], DuplicateScope: p.scope})
			of = append(of, p)
		}
	}
	if len(of) == 0 {
		return nil
	}
	same, err := x.points.Duplicates(ctx, l, first)
	for i := range same {
		of[i].same = same[i]
	}
	return err
}

// isEmpty reports whether there is nothing in the first field.
func (p *prepared) isEmpty() bool { return len(p.Fields) == 0 || card.IsEmpty(p.Fields[0]) }

// check returns why a note cannot be added; nil if it can. mediaLater means that pictures and
// sounds are put into its fields before.
func (p *prepared) check(mediaLater bool) error {
	switch {
	case p.refused != nil:
		return p.refused
	case len(p.Fields) == 0 || p.isEmpty() && !mediaLater:
		return textEmpty
	case p.same:
		return textDuplicate
	case len(card.Ords(p.Type.Type, p.Fields)) == 0 && !mediaLater:
		return textNoCards
	}
	return nil
}

func (x *exchange) addNote(ctx context.Context, in noteParams) (any, error) {
	list, err := x.prepareAll(ctx, []noteIn{in.Note})
	if err != nil {
		return nil, err
	}
	return x.add(ctx, list[0], &in.Note)
}

// add adds a note and returns its number.
func (x *exchange) add(ctx context.Context, p *prepared, in *noteIn) (int64, error) {
	media := in.media() > 0
	if err := p.check(media); err != nil {
		return 0, err
	}
	if err := in.checkMedia(); err != nil {
		return 0, err
	}
	if media {
		unknown := p.isEmpty()
		x.addMedia(ctx, fieldNames(p.Type.Type), p.Fields, in)
		if unknown {
			l, err := x.learner(ctx)
			if err != nil {
				return 0, err
			}
			if err := x.findDuplicates(ctx, l, p); err != nil {
				return 0, err
			}
		}
		if err := p.check(false); err != nil {
			return 0, err
		}
	}
	args := map[string]any{"note_type": p.Type.Name, "deck": p.Deck, "tags": p.Tags, "fields": p.Fields}
	var id int64
	err := x.change(toolAdd, args, func() (err error) {
		id, err = x.points.AddAnkiNote(ctx, x.person, &p.NewAnkiNote)
		return err
	})
	return id, err
}

// addNotes adds notes, one by one; the result has null for those that cannot be added.
func (x *exchange) addNotes(ctx context.Context, in notesInParams) (any, error) {
	list, err := x.prepareAll(ctx, in.Notes)
	if err != nil {
		return nil, err
	}
	out := make([]*int64, len(in.Notes))
	var all outcomes
	var made added
	for i, p := range list {
		made.tell(p)
		id, err := x.add(ctx, p, &in.Notes[i])
		if err == nil {
			out[i] = &id
			made.add(p)
		}
		if all.ends(x, ctx, "addNotes", err) {
			break
		}
	}
	return out, all.err()
}

// added are notes that a request has added, of which the notes that follow were not told.
type added struct {
	types map[string]int64       // numbers of their types, by name
	first map[string][]*prepared // by the text of the first field
}

func (a *added) add(p *prepared) {
	if a.types == nil {
		a.types, a.first = map[string]int64{}, map[string][]*prepared{}
	}
	text := learn.FirstFieldText(p.Fields[0])
	a.first[text] = append(a.first[text], p)
	a.types[p.Type.Name] = p.Type.Number
}

// tell tells a note of them.
func (a *added) tell(p *prepared) {
	if p.refused != nil || len(p.Fields) == 0 || a.types == nil {
		return
	}
	if n := a.types[p.Type.Name]; n != 0 {
		p.Type.Number, p.scope.Type.Number = n, n
	}
	if p.free || p.isEmpty() {
		return
	}
	for _, other := range a.first[learn.FirstFieldText(p.Fields[0])] {
		p.same = p.same || p.scope.Covers(other.Type.Number, other.deck)
	}
}

// cannotAdd returns why each of some notes cannot be added; nil if it can. Its error is of the
// database.
func (x *exchange) cannotAdd(ctx context.Context, notes []noteIn) ([]error, error) {
	list, err := x.prepareAll(ctx, notes)
	if err != nil {
		return nil, err
	}
	out := make([]error, len(notes))
	for i, p := range list {
		out[i] = p.check(false)
	}
	return out, nil
}

func (x *exchange) canAddNotes(ctx context.Context, in notesInParams) (any, error) {
	why, err := x.cannotAdd(ctx, in.Notes)
	out := make([]bool, len(why))
	for i := range why {
		out[i] = why[i] == nil
	}
	return out, err
}

func (x *exchange) canAddNotesDetail(ctx context.Context, in notesInParams) (any, error) {
	why, err := x.cannotAdd(ctx, in.Notes)
	out := make([]map[string]any, len(why))
	for i := range why {
		out[i] = map[string]any{"canAdd": why[i] == nil}
		if why[i] != nil {
			out[i]["error"] = why[i].Error()
		}
	}
	return out, err
}
