package store

import (
	"context"
	"database/sql"
	"time"
)

// Secret is an installation secret, sealed by itself or by another secret. Values are sealed with
// it.
type Secret struct {
	ID       string // id of its key
	SealedBy string // id of the key that sealed it: its own or another
	Sealed   string
	Made     time.Time
	Used     time.Time // since when it is used for sealing; zero: not yet
}

// Secrets accesses the table of installation secrets.
type Secrets struct{ db *DB }

// All lists the secrets, the most recently activated first and those never activated last.
func (t Secrets) All(ctx context.Context) ([]Secret, error) {
	return all(ctx, t.db, func(s scanner) (x Secret, err error) {
		var made int64
		var used sql.NullInt64
		err = s.Scan(&x.ID, &x.SealedBy, &x.Sealed, &made, &used)
		x.Made, x.Used = fromMillis(made), fromNullMillis(used)
		return x, err
	}, `SELECT id, by_id, sealed, made, used FROM secrets ORDER BY used IS NULL, used DESC, made DESC, id, by_id`)
}

// Installation returns the id of this installation, or [ErrNotFound] before the first
// [Secrets.Adopt].
func (t Secrets) Installation(ctx context.Context) (string, error) {
	return one(ctx, t.db, func(s scanner) (id string, err error) { return id, s.Scan(&id) },
		`SELECT id FROM installation`)
}

// Adopt stores the first secret and the id of the installation, unless there is a secret already.
func (t Secrets) Adopt(ctx context.Context, installation string, x Secret) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		var there int
		// The lock lets only one of several starting instances adopt its secret.
		if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT value FROM counters WHERE name = 'access'`,
			"FOR UPDATE")).Scan(&there); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM secrets`).Scan(&there); err != nil || there > 0 {
			return err
		}
		if _, err := tx.ExecContext(ctx,
			`INSERT INTO installation (id) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM installation)`,
			installation); err != nil {
			return err
		}
		return addSecret(ctx, tx, x)
	})
}

// Add stores secrets, all or none.
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
		x.ID, x.SealedBy, x.Sealed, millis(x.Made), nullMillis(x.Used))
	return err
}

// Use activates a secret that is not in use yet.
func (t Secrets) Use(ctx context.Context, id string, at time.Time) error {
	return t.db.execOne(ctx, `UPDATE secrets SET used = $2 WHERE id = $1 AND used IS NULL`, id, millis(at))
}

// KeepOnly deletes all secrets except one. If that is not the active one, it returns [ErrNotFound]
// and changes nothing.
func (t Secrets) KeepOnly(ctx context.Context, id string) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		var newest string
		if err := tx.QueryRowContext(ctx, `SELECT id FROM secrets ORDER BY used IS NULL, used DESC, made DESC LIMIT 1`).
			Scan(&newest); err != nil {
			return err
		}
		if newest != id {
			return ErrNotFound
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM secrets WHERE id <> $1 OR by_id <> $1`, id)
		return err
	})
}

// Discard deletes all secrets, because their keys are lost. Values sealed with them remain, but are
// unreadable.
func (t Secrets) Discard(ctx context.Context) error {
	_, err := t.db.exec(ctx, `DELETE FROM secrets`)
	return err
}

// sealedColumns lists the columns that contain sealed values, alone or inside a text.
var sealedColumns = []struct{ table, column string }{{"bots", "settings"}, {"upstreams", "settings"},
	{"shim_nodes", "kept"}, {"speech_engines", "settings"}, {"upstream_signins", "sealed"},
	{"authenticators", "secret"}, {"acme_accounts", "sealed"}, {"certificates", "sealed"},
	{"certificates", "pending"}, {"acme_challenges", "sealed"}, {"relay_links", "kept"},
	{"push_keys", "sealed"}, {"push_devices", "sealed"}}

// EachSealed calls f with every text that contains sealed values, replaces those that f changes,
// and returns their number. A text that was changed concurrently is not replaced: sealed values are
// unique, so the update matches by the old text.
func (t Secrets) EachSealed(ctx context.Context, f func(text string) (string, bool)) (replaced int, err error) {
	for _, c := range sealedColumns {
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
