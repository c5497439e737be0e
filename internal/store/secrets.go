package store

import (
	"context"
	"database/sql"
	"time"
)

// Secret is a secret with which values may be sealed, as it is sealed with one.
type Secret struct {
	ID     string // of its key
	By     string // the key that sealed it: its own, or another
	Sealed string
	Made   time.Time
	Used   time.Time // since when it seals; zero: not yet
}

// Secrets is the table of the secrets of the installation.
type Secrets struct{ db *DB }

// All lists them. The one that was put to use last comes first, those that have not been
// put to use come last.
func (t Secrets) All(ctx context.Context) ([]Secret, error) {
	return all(ctx, t.db, func(s scanner) (x Secret, err error) {
		var made int64
		var used sql.NullInt64
		err = s.Scan(&x.ID, &x.By, &x.Sealed, &made, &used)
		x.Made, x.Used = fromMillis(made), fromMaybe(used)
		return x, err
	}, `SELECT id, by_id, sealed, made, used FROM secrets ORDER BY used IS NULL, used DESC, made DESC, id, by_id`)
}

// Installation is what tells this installation from others; [ErrNotFound] before the
// first [Secrets.Adopt].
func (t Secrets) Installation(ctx context.Context) (string, error) {
	return one(ctx, t.db, func(s scanner) (id string, err error) { return id, s.Scan(&id) }, `SELECT id FROM installation`)
}

// Adopt makes a secret the one of the installation, and gives that its name, unless
// somebody was faster.
func (t Secrets) Adopt(ctx context.Context, installation string, x Secret) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		var there int
		// Of several instances that start at once one adopts its secret.
		if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT value FROM counters WHERE name = 'access'`, "FOR UPDATE")).Scan(&there); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM secrets`).Scan(&there); err != nil || there > 0 {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO installation (id) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM installation)`, installation); err != nil {
			return err
		}
		return addSecret(ctx, tx, x)
	})
}

// Add keeps secrets, all or none.
func (t Secrets) Add(ctx context.Context, list ...Secret) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		for _, x := range list {
			if err := addSecret(ctx, tx, x); err != nil {
				return err
			}
		}
		return nil
	})
}

func addSecret(ctx context.Context, tx *sql.Tx, x Secret) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO secrets (id, by_id, sealed, made, used) VALUES ($1, $2, $3, $4, $5)`,
		x.ID, x.By, x.Sealed, millis(x.Made), maybeMillis(x.Used))
	return err
}

// Use puts a secret to use that waits.
func (t Secrets) Use(ctx context.Context, id string, at time.Time) error {
	return t.db.execOne(ctx, `UPDATE secrets SET used = $2 WHERE id = $1 AND used IS NULL`, id, millis(at))
}

// Keep drops all secrets but one. It is [ErrNotFound], and changes nothing, unless that
// is the one in use.
func (t Secrets) Keep(ctx context.Context, id string) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		var newest string
		if err := tx.QueryRowContext(ctx, `SELECT id FROM secrets ORDER BY used IS NULL, used DESC, made DESC LIMIT 1`).Scan(&newest); err != nil {
			return err
		}
		if newest != id {
			return ErrNotFound
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM secrets WHERE id <> $1 OR by_id <> $1`, id)
		return err
	})
}

// Lose drops all secrets, since nobody has them any more. What they sealed stays, and
// cannot be read.
func (t Secrets) Lose(ctx context.Context) error {
	_, err := t.db.exec(ctx, `DELETE FROM secrets`)
	return err
}

// sealed is where sealed values are, alone or inside of a text.
var sealed = []struct{ table, column string }{{"bots", "settings"}, {"upstreams", "settings"}, {"shim_nodes", "kept"}}

// EachSealed calls f with every text that has sealed values in it. A text that f
// returns changed is replaced, unless somebody else has replaced it meanwhile: sealed
// values are never alike, so that a text is found by itself. It returns how many were.
func (t Secrets) EachSealed(ctx context.Context, f func(text string) (string, bool)) (replaced int, err error) {
	for _, c := range sealed {
		texts, err := all(ctx, t.db, func(s scanner) (text string, err error) { return text, s.Scan(&text) },
			`SELECT `+c.column+` FROM `+c.table+` WHERE `+c.column+` LIKE '%sealed:1:%'`)
		if err != nil {
			return replaced, err
		}
		for _, text := range texts {
			other, changed := f(text)
			if !changed {
				continue
			}
			n, err := t.db.exec(ctx, `UPDATE `+c.table+` SET `+c.column+` = $2 WHERE `+c.column+` = $1`, text, other)
			if err != nil {
				return replaced, err
			}
			replaced += int(n)
		}
	}
	return replaced, nil
}
