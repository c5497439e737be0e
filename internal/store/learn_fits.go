package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

// PastReview is a review of the log, as far as the memory model needs it.
type PastReview struct {
	Point int64
	Day   Day
	Deck  string // where the point is now; if it is gone, where it was
	Grade Grade
	First bool // no review came before it
	// Version is that of the point; 0 if it is gone.
	Version int64
}

// ReadReviews passes all of a person's reviews that were not undone to f, in the order in which
// they happened, without holding them in memory. It ends with the first error of f.
func (t Learn) ReadReviews(ctx context.Context, person string, f func(PastReview) error) error {
	ctx = longRunning(ctx)
	rows, err := t.db.reader(ctx).QueryContext(ctx, `SELECT l.point, l.day, COALESCE(p.deck, l.deck), l.grade, l.elapsed, COALESCE(p.version, 0)
		FROM learn_log l LEFT JOIN learn_points p ON p.number = l.point
		WHERE l.person = $1 AND l.kind = 'review' AND p.staged IS NULL AND NOT EXISTS
			(SELECT 1 FROM learn_log u WHERE u.person = l.person AND u.undoes = l.id AND u.undoes <> '')
		ORDER BY l.at, l.id`, sanitizeArgs([]any{person})...)
	if err != nil {
		return translate(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r PastReview
		var elapsed int
		if err := rows.Scan(&r.Point, &r.Day, &r.Deck, &r.Grade, &elapsed, &r.Version); err != nil {
			return err
		}
		r.First = elapsed < 0
		if err := f(r); err != nil {
			return err
		}
	}
	return rows.Err()
}

// PointMemory is the memory of a point after a number of reviews.
type PointMemory struct {
	Point                 int64
	Version               int64 // of the point when its reviews were read
	Reps                  int
	Stability, Difficulty float64
}

// memoryBatch is how many memories are written in one transaction, so that others can write in
// between.
const memoryBatch = 500

// SaveMemories writes memories of a person's points. Points that were reviewed another number of
// times, or have changed since their reviews were read, are left alone. It returns how many were
// written.
func (t Learn) SaveMemories(ctx context.Context, person string, list []PointMemory) (n int, err error) {
	for len(list) > 0 {
		batch := list[:min(len(list), memoryBatch)]
		list = list[len(batch):]
		written := 0
		err := retryDeadlock(func() error {
			written = 0
			return t.db.tx(ctx, func(tx *sql.Tx) error {
				if err := t.db.lockPerson(ctx, tx, person); err != nil {
					return err
				}
				for _, m := range batch {
					res, err := tx.ExecContext(ctx, `UPDATE learn_points SET stability = $1, difficulty = $2, version = version + 1
						WHERE number = $3 AND person = $4 AND reps = $5 AND version = $6 AND staged IS NULL`,
						m.Stability, m.Difficulty, m.Point, person, m.Reps, m.Version)
					if err != nil {
						return err
					}
					if rows, err := res.RowsAffected(); err == nil {
						written += int(rows)
					}
				}
				return nil
			})
		})
		if err != nil {
			return n, err
		}
		n += written
	}
	return n, nil
}

// Fit is a set of weights that was fitted to a person's reviews and taken.
type Fit struct {
	ID     string
	Person string
	Deck   string // empty: the settings that all decks have in common
	At     time.Time
	// Before and After are values of the setting weights, "null" if there was none.
	Before, After json.RawMessage
	Result        json.RawMessage
	Undone        bool
}

// AddFit inserts a fit.
func (t Learn) AddFit(ctx context.Context, f Fit) error {
	_, err := t.db.exec(ctx, `INSERT INTO learn_fits (id, person, deck, at, weights_before, weights_after, result, undone)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, f.ID, f.Person, f.Deck, millis(f.At), string(f.Before), string(f.After),
		string(f.Result), f.Undone)
	return err
}

// Fits lists a person's fits, the newest first.
func (t Learn) Fits(ctx context.Context, person string, limit int) ([]Fit, error) {
	return all(ctx, t.db, func(s scanner) (f Fit, err error) {
		var at int64
		var before, after, result string
		err = s.Scan(&f.ID, &f.Person, &f.Deck, &at, &before, &after, &result, &f.Undone)
		f.At, f.Before, f.After = fromMillis(at), json.RawMessage(before), json.RawMessage(after)
		f.Result = json.RawMessage(result)
		return f, err
	}, `SELECT id, person, deck, at, weights_before, weights_after, result, undone FROM learn_fits
		WHERE person = $1 ORDER BY at DESC, id DESC LIMIT $2`, person, limit)
}

// UndoFit marks a fit as undone.
func (t Learn) UndoFit(ctx context.Context, person, id string) error {
	return t.db.execOne(ctx, `UPDATE learn_fits SET undone = $1 WHERE person = $2 AND id = $3`, true, person, id)
}

// Fitted returns the day on which a person's weights were last fitted without being asked for; 0:
// never.
func (t Learn) Fitted(ctx context.Context, person string) (Day, error) {
	return one(ctx, t.db, func(s scanner) (d Day, err error) { return d, s.Scan(&d) },
		`SELECT fitted FROM learn_people WHERE person = $1`, person)
}

// MarkFitted records that a person's weights are fitted on a day, unless they were on a day after
// since. It returns false in that case: another instance fits them then.
func (t Learn) MarkFitted(ctx context.Context, person string, day, since Day) (bool, error) {
	n, err := t.db.exec(ctx, `UPDATE learn_people SET fitted = $1 WHERE person = $2 AND fitted <= $3`, int64(day), person,
		int64(since))
	return n > 0, err
}

// PlannedMemory is the memory of a point with the dates of its plan.
type PlannedMemory struct {
	Stability, Difficulty float64 // 0: never reviewed
	LastDay, Due          Day
}

// ReadMemories passes the memory of all of a person's points that are reviewed to f; deck limits
// them to a deck, nil does not. It ends with the first error of f.
func (t Learn) ReadMemories(ctx context.Context, person string, deck *string, f func(PlannedMemory) error) error {
	ctx = longRunning(ctx)
	query := `SELECT stability, difficulty, last_day, due FROM learn_points
		WHERE person = $1 AND queue > 0 AND staged IS NULL AND deleted_at IS NULL`
	args := []any{person}
	if deck != nil {
		query, args = query+` AND deck = $2`, append(args, *deck)
	}
	rows, err := t.db.reader(ctx).QueryContext(ctx, query+` ORDER BY number`, sanitizeArgs(args)...)
	if err != nil {
		return translate(err)
	}
	defer rows.Close()
	for rows.Next() {
		var m PlannedMemory
		if err := rows.Scan(&m.Stability, &m.Difficulty, &m.LastDay, &m.Due); err != nil {
			return err
		}
		if err := f(m); err != nil {
			return err
		}
	}
	return rows.Err()
}
