package learn

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/note"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/store"
)

// errNoType is the error of a card of which the file has no note type.
var errNoType = i18n.Message("its note type is missing in the file").Errorf()

// importedType is a note type of a file, merged with the one that the person has.
type importedType struct {
	number  int64 // 0 in a dry run
	merged  *note.Type
	changed bool // the person's is replaced when the import is done
	// fields and templates tell where those of the file are in merged; nil: where they were.
	fields, templates []int
}

// importedNote is a note of a file.
type importedNote struct {
	row *store.Note // of which the number is set when it is staged
	// stored is true for a note that the person had before, newer if that of the file replaces it.
	stored, newer bool
}

// noteType takes a note type of the file. One that the person has by its id is merged with it, see
// [note.Merge].
func (in *importRun) noteType(ctx context.Context, t store.NoteType) error {
	parsed, err := note.Parse(t.Model)
	if err != nil {
		in.warn(0, t.Name, err)
		return nil
	}
	if in.storedTypes == nil {
		list, err := in.s.Store.Learn.NoteTypes(ctx, in.l.Person)
		if err != nil {
			return fmt.Errorf("look up note types: %w", err)
		}
		in.storedTypes = map[string]store.NoteType{}
		for _, s := range list {
			in.storedTypes[s.Origin] = s
		}
	}
	origin := t.Origin
	for {
		stored, ok := in.storedTypes[origin]
		if !ok {
			return in.addType(ctx, t, origin, parsed)
		}
		was, err := note.Parse(stored.Model)
		if err == nil && was.Cloze == parsed.Cloze {
			typ := &importedType{number: stored.Number}
			typ.merged, typ.fields, typ.templates, typ.changed = note.Merge(was, parsed)
			typ.merged.ID = was.ID
			in.types[t.Origin] = typ
			return nil
		}
		// Another kind of type has the id, as of a program that numbers them anew in each file.
		if parsed.ID++; parsed.ID <= 0 {
			return nil
		}
		origin = parsed.Origin()
	}
}

func (in *importRun) addType(ctx context.Context, t store.NoteType, origin string, parsed *note.Type) error {
	typ := &importedType{merged: parsed}
	in.types[t.Origin] = typ
	if in.f.DryRun {
		return nil
	}
	if t.Origin != origin {
		model, err := parsed.JSON()
		if err != nil {
			return err
		}
		t.Origin, t.Model = origin, model
	}
	if err := in.s.Store.Learn.SaveNoteType(ctx, in.l.Person, &t); err != nil {
		return fmt.Errorf("save a note type: %w", err)
	}
	typ.number = t.Number
	in.newTypes = append(in.newTypes, t.Number)
	in.storedTypes[origin] = t
	return nil
}

// changedTypes returns the note types that the file changes.
func (in *importRun) changedTypes() ([]store.NoteType, error) {
	var list []store.NoteType
	for _, t := range in.types {
		if !t.changed || t.number == 0 {
			continue
		}
		model, err := t.merged.JSON()
		if err != nil {
			return nil, err
		}
		list = append(list, store.NoteType{Number: t.number, Name: t.merged.Name, Model: model,
			Updated: time.Unix(t.merged.Modified, 0)})
	}
	return list, nil
}

// note takes the note of an item, once for all of its cards, and gives the item the names and the
// numbers that fields, media and cards have here.
func (in *importRun) note(ctx context.Context, item *transfer.Item) (*importedNote, error) {
	typ := in.types[item.Note.Type]
	if typ == nil {
		return nil, errNoType
	}
	if item.Ord < len(typ.templates) {
		item.Ord = typ.templates[item.Ord]
	}
	if renamed := in.mediaRun.renamed; len(renamed) > 0 {
		item.Question = renameMedia(item.Question, renamed)
		item.Answer = renameMedia(item.Answer, renamed)
	}
	if n := in.notes[item.Note.GUID]; n != nil {
		return n, nil
	}
	row := &store.Note{Type: typ.number, GUID: item.Note.GUID, Source: item.Note.Source, Updated: item.Note.Updated}
	for _, f := range item.Note.Fields {
		row.Fields = append(row.Fields, note.Rename(f, in.mediaRun.renamed))
	}
	n := &importedNote{row: row}
	in.notes[item.Note.GUID] = n
	number, ok := in.guids[item.Note.GUID]
	if !ok {
		row.Fields = placeFields(row.Fields, nil, typ)
		in.newNotes = append(in.newNotes, row)
		return n, nil
	}
	stored, err := in.s.Store.Learn.Notes(ctx, in.l.Person, []int64{number})
	if err != nil {
		return nil, err
	}
	n.stored, row.Number = true, number
	if len(stored) == 0 { // deleted meanwhile
		return n, nil
	}
	row.Fields = placeFields(row.Fields, stored[0].Fields, typ)
	n.newer = row.Updated.Unix() > stored[0].Updated.Unix()
	if n.newer && typ.number == stored[0].Type {
		in.noteEdits = append(in.noteEdits, *row)
	}
	return n, nil
}

// placeFields puts the fields of a note where its merged type has them. What only stored has stays.
func placeFields(fields, stored []string, typ *importedType) []string {
	if typ.fields == nil {
		return fields
	}
	out := slices.Clone(stored)
	for len(out) < len(typ.merged.Fields) {
		out = append(out, "")
	}
	for i, f := range fields {
		if i < len(typ.fields) {
			out[typ.fields[i]] = f
		}
	}
	return out
}

// stageNotes writes the new notes since the last time.
func (in *importRun) stageNotes(ctx context.Context) error {
	if len(in.newNotes) == 0 {
		return nil
	}
	batch := make([]store.Note, len(in.newNotes))
	for i, n := range in.newNotes {
		batch[i] = *n
	}
	if err := in.stage.StageNotes(ctx, batch); err != nil {
		return fmt.Errorf("write the notes of the file: %w", err)
	}
	for i, n := range in.newNotes {
		n.Number = batch[i].Number
	}
	in.newNotes = in.newNotes[:0]
	return nil
}

// imported completes the source of a new point: while its state stays that of now, it is written to
// packages as it came.
func imported(p *store.Point) {
	if source, ok := transfer.ParseCardSource(p.Source); ok {
		source.State = transfer.Fingerprint(p.Card, p.InPlan, p.Suspended)
		p.Source = source.String()
	}
}

// takesPlan reports whether the plan of a point that the person has is replaced by that of the
// file: if it was never reviewed here and the file has reviews, or if it is as it came from an
// older file.
func takesPlan(p *store.Point, item *transfer.Item) bool {
	if item.Card == nil && len(item.History) == 0 {
		return false
	}
	was, ok := transfer.ParseCardSource(p.Source)
	if !ok {
		return p.Card.Phase == store.New && p.Card.Reps == 0 && item.Card != nil && item.Card.Reps > 0
	}
	now, ok := transfer.ParseCardSource(item.Source)
	untouched := was.State == transfer.Fingerprint(p.Card, p.InPlan, p.Suspended)
	return ok && untouched && now.Card.Modified > was.Card.Modified
}

// mediaMark matches a picture or sound in the text form of a card.
var mediaMark = regexp.MustCompile(`\[(image|sound): ([^\]]*)\]`)

// renameMedia replaces names of files in the text form of a card.
func renameMedia(text string, renamed map[string]string) string {
	return mediaMark.ReplaceAllStringFunc(text, func(mark string) string {
		m := mediaMark.FindStringSubmatch(mark)
		if to, ok := renamed[m[2]]; ok {
			return "[" + m[1] + ": " + to + "]"
		}
		return mark
	})
}
