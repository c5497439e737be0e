package store

import (
	"context"
	"database/sql"
	"time"
)

// Trace is the record of one turn, written when its asker was done with it.
type Trace struct {
	Turn         string    `json:"turn"`
	Bot          int64     `json:"bot"`
	Owner        string    `json:"owner"`
	Kind         string    `json:"kind"`
	Door         string    `json:"door"`
	Person       string    `json:"person"`
	Conversation string    `json:"conversation"`
	Instance     string    `json:"instance"`
	At           time.Time `json:"at"`

	Queue time.Duration `json:"queue"`         // waiting for the bot's turn
	First time.Duration `json:"first"`         // to the first piece; 0: none came
	Total time.Duration `json:"total"`         // to the end, as the asker saw it
	Late  time.Duration `json:"late,omitzero"` // to the real end, if the asker was gone by then

	Pieces int64 `json:"pieces"`
	Bytes  int64 `json:"bytes"`

	Outcome string `json:"outcome"` // done, failed, hung_up
	Code    string `json:"code"`    // of the failure
	Cause   string `json:"cause"`   // for the owner, without secrets
	// Asker is the account of who asked, where Person does not tell.
	Asker string `json:"asker,omitempty"`

	// Content, if the owner wants it kept.
	Question string `json:"question,omitempty"`
	Answer   string `json:"answer,omitempty"`
}

// Traces is the table of traces.
type Traces struct{ db *DB }

const traceColumns = `turn, bot, owner, kind, door, person, conversation, instance, at, queue_us, first_us, total_us, late_us, pieces, bytes, outcome, code, cause, question, answer, asker`

func readTrace(s scanner) (t Trace, err error) {
	var (
		at, queue, first, total int64
		late                    sql.NullInt64
		question, answer        sql.NullString
	)
	err = s.Scan(&t.Turn, &t.Bot, &t.Owner, &t.Kind, &t.Door, &t.Person, &t.Conversation, &t.Instance, &at, &queue, &first, &total, &late,
		&t.Pieces, &t.Bytes, &t.Outcome, &t.Code, &t.Cause, &question, &answer, &t.Asker)
	t.At = fromMillis(at)
	t.Queue, t.First, t.Total, t.Late = micros(queue), micros(first), micros(total), micros(late.Int64)
	t.Question, t.Answer = question.String, answer.String
	return t, err
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// Finish writes a trace and, if there is one, the exchange that belongs to it:
// both are on the disk when it returns, or neither is. Of an owner who was removed
// meanwhile nothing is written.
func (t Traces) Finish(ctx context.Context, tr Trace, e *Exchange) error {
	return t.db.commits.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if lives, err := t.db.lives(ctx, tx, tr.Owner); err != nil || !lives {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO traces (`+traceColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21) ON CONFLICT (turn) DO NOTHING`, texts([]any{
			tr.Turn, tr.Bot, tr.Owner, tr.Kind, tr.Door, tr.Person, tr.Conversation, tr.Instance, millis(tr.At),
			tr.Queue.Microseconds(), tr.First.Microseconds(), tr.Total.Microseconds(),
			sql.NullInt64{Int64: tr.Late.Microseconds(), Valid: tr.Late > 0},
			tr.Pieces, tr.Bytes, tr.Outcome, tr.Code, tr.Cause, nullString(tr.Question), nullString(tr.Answer), tr.Asker,
		})...)
		if err != nil || e == nil {
			return err
		}
		return keepExchange(ctx, tx, *e)
	})
}

// FinishLate adds to a trace that the answer came, or failed, after the asker
// had gone, and keeps the exchange if there is an answer.
func (t Traces) FinishLate(ctx context.Context, turn string, late time.Duration, cause, answer string, e *Exchange) error {
	return t.db.commits.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE traces SET late_us = $1, cause = CASE WHEN cause = '' THEN $2 ELSE cause END, answer = COALESCE($3, answer) WHERE turn = $4`, texts([]any{
			late.Microseconds(), cause, nullString(answer), turn,
		})...)
		if err != nil || e == nil {
			return err
		}
		return keepExchange(ctx, tx, *e)
	})
}

// ByTurn finds the trace of one turn.
func (t Traces) ByTurn(ctx context.Context, turn string) (Trace, error) {
	return one(ctx, t.db, readTrace, `SELECT `+traceColumns+` FROM traces WHERE turn = $1`, turn)
}

// lookedThrough is among how many of an owner's newest traces one is looked for, when no
// index leads to it.
const lookedThrough = 2000

// LastThrough finds the newest trace of a turn that came through a door, among an owner's
// last 2,000; [ErrNotFound] says that there is none.
func (t Traces) LastThrough(ctx context.Context, owner, door string) (Trace, error) {
	return one(ctx, t.db, readTrace, `SELECT `+traceColumns+` FROM traces WHERE turn = (SELECT turn FROM (
		SELECT turn, door, at FROM traces WHERE owner = $1 ORDER BY at DESC, turn DESC LIMIT $2
	) newest WHERE door = $3 ORDER BY at DESC, turn DESC LIMIT 1)`, owner, lookedThrough, door)
}

// Newest lists an owner's newest traces (everybody's for an empty owner) that
// began before the given time, newest first.
func (t Traces) Newest(ctx context.Context, owner string, before time.Time, limit int) ([]Trace, error) {
	return all(ctx, t.db, readTrace, `SELECT `+traceColumns+` FROM traces WHERE ($1 = '' OR owner = $1) AND at < $2 ORDER BY at DESC, turn DESC LIMIT $3`,
		owner, millis(before), limit)
}

// ByBot lists a bot's newest traces that began before the given time, newest first; of
// those that began at that time, the ones before the given turn.
func (t Traces) ByBot(ctx context.Context, bot int64, before time.Time, turn string, limit int) ([]Trace, error) {
	return all(ctx, t.db, readTrace, `SELECT `+traceColumns+` FROM traces WHERE bot = $1 AND at <= $2 AND (at < $3 OR turn < $4) ORDER BY at DESC, turn DESC LIMIT $5`,
		bot, millis(before), millis(before), turn, limit)
}
