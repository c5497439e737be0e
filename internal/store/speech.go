package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"
)

// What a speech engine is used for. Empty means both.
const (
	UseListen = "listen"
	UseSpeak  = "speak"
)

// SpeechEngine is an engine that turns speech into text, text into speech, or both.
type SpeechEngine struct {
	Number   int64           `json:"id"`   // never reused
	Name     string          `json:"name"` // unique
	Kind     string          `json:"kind"`
	Settings json.RawMessage `json:"-"` // a JSON object whose secrets are sealed
	// Use is [UseListen], [UseSpeak], or empty for whatever it can do.
	Use     string    `json:"use,omitempty"`
	Enabled bool      `json:"enabled"`
	Version int64     `json:"-"` // incremented by every change but those of the order
	Created time.Time `json:"created_at"`
}

// SpeechEngines accesses the table of speech engines.
type SpeechEngines struct{ db *DB }

const speechColumns = `number, name, kind, settings, uses, enabled, version, created_at`

func readSpeechEngine(s scanner) (e SpeechEngine, err error) {
	var settings string
	var created int64
	err = s.Scan(&e.Number, &e.Name, &e.Kind, &settings, &e.Use, &e.Enabled, &e.Version, &created)
	e.Settings, e.Created = json.RawMessage(settings), fromMillis(created)
	return e, err
}

// All lists the engines in their order.
func (t SpeechEngines) All(ctx context.Context) ([]SpeechEngine, error) {
	return all(ctx, t.db, readSpeechEngine, `SELECT `+speechColumns+` FROM speech_engines ORDER BY position, number`)
}

// Add inserts an engine as the last one and assigns the next number, which is never reused. It
// returns [ErrExists] if the name is taken.
func (t SpeechEngines) Add(ctx context.Context, e SpeechEngine) (SpeechEngine, error) {
	e.Version = 1
	err := t.change(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx,
			`UPDATE counters SET value = value + 1 WHERE name = 'speech_engine' RETURNING value`).
			Scan(&e.Number); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO speech_engines (`+speechColumns+`, position)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, (SELECT COALESCE(MAX(position), 0) + 1 FROM speech_engines))`,
			e.Number, e.Name, e.Kind, string(e.Settings), e.Use, e.Enabled, e.Version, millis(e.Created))
		return err
	})
	return e, err
}

// Save writes an engine, except for its kind and its place in the order. It returns [ErrNotFound]
// if the engine does not exist or was changed since it was read, and [ErrExists] if the name is
// taken.
func (t SpeechEngines) Save(ctx context.Context, e SpeechEngine) error {
	return t.change(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `UPDATE speech_engines
			SET name = $1, settings = $2, uses = $3, enabled = $4, version = version + 1
			WHERE number = $5 AND version = $6`,
			e.Name, string(e.Settings), e.Use, e.Enabled, e.Number, e.Version))
	})
}

// Remove deletes an engine.
func (t SpeechEngines) Remove(ctx context.Context, number int64) error {
	return t.change(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `DELETE FROM speech_engines WHERE number = $1`, number))
	})
}

// Move puts an engine to a place in the order: 0 is the first, and any that is too large the last.
func (t SpeechEngines) Move(ctx context.Context, number int64, place int) error {
	return t.change(ctx, func(tx *sql.Tx) error {
		order, err := rowsOf(func(s scanner) (n int64, err error) { return n, s.Scan(&n) })(tx.QueryContext(ctx,
			`SELECT number FROM speech_engines ORDER BY position, number`))
		if err != nil {
			return err
		}
		at := slices.Index(order, number)
		if at < 0 {
			return ErrNotFound
		}
		order = slices.Delete(order, at, at+1)
		order = slices.Insert(order, min(max(place, 0), len(order)), number)
		for i, n := range order {
			if _, err := tx.ExecContext(ctx, `UPDATE speech_engines SET position = $1 WHERE number = $2`, i+1,
				n); err != nil {
				return err
			}
		}
		return nil
	})
}

// change runs f in a transaction and increments the speech version, so that running instances
// reload.
func (t SpeechEngines) change(ctx context.Context, f func(*sql.Tx) error) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'speech'`)
		return err
	})
}

// SpeechVersion returns a counter that grows whenever a speech engine changes, on any instance.
func (db *DB) SpeechVersion(ctx context.Context) (int64, error) {
	return one(ctx, db, func(s scanner) (v int64, err error) { return v, s.Scan(&v) },
		`SELECT value FROM counters WHERE name = 'speech'`)
}
