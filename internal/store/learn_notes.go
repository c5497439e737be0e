package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// NoteType is how the notes of a flashcard program are made: their fields, and the templates of
// their cards.
type NoteType struct {
	Number int64  // unique; set by [Learn.SaveNoteType]
	Person string // set by [Learn.SaveNoteType]
	// Origin identifies the type at its source, the same each time a file is imported.
	Origin  string
	Name    string
	Model   json.RawMessage // as package note describes it
	Updated time.Time
}

// Note is the content from which the points of a note are made.
type Note struct {
	Number int64 // unique
	Person string
	Type   int64 // number of its type
	// GUID identifies the note at its source, and is unique per person.
	GUID    string
	Fields  []string // HTML, in the order of the type's fields
	Source  string   // what only its source understands, as JSON
	Updated time.Time
}

// NoteTypes lists a person's note types by name, at most 10,000.
func (t Learn) NoteTypes(ctx context.Context, person string) ([]NoteType, error) {
	return all(ctx, t.db, readNoteType, `SELECT number, person, origin, name, model, updated_at
		FROM learn_note_types WHERE person = $1 ORDER BY name, number LIMIT 10000`, person)
}

// NoteTypeByOrigin returns a person's note type, or [ErrNotFound].
func (t Learn) NoteTypeByOrigin(ctx context.Context, person, origin string) (NoteType, error) {
	return one(ctx, t.db, readNoteType, `SELECT number, person, origin, name, model, updated_at
		FROM learn_note_types WHERE person = $1 AND origin = $2`, person, origin)
}

func readNoteType(s scanner) (n NoteType, err error) {
	var model string
	var updated int64
	err = s.Scan(&n.Number, &n.Person, &n.Origin, &n.Name, &model, &updated)
	n.Model, n.Updated = json.RawMessage(model), fromMillis(updated)
	return n, err
}

// SaveNoteType adds a note type of a person, or replaces the one with its origin, and sets its
// number.
func (t Learn) SaveNoteType(ctx context.Context, person string, n *NoteType) error {
	n.Person = person
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx,
			`INSERT INTO learn_note_types (number, person, origin, name, model, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (person, origin) DO UPDATE SET name = excluded.name, model = excluded.model,
			updated_at = excluded.updated_at RETURNING number`,
			sanitizeArgs([]any{newPointNumber(), person, n.Origin, n.Name, string(n.Model), millis(n.Updated)})...).
			Scan(&n.Number)
	})
}

// updateNoteType replaces name and model of a note type.
func updateNoteType(ctx context.Context, tx *sql.Tx, person string, n *NoteType) error {
	return changed(tx.ExecContext(ctx, `UPDATE learn_note_types SET name = $1, model = $2, updated_at = $3
		WHERE number = $4 AND person = $5`, sanitizeArgs([]any{n.Name, string(n.Model), millis(n.Updated), n.Number,
		person})...))
}

// RemoveNoteType deletes a note type of which there are no notes, or returns [ErrNotFound].
func (t Learn) RemoveNoteType(ctx context.Context, person string, number int64) error {
	return t.db.execOne(ctx, `DELETE FROM learn_note_types WHERE person = $1 AND number = $2
		AND NOT EXISTS (SELECT 1 FROM learn_notes n WHERE n.type = learn_note_types.number)`, person, number)
}

const noteColumns = `number, person, type, guid, fields, source, updated_at`

func readNote(s scanner) (n Note, err error) {
	var fields string
	var updated int64
	if err = s.Scan(&n.Number, &n.Person, &n.Type, &n.GUID, &fields, &n.Source, &updated); err != nil {
		return n, err
	}
	n.Updated = fromMillis(updated)
	if err := json.Unmarshal([]byte(fields), &n.Fields); err != nil {
		return n, fmt.Errorf("fields of the note %d: %w", n.Number, err)
	}
	return n, nil
}

// Notes returns notes of a person by their numbers, in any order. Missing ones are left out.
func (t Learn) Notes(ctx context.Context, person string, numbers []int64) ([]Note, error) {
	var out []Note
	for chunk := range slices.Chunk(numbers, inListSize) {
		notes, err := all(ctx, t.db, readNote, `SELECT `+noteColumns+` FROM learn_notes WHERE number IN (`+
			inPlaceholders(1)+`) AND staged IS NULL`, inArgs(chunk)...)
		if err != nil {
			return nil, err
		}
		for _, n := range notes {
			if n.Person == person {
				out = append(out, n)
			}
		}
	}
	return out, nil
}

// NoteGUIDs returns the numbers of a person's notes by their GUIDs.
func (t Learn) NoteGUIDs(ctx context.Context, person string) (map[string]int64, error) {
	type row struct {
		guid   string
		number int64
	}
	rows, err := all(ctx, t.db, func(s scanner) (r row, err error) { return r, s.Scan(&r.guid, &r.number) },
		`SELECT guid, number FROM learn_notes WHERE person = $1 AND staged IS NULL`, person)
	out := make(map[string]int64, len(rows))
	for _, r := range rows {
		out[r.guid] = r.number
	}
	return out, err
}

// NotePoints returns the points of a note by their ord, those in the trash last.
func (t Learn) NotePoints(ctx context.Context, person string, note int64) ([]Point, error) {
	return all(ctx, t.db, readPoint, `SELECT `+pointColumns+` FROM learn_points
		WHERE note = $1 AND note <> 0 AND person = $2 AND staged IS NULL
		ORDER BY CASE WHEN deleted_at IS NULL THEN 0 ELSE 1 END, ord, number`,
		note, person)
}

const insertNote = `INSERT INTO learn_notes (` + noteColumns + `, staged) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

func noteValues(n *Note, staged string) ([]any, error) {
	fields, err := json.Marshal(n.Fields)
	return sanitizeArgs([]any{n.Number, n.Person, n.Type, n.GUID, string(fields), n.Source, millis(n.Updated),
		nullString(staged)}), err
}

// updateNote replaces type, fields and source of a note.
func updateNote(ctx context.Context, tx *sql.Tx, n *Note) error {
	fields, err := json.Marshal(n.Fields)
	if err != nil {
		return err
	}
	return changed(tx.ExecContext(ctx, `UPDATE learn_notes SET type = $1, fields = $2, source = $3, updated_at = $4
		WHERE number = $5 AND person = $6`, sanitizeArgs([]any{n.Type, string(fields), n.Source, millis(n.Updated),
		n.Number, n.Person})...))
}

// dropNotes deletes those of some notes of which no point is left.
func dropNotes(ctx context.Context, tx *sql.Tx, numbers []int64) error {
	slices.Sort(numbers)
	for chunk := range slices.Chunk(slices.Compact(numbers), inListSize) {
		if _, err := tx.ExecContext(ctx, `DELETE FROM learn_notes WHERE number IN (`+inPlaceholders(1)+`)
			AND NOT EXISTS (SELECT 1 FROM learn_points p WHERE p.note = learn_notes.number)`, inArgs(chunk)...); err != nil {
			return err
		}
	}
	return nil
}
