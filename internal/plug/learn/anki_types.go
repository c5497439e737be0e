package learn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/card"
	"patchbay/internal/plug/learn/note"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Limits of note types that programs make.
const (
	maxTypes     = 1000      // of a person
	maxTypeParts = 100       // fields, and templates
	maxTypeBytes = 512 << 10 // templates and style together
)

const (
	msgTypeLarge = i18n.Message("a note type has %d fields and %d cards at most, and %d KiB of templates and style")
	msgManyTypes = i18n.Message("there are %d note types already, which is the most")
)

// StoredType is a note type of a person.
type StoredType struct {
	*note.Type
	Number int64 // 0 for the type of points without a note, and for those that are not used yet
}

// IsPlain reports whether it is the type of points without a note.
func (t *StoredType) IsPlain() bool { return t.ID == transfer.PlainTypeID && t.Number == 0 }

// PlainType is the note type as which programs for Anki see points without a note.
func PlainType() *note.Type {
	return newType(transfer.PlainTypeID, "Patchbay", false, []string{"Question", "Answer"},
		note.Template{Name: "Card 1", Front: "{{Question}}", Back: "{{FrontSide}}\n\n<hr id=answer>\n\n{{Answer}}"})
}

// Numbers of the note types that everybody has. They must not change, since notes are of them.
const (
	basicID = 1764288000001 + iota
	reversedID
	clozeID
)

// standardTypes are the note types that everybody has, by the names that they have in Anki
// (rslib/src/notetype/stock.rs).
func standardTypes() []*note.Type {
	forward := note.Template{Name: "Card 1", Front: "{{Front}}", Back: "{{FrontSide}}\n\n<hr id=answer>\n\n{{Back}}"}
	backward := note.Template{Name: "Card 2", Front: "{{Back}}", Back: "{{FrontSide}}\n\n<hr id=answer>\n\n{{Front}}"}
	cloze := ClozeType()
	cloze.ID, cloze.Name = clozeID, "Cloze"
	return []*note.Type{newType(basicID, "Basic", false, []string{"Front", "Back"}, forward),
		newType(reversedID, "Basic (and reversed card)", false, []string{"Front", "Back"}, forward, backward), cloze}
}

// NewNoteType returns a note type of a name, with cards in the order of templates. Its number is
// that of a moment.
func NewNoteType(now time.Time, name string, cloze bool, fields []string, css *string,
	templates ...note.Template) *note.Type {
	t := newType(now.UnixMilli(), name, cloze, fields, templates...)
	t.Modified = now.Unix()
	if css != nil {
		t.CSS = *css
	}
	return t
}

func newType(id int64, name string, cloze bool, fields []string, templates ...note.Template) *note.Type {
	t := &note.Type{ID: id, Name: name, Cloze: cloze, CSS: ClozeType().CSS, Modified: 1764288000, Templates: templates}
	for _, f := range fields {
		t.Fields = append(t.Fields, note.Field{Name: f, Font: "Arial", Size: 20})
	}
	return t
}

// AnkiTypes returns a person's note types as programs for Anki see them: those that are stored, the
// one of points without a note, and those that everybody has, unless one of that name is stored.
func (s *Service) AnkiTypes(ctx context.Context, person string) ([]StoredType, error) {
	rows, err := s.Store.Learn.NoteTypes(ctx, person)
	if err != nil {
		return nil, fmt.Errorf("look up note types: %w", err)
	}
	var out []StoredType
	named := func(name string) bool {
		return slices.ContainsFunc(out, func(t StoredType) bool { return t.Name == name })
	}
	for _, row := range rows {
		t, err := note.Parse(row.Model)
		if err != nil {
			return nil, err
		}
		if named(t.Name) { // Anki has no two of a name
			t.Name = fmt.Sprintf("%s (%d)", t.Name, t.ID)
		}
		out = append(out, StoredType{t, row.Number})
	}
	for _, t := range append([]*note.Type{PlainType()}, standardTypes()...) {
		if t.ID == transfer.PlainTypeID || !named(t.Name) {
			out = append(out, StoredType{Type: t})
		}
	}
	return out, nil
}

// SaveNewType adds a note type of a person. Its number moves on if another type has it.
func (s *Service) SaveNewType(ctx context.Context, person string, t *note.Type) (StoredType, error) {
	if err := checkType(t); err != nil {
		return StoredType{}, err
	}
	there, err := s.Store.Learn.NoteTypes(ctx, person)
	if err != nil {
		return StoredType{}, fmt.Errorf("look up note types: %w", err)
	}
	if len(there) >= maxTypes {
		return StoredType{}, invalid(msgManyTypes, maxTypes)
	}
	for slices.ContainsFunc(there, func(o store.NoteType) bool { return o.Origin == t.Origin() }) {
		t.ID++
	}
	return s.storeType(ctx, person, t)
}

func (s *Service) storeType(ctx context.Context, person string, t *note.Type) (StoredType, error) {
	model, err := t.JSON()
	if err != nil {
		return StoredType{}, err
	}
	row := store.NoteType{Origin: t.Origin(), Name: t.Name, Model: model, Updated: time.Unix(t.Modified, 0)}
	if err := s.Store.Learn.SaveNoteType(ctx, person, &row); err != nil {
		return StoredType{}, fmt.Errorf("write a note type: %w", err)
	}
	return StoredType{t, row.Number}, nil
}

func checkType(t *note.Type) error {
	size := len(t.CSS) + len(t.Name)
	for _, m := range t.Templates {
		size += len(m.Name) + len(m.Front) + len(m.Back)
	}
	for _, f := range t.Fields {
		size += len(f.Name)
	}
	if len(t.Fields) > maxTypeParts || len(t.Templates) > maxTypeParts || size > maxTypeBytes {
		return invalid(msgTypeLarge, maxTypeParts, maxTypeParts, maxTypeBytes>>10)
	}
	return nil
}

// SaveType writes a note type that has other templates or another style, and gives the cards of
// its notes what they show then. Cards that a note has now are added, and those that it has no
// more go to the trash. If it is interrupted, the same call does what is left. A note whose cards
// cannot show that (a side is too long, or nothing would be left of it) stays as it is.
func (s *Service) SaveType(ctx context.Context, person string, t StoredType) error {
	before, err := s.writeType(ctx, person, t)
	if err != nil || before == nil {
		return err
	}
	return s.renderNotes(ctx, person, t, before)
}

// SaveStyle writes a note type of which only the style has changed.
func (s *Service) SaveStyle(ctx context.Context, person string, t StoredType) error {
	_, err := s.writeType(ctx, person, t)
	return err
}

// writeType writes a note type and returns what it was before; nil if it is new, so that it has no
// notes.
func (s *Service) writeType(ctx context.Context, person string, t StoredType) (*note.Type, error) {
	t.Modified = s.Now().Unix()
	if err := checkType(t.Type); err != nil {
		return nil, err
	}
	if t.Number == 0 {
		_, err := s.storeType(ctx, person, t.Type)
		return nil, err
	}
	before, err := s.noteType(ctx, person, t.Number)
	if err != nil || before == nil {
		return nil, errors.Join(err, ErrNotFound)
	}
	model, err := t.JSON()
	if err != nil {
		return nil, err
	}
	row := store.NoteType{Number: t.Number, Name: before.Name, Model: model, Updated: s.Now()}
	in := s.Store.Learn.NewImport(person, "type-"+newID())
	if err := in.Finish(ctx, store.ImportEdits{Types: []store.NoteType{row}}); err != nil {
		return nil, fmt.Errorf("write a note type: %w", err)
	}
	return before, nil
}

// renderNotes gives the cards of all notes of a type what they show.
func (s *Service) renderNotes(ctx context.Context, person string, t StoredType, before *note.Type) error {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return err
	}
	var numbers []int64
	if err := s.Store.Learn.ScanNotes(ctx, person, store.NoteScan{Type: t.Number}, func(n *store.Note) error {
		numbers = append(numbers, n.Number)
		return nil
	}); err != nil {
		return fmt.Errorf("look up the notes of a type: %w", err)
	}
	for _, number := range numbers {
		n, err := s.noteNumbered(ctx, person, number)
		if err != nil {
			return err
		}
		if n == nil || len(n.Points) == 0 || len(card.Ords(n.Type, n.Fields)) == 0 {
			continue // deleted, or nothing would be left of it
		}
		n.had = card.Ords(before, n.Fields)
		if _, err := s.saveNote(ctx, l, n, n.Fields); err != nil && !problem.Is(err, problem.Invalid) {
			return err
		}
	}
	return nil
}
