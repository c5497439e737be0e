package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"
)

// MaxRecordedSound is the maximum size of a sound of a recording, in bytes: five minutes of speech
// at 50 kbit/s.
const MaxRecordedSound = 2 << 20

// The parts of a recording that have a sound.
const (
	PartQuestion = "question"
	PartAnswer   = "answer"
)

// Recording is what was said in a turn with a device, without the sound.
type Recording struct {
	Turn     string    `json:"turn"`
	Device   int64     `json:"device"`
	At       time.Time `json:"at"`
	Expires  time.Time `json:"expires_at"`
	Question string    `json:"question"`
	Answer   string    `json:"answer"` // as far as it was played
	// The lengths of the sounds; 0: there is none.
	QuestionLength time.Duration `json:"question_length"`
	AnswerLength   time.Duration `json:"answer_length"`
	Bytes          int64         `json:"bytes"` // of both sounds
}

// RecordedSound is the sound of a recording, as Ogg Opus. A part without sound is empty.
type RecordedSound struct{ Question, Answer []byte }

// Recordings accesses the table of recordings. They are deleted with the record of their turn, with
// their device, and with its owner.
type Recordings struct{ db *DB }

const recordingColumns = `turn, device, at, expires_at, question_ms, answer_ms, bytes, question, answer`

func readRecording(s scanner) (r Recording, err error) {
	var at, expires, question, answer int64
	err = s.Scan(&r.Turn, &r.Device, &at, &expires, &question, &answer, &r.Bytes, &r.Question, &r.Answer)
	r.At, r.Expires = fromMillis(at), fromMillis(expires)
	r.QuestionLength = time.Duration(question) * time.Millisecond
	r.AnswerLength = time.Duration(answer) * time.Millisecond
	return r, err
}

// Add stores a recording, whose time is that of its turn. It returns [ErrNotFound] if there is no
// record of the turn, or no such device, and [ErrTooLarge] if a sound is too large.
func (t Recordings) Add(ctx context.Context, r Recording, sound RecordedSound) error {
	if len(sound.Question) > MaxRecordedSound || len(sound.Answer) > MaxRecordedSound {
		return ErrTooLarge
	}
	// Empty, not NULL.
	question, answer := append([]byte{}, sound.Question...), append([]byte{}, sound.Answer...)
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `INSERT INTO recordings (`+recordingColumns+`, words, question_sound, answer_sound)
			SELECT t.turn, d.number, t.at, $1, $2, $3, $4, $5, $6, $7, $8, $9 FROM traces t, devices d
			WHERE t.turn = $10 AND d.number = $11 ON CONFLICT (turn) DO NOTHING`, sanitizeArgs([]any{
			millis(r.Expires), r.QuestionLength.Milliseconds(), r.AnswerLength.Milliseconds(),
			len(question) + len(answer), r.Question, r.Answer, strings.ToLower(r.Question + "\n" + r.Answer),
			question, answer, r.Turn, r.Device})...))
	})
}

// RecordingFilter selects recordings of a device. Empty fields match all.
type RecordingFilter struct {
	Device      int64
	Text        string    // part of the question or the answer, ignoring case
	From, Until time.Time // start time, from From to before Until
	After       RecordCursor
}

// Find lists recordings, newest first.
func (t Recordings) Find(ctx context.Context, f RecordingFilter, limit int) ([]Recording, error) {
	var w where
	w.and(true, "device = ?", f.Device)
	w.and(f.Text != "", `words LIKE ? ESCAPE '\'`, containsPattern(f.Text))
	w.between(f.From, f.Until, f.After, "turn")
	rest := w.page("turn", limit)
	return all(ctx, t.db, readRecording, `SELECT `+recordingColumns+` FROM recordings`+rest, w.args...)
}

// ByTurn returns the recording of a turn, or [ErrNotFound].
func (t Recordings) ByTurn(ctx context.Context, turn string) (Recording, error) {
	return one(ctx, t.db, readRecording, `SELECT `+recordingColumns+` FROM recordings WHERE turn = $1`, turn)
}

// Sound returns the sound of a turn, or [ErrNotFound].
func (t Recordings) Sound(ctx context.Context, turn string) (RecordedSound, error) {
	return one(ctx, t.db, func(s scanner) (r RecordedSound, err error) {
		return r, s.Scan(&r.Question, &r.Answer)
	}, `SELECT question_sound, answer_sound FROM recordings WHERE turn = $1`, turn)
}

// Recorded returns which of some turns have a recording.
func (t Recordings) Recorded(ctx context.Context, turns []string) (map[string]bool, error) {
	out := map[string]bool{}
	for some := range slices.Chunk(turns, inListSize) {
		found, err := all(ctx, t.db, func(s scanner) (turn string, err error) { return turn, s.Scan(&turn) },
			`SELECT turn FROM recordings WHERE turn IN (`+inPlaceholders(1)+`)`, inArgs(some)...)
		if err != nil {
			return nil, err
		}
		for _, turn := range found {
			out[turn] = true
		}
	}
	return out, nil
}

// RecordingUsage is how much is recorded of a device.
type RecordingUsage struct {
	Turns int64 `json:"turns"`
	Bytes int64 `json:"bytes"` // of sound
}

// Total returns how much is recorded of all devices.
func (t Recordings) Total(ctx context.Context) (RecordingUsage, error) {
	return one(ctx, t.db, func(s scanner) (u RecordingUsage, err error) { return u, s.Scan(&u.Turns, &u.Bytes) },
		`SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM recordings`)
}

// Usage returns how much is recorded of a device.
func (t Recordings) Usage(ctx context.Context, device int64) (RecordingUsage, error) {
	return one(ctx, t.db, func(s scanner) (u RecordingUsage, err error) { return u, s.Scan(&u.Turns, &u.Bytes) },
		`SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM recordings WHERE device = $1`, device)
}

// Remove deletes the recordings of a device and returns their number.
func (t Recordings) Remove(ctx context.Context, device int64) (int64, error) {
	return t.db.execInBatches(ctx,
		`DELETE FROM recordings WHERE turn IN (SELECT turn FROM recordings WHERE device = $1 LIMIT $2)`, device)
}

// Forget deletes the recordings of a person's devices, only those of turns with one bot if it is
// not 0, and returns their number.
func (t Recordings) Forget(ctx context.Context, owner string, bot int64) (int64, error) {
	return t.db.execInBatches(ctx, `DELETE FROM recordings WHERE turn IN (SELECT r.turn FROM recordings r
		JOIN devices d ON d.number = r.device JOIN traces t ON t.turn = r.turn
		WHERE d.owner = $1 AND ($2 = 0 OR t.bot = $2) LIMIT $3)`, owner, bot)
}
