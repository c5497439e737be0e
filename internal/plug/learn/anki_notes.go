package learn

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/plug/learn/transfer/apkg"
	"patchbay/internal/store"
)

// AnkiNote is a note as programs for Anki see it. A point without a note is one, too, of the type
// [PlainType].
type AnkiNote struct {
	ID      int64
	Type    StoredType
	Fields  []string      // HTML
	Points  []store.Point // without those in the trash; at least one
	Updated time.Time
}

// Tags returns the tags of all cards of the note, sorted.
func (n *AnkiNote) Tags() []string {
	tags := []string{}
	for i := range n.Points {
		tags = append(tags, n.Points[i].Tags...)
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// PointIDs returns the IDs of the note's points.
func (n *AnkiNote) PointIDs() []string {
	out := make([]string, len(n.Points))
	for i := range n.Points {
		out[i] = n.Points[i].ID
	}
	return out
}

// notePage is how many notes are read with their cards in one step.
const notePage = 500

// AnkiNotes returns notes by their numbers. Missing ones, and those of which all cards are in the
// trash, are left out.
func (s *Service) AnkiNotes(ctx context.Context, l *Learner, ids []int64) (map[int64]*AnkiNote, error) {
	owners, err := s.byID(ctx, l.Person, store.IDOfNote, ids)
	if err != nil {
		return nil, err
	}
	var rows, bare []int64
	idOf := map[int64]int64{} // by the number of the note or the point
	for id, owner := range owners {
		if owner.Note != 0 {
			rows = append(rows, owner.Note)
		} else {
			bare = append(bare, owner.Point)
		}
		idOf[max(owner.Note, owner.Point)] = id
	}
	out := make(map[int64]*AnkiNote, len(owners))
	points, err := s.Store.Learn.PointsByNumber(ctx, l.Person, bare)
	if err != nil {
		return nil, fmt.Errorf("look up points: %w", err)
	}
	for _, p := range points {
		if p.Note == 0 {
			out[idOf[p.Number]] = plainNote(idOf[p.Number], p)
		}
	}
	for chunk := range slices.Chunk(rows, notePage) {
		if err := s.readAnkiNotes(ctx, l, chunk, idOf, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// plainNote returns a point without a note as a note.
func plainNote(id int64, p store.Point) *AnkiNote {
	return &AnkiNote{ID: id, Type: StoredType{Type: PlainType()}, Fields: []string{fieldOf(p.Question),
		fieldOf(p.Answer)}, Points: []store.Point{p}, Updated: p.Updated}
}

// readAnkiNotes adds notes by the numbers of their rows.
func (s *Service) readAnkiNotes(ctx context.Context, l *Learner, numbers []int64, idOf map[int64]int64,
	out map[int64]*AnkiNote) error {
	f := store.Selection{Today: l.Today, Now: l.Now,
		Where: []store.Condition{{Field: store.FieldNotes, Numbers: numbers}}}
	found, err := s.Store.Learn.SelectNumbers(ctx, l.Person, f, 0, maxBulkPoints)
	if err != nil {
		return fmt.Errorf("look up the cards of notes: %w", err)
	}
	points, err := s.Store.Learn.PointsByNumber(ctx, l.Person, found)
	if err != nil {
		return fmt.Errorf("look up the cards of notes: %w", err)
	}
	byNote := map[int64][]store.Point{}
	for _, p := range points {
		byNote[p.Note] = append(byNote[p.Note], p)
	}
	pointers := make([]*store.Point, len(points))
	for i := range points {
		pointers[i] = &points[i]
	}
	sources, err := s.cardSources(ctx, l, pointers...)
	if err != nil {
		return err
	}
	for number, list := range byNote {
		row := sources.notes[number]
		if row == nil || sources.types[row.Type] == nil {
			continue
		}
		slices.SortFunc(list, func(a, b store.Point) int { return a.Ord - b.Ord })
		t := sources.types[row.Type]
		fields := make([]string, len(t.Fields))
		copy(fields, row.Fields)
		out[idOf[number]] = &AnkiNote{ID: idOf[number], Type: StoredType{t, row.Type}, Fields: fields, Points: list,
			Updated: row.Updated}
	}
	return nil
}

// NewAnkiNote is a note to add.
type NewAnkiNote struct {
	Type   StoredType
	Fields []string // HTML, in the order of the type's fields
	Deck   string   // name
	Tags   []string
}

// AddAnkiNote adds a note with its cards, and returns its number. It sets the number of its type.
func (s *Service) AddAnkiNote(ctx context.Context, person string, in *NewAnkiNote) (int64, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return 0, err
	}
	size := 0
	for _, f := range in.Fields {
		size += len(f)
	}
	if size > maxNote {
		return 0, invalid(msgNoteLarge, maxNote>>10)
	}
	d := Draft{Tags: in.Tags, Deck: in.Deck}
	if in.Type.IsPlain() {
		if d.Question, d.Answer, err = plainTexts(in.Fields); err != nil {
			return 0, err
		}
		made, err := s.Create(ctx, person, []Draft{d})
		if err == nil {
			err = made[0].Err
		}
		if err != nil {
			return 0, err
		}
		return s.oneNoteID(ctx, person, made[0].Entry.Number)
	}
	if d.Tags, err = cleanTags(in.Tags); err != nil {
		return 0, err
	}
	if d.Deck, err = s.findOrAddDeck(ctx, l, in.Deck); err != nil {
		return 0, err
	}
	if in.Type.Number == 0 {
		if in.Type, err = s.storeType(ctx, person, in.Type.Type); err != nil {
			return 0, err
		}
	}
	_, made, err := s.addNote(ctx, l, in.Type, in.Fields, d)
	if err != nil {
		return 0, err
	}
	return s.oneNoteID(ctx, person, made[0].Number)
}

// oneNoteID returns the number of the note of a point.
func (s *Service) oneNoteID(ctx context.Context, person string, point int64) (int64, error) {
	ids, err := s.NoteIDs(ctx, person, []int64{point})
	if err == nil && len(ids) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// plainTexts returns question and answer of the fields of a note of [PlainType].
func plainTexts(fields []string) (question, answer string, err error) {
	full := make([]string, 2)
	copy(full, fields)
	question, answer, err = apkg.CardText(PlainType(), full, 0, AnkiDefaultDeck, nil)
	return strings.TrimSpace(question), strings.TrimSpace(answer), err
}

// PlainEdit returns the change of a point without a note that other fields of [PlainType] mean.
func PlainEdit(fields []string) (Edit, error) {
	q, a, err := plainTexts(fields)
	return Edit{Question: &q, Answer: &a}, err
}

// DuplicateScope is where notes with the same first field are looked for.
type DuplicateScope struct {
	AllTypes bool
	Type     StoredType // if not AllTypes
	// Decks are IDs; a note counts if one of its cards is in one of them. Nil: all.
	Decks []string
}

// Covers reports whether a note counts that is of a type, by its number, and has cards in some
// decks, by their IDs.
func (d *DuplicateScope) Covers(typ int64, decks ...string) bool {
	if !d.AllTypes && (d.Type.Number != typ || typ == 0 && !d.Type.IsPlain()) {
		return false
	}
	return len(decks) > 0 && (d.Decks == nil || slices.ContainsFunc(decks, func(deck string) bool {
		return slices.Contains(d.Decks, deck)
	}))
}

// FirstField is the first field of a note, and where duplicates of it count.
type FirstField struct {
	Text string // HTML
	DuplicateScope
}

// Duplicates reports for which of some first fields there is a note already that has the same.
// Fields are compared as [FirstFieldText] returns them. All notes are read once at most.
func (s *Service) Duplicates(ctx context.Context, l *Learner, list []FirstField) ([]bool, error) {
	found, err := s.sameFirst(ctx, l, list)
	if err != nil {
		return nil, fmt.Errorf("look for duplicates: %w", err)
	}
	out := make([]bool, len(list))
	for i := range list {
		out[i] = slices.ContainsFunc(found[FirstFieldText(list[i].Text)], func(n sameNote) bool {
			return list[i].Covers(n.typ, n.decks...)
		})
	}
	return out, nil
}

// FirstFieldText returns what is compared of a first field: its text, without HTML.
func FirstFieldText(field string) string { return transfer.SortText(field) }

// sameNote is a note, or a point without one, whose first field is looked for.
type sameNote struct {
	typ   int64    // its number; 0: a point without a note
	decks []string // of its cards, without those in the trash
}

// sameFirst returns the notes that have one of some first fields, by its text.
func (s *Service) sameFirst(ctx context.Context, l *Learner, list []FirstField) (map[string][]sameNote, error) {
	found := map[string][]sameNote{}
	types := map[int64]bool{} // to look among; 0: all
	plain := false
	for i := range list {
		found[FirstFieldText(list[i].Text)] = nil
		switch t := &list[i].Type; {
		case list[i].AllTypes:
			types[0], plain = true, true
		case t.IsPlain():
			plain = true
		case t.Number != 0: // otherwise there is no note of it
			types[t.Number] = true
		}
	}
	if len(types) > 0 {
		if err := s.sameNotes(ctx, l, types, found); err != nil {
			return nil, err
		}
	}
	if !plain {
		return found, nil
	}
	return found, s.Store.Learn.ScanBare(ctx, l.Person, func(b store.BareText) error {
		if text := FirstFieldText(fieldOf(b.Question)); has(found, text) {
			found[text] = append(found[text], sameNote{0, []string{b.Deck}})
		}
		return nil
	})
}

func has[K comparable, V any](m map[K]V, key K) bool {
	_, ok := m[key]
	return ok
}

// sameNotes adds the notes of some types whose first field has one of the texts in found.
func (s *Service) sameNotes(ctx context.Context, l *Learner, types map[int64]bool,
	found map[string][]sameNote) error {
	scan := store.NoteScan{}
	if len(types) == 1 {
		for t := range types {
			scan.Type = t
		}
	}
	type match struct {
		text string
		typ  int64
	}
	matches := map[int64]match{}
	err := s.Store.Learn.ScanNotes(ctx, l.Person, scan, func(n *store.Note) error {
		if len(n.Fields) > 0 && (types[0] || types[n.Type]) {
			if text := FirstFieldText(n.Fields[0]); has(found, text) {
				matches[n.Number] = match{text, n.Type}
			}
		}
		return nil
	})
	if err != nil || len(matches) == 0 {
		return err
	}
	points, err := s.Store.Learn.PointsOfNotes(ctx, l.Person, slices.Collect(maps.Keys(matches)))
	decks := map[int64][]string{}
	for _, p := range points {
		decks[p.Note] = append(decks[p.Note], p.Deck)
	}
	for number, m := range matches {
		found[m.text] = append(found[m.text], sameNote{m.typ, decks[number]})
	}
	return err
}

// Subdecks returns the IDs of a deck and of those below it in its name, such as A::B of A.
func (l *Learner) Subdecks(id string) []string {
	name := l.AnkiDeckName(id)
	out := []string{id}
	for _, d := range l.Decks {
		if len(d.Name) > len(name)+2 && strings.EqualFold(d.Name[:len(name)+2], name+"::") {
			out = append(out, d.ID)
		}
	}
	return out
}
