package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// Bot is a bot as its owner configured it.
type Bot struct {
	Number      int64           `json:"id"`    // never reused
	Owner       string          `json:"owner"` // person id
	Name        string          `json:"name"`  // unique per owner
	Kind        string          `json:"kind"`
	Description string          `json:"description,omitempty"`
	Settings    json.RawMessage `json:"-"` // a JSON object whose secrets are sealed
	// SetBy is the id of the key that last changed the settings; empty: a person did. The rules of
	// that key apply to the bot.
	SetBy     string    `json:"-"`
	TokenHash string    `json:"-"` // hash of the token the bot connects with; empty: it does not connect
	Version   int64     `json:"-"` // incremented by every change
	Created   time.Time `json:"created_at"`
	Seen      time.Time `json:"last_seen,omitzero"` // last time it was connected
	// Everybody means that all people may ask it; others may whom its owner named.
	Everybody bool `json:"-"`
	// Model is the last known state of the model behind the bot, if there is one.
	Model ModelState `json:"-"`
}

// ModelReady is the [ModelState].State of a model that has answered.
const ModelReady = "ready"

// ModelState is the last known state of a model, on any instance.
type ModelState struct {
	Version int64     // version of the bot's settings; the state is invalid for any other
	State   string    // [ModelReady] or the name of the problem; empty: unknown
	Since   time.Time // since when the state holds
	Asked   bool      // found by answering a question, not by probing the connection
}

// Bots accesses the table of bots.
type Bots struct{ db *DB }

const botColumns = `number, owner, name, kind, description, settings, token_hash, version, created_at, seen_at, set_by,
	model_version, model_state, model_since, model_asked, everybody`

func readBot(s scanner) (b Bot, err error) {
	var (
		settings string
		token    sql.NullString
		created  int64
		seen     sql.NullInt64
		since    int64
		all      int64
	)
	err = s.Scan(&b.Number, &b.Owner, &b.Name, &b.Kind, &b.Description, &settings, &token, &b.Version, &created, &seen,
		&b.SetBy,
		&b.Model.Version, &b.Model.State, &since, &b.Model.Asked, &all)
	b.Everybody = all != 0
	b.Settings, b.TokenHash = json.RawMessage(settings), token.String
	b.Created, b.Seen = fromMillis(created), fromNullMillis(seen)
	if since != 0 {
		b.Model.Since = fromMillis(since)
	}
	return b, err
}

// Add inserts a bot and assigns the next number, which is never reused. It returns [ErrExists] if
// the owner already uses the name.
func (t Bots) Add(ctx context.Context, b Bot) (Bot, error) {
	b.Version = 1
	err := t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'bot' RETURNING value`).
			Scan(&b.Number); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO bots (`+botColumns+
			`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL, $10, 0, '', 0, FALSE, 0)`,
			b.Number, b.Owner, b.Name, b.Kind, b.Description, string(b.Settings), nullString(b.TokenHash), b.Version,
			millis(b.Created), b.SetBy)
		return err
	})
	return b, err
}

// Save writes a bot's name, description, settings and token, if its version is still the one that
// was read; otherwise it returns [ErrExists]. Devices of the bot count as changed.
func (t Bots) Save(ctx context.Context, b Bot) error {
	err := t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx,
			`UPDATE bots SET name = $1, description = $2, settings = $3, token_hash = $4, set_by = $5, version = version + 1
			WHERE number = $6 AND version = $7`, b.Name, b.Description, string(b.Settings), nullString(b.TokenHash), b.SetBy,
			b.Number, b.Version)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'devices'
			AND EXISTS (SELECT 1 FROM devices WHERE bot = $1)`, b.Number)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		if _, err = t.ByNumber(ctx, b.Number); err == nil {
			err = ErrExists
		}
	}
	return err
}

// Remove deletes a bot and all its data, except its traces.
func (t Bots) Remove(ctx context.Context, number int64) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, `DELETE FROM bots WHERE number = $1`, number)); err != nil {
			return err
		}
		return bumpDevicesVersion(ctx, tx) // devices of the bot are unbound now
	})
}

// MarkSeen records that bots are connected at this moment.
func (t Bots) MarkSeen(ctx context.Context, numbers []int64, at time.Time) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		for _, n := range numbers {
			if _, err := tx.ExecContext(ctx, `UPDATE bots SET seen_at = $1 WHERE number = $2`, millis(at),
				n); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetModel records the state of the model behind a bot, if the bot and its previous model state are
// still as read. It reports whether it did.
func (t Bots) SetModel(ctx context.Context, was Bot, now ModelState) (bool, error) {
	n, err := t.db.exec(ctx, `UPDATE bots SET model_version = $1, model_state = $2, model_since = $3, model_asked = $4
		WHERE number = $5 AND version = $6 AND model_version = $7 AND model_state = $8 AND model_asked = $9`,
		now.Version, now.State, millis(now.Since), now.Asked,
		was.Number, was.Version, was.Model.Version, was.Model.State, was.Model.Asked)
	return n > 0, err
}

// ByNumber returns a bot, or [ErrNotFound].
func (t Bots) ByNumber(ctx context.Context, number int64) (Bot, error) {
	return readCached(ctx, t.db, cacheKey{"bots", strconv.FormatInt(number, 10)},
		func(ctx context.Context) (Bot, error) {
			return one(ctx, t.db, readBot, `SELECT `+botColumns+` FROM bots WHERE number = $1`, number)
		})
}

// ByTokenHash returns the bot that connects with the token of this hash.
func (t Bots) ByTokenHash(ctx context.Context, hash string) (Bot, error) {
	return readCached(ctx, t.db, cacheKey{"tokens of bots", hash}, func(ctx context.Context) (Bot, error) {
		return one(ctx, t.db, readBot, `SELECT `+botColumns+` FROM bots WHERE token_hash = $1`, hash)
	})
}

// ByOwner lists an owner's bots by number, or all bots for an empty owner, at most 1,000.
func (t Bots) ByOwner(ctx context.Context, owner string) ([]Bot, error) {
	return all(ctx, t.db, readBot, `SELECT `+botColumns+
		` FROM bots WHERE $1 = '' OR owner = $1 ORDER BY number LIMIT 1000`, owner)
}

// After lists the bots that a person may ask, or all bots for an empty person, with numbers greater
// than number, by number.
func (t Bots) After(ctx context.Context, person string, number int64, limit int) ([]Bot, error) {
	return all(ctx, t.db, readBot, `SELECT `+botColumns+
		` FROM bots WHERE ($1 = '' OR owner = $1 OR `+isShared("bot", "$1")+`)
		AND number > $2 ORDER BY number LIMIT $3`, person, number, limit)
}

// Count returns the number of an owner's bots.
func (t Bots) Count(ctx context.Context, owner string) (int, error) {
	return one(ctx, t.db, func(s scanner) (n int, err error) { return n, s.Scan(&n) },
		`SELECT COUNT(*) FROM bots WHERE owner = $1`, owner)
}

// Counts returns the number of bots of each owner who has some.
func (t Bots) Counts(ctx context.Context) (map[string]int, error) {
	return countByOwner(ctx, t.db, "bots")
}

func nullString(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }
