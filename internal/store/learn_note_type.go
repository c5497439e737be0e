package store

import "context"

// NoteType returns a note type of a person by its number, or [ErrNotFound].
func (t Learn) NoteType(ctx context.Context, person string, number int64) (NoteType, error) {
	return one(ctx, t.db, readNoteType, `SELECT number, person, origin, name, model, updated_at
		FROM learn_note_types WHERE number = $1 AND person = $2`, number, person)
}
