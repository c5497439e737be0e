package store

import (
	"context"
	"database/sql"
	"time"
)

// PushDevices accesses the browsers that get reminders, and the key by which push services know the
// installation.
type PushDevices struct{ db *DB }

// PushDevice is a browser that gets reminders.
type PushDevice struct {
	ID      string
	Person  string
	Hash    string // of the endpoint; unique
	Sealed  string // the subscription
	Name    string
	Created time.Time
	Sent    time.Time // when a message was last accepted for it; zero: never
}

// Key returns the sealed key of the installation. If there is none, it stores the given one first,
// unless another instance was faster; an empty one is [ErrNotFound].
func (t PushDevices) Key(ctx context.Context, sealed string, now time.Time) (string, error) {
	if sealed != "" {
		if _, err := t.db.exec(ctx, `INSERT INTO push_keys (id, sealed, created_at) VALUES (1, $1, $2)
			ON CONFLICT (id) DO NOTHING`, sealed, millis(now)); err != nil {
			return "", err
		}
	}
	return one(ctx, t.db, func(s scanner) (text string, err error) { return text, s.Scan(&text) },
		`SELECT sealed FROM push_keys WHERE id = 1`)
}

// Save adds a device. One with the same hash is replaced, whoever's it was. If the person would
// have more than most devices, the oldest are removed.
func (t PushDevices) Save(ctx context.Context, d PushDevice, most int) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM push_devices WHERE hash = $1`, d.Hash); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO push_devices (id, person, hash, sealed, name, created_at, sent_at)
			VALUES ($1, $2, $3, $4, $5, $6, 0)`,
			sanitizeArgs([]any{d.ID, d.Person, d.Hash, d.Sealed, d.Name, millis(d.Created)})...); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM push_devices WHERE person = $1 AND id NOT IN
			(SELECT id FROM push_devices WHERE person = $2 ORDER BY created_at DESC, id DESC LIMIT $3)`, d.Person, d.Person, most)
		return err
	})
}

// Of lists the devices of a person, the newest first.
func (t PushDevices) Of(ctx context.Context, person string) ([]PushDevice, error) {
	return all(ctx, t.db, func(s scanner) (d PushDevice, err error) {
		var created, sent int64
		err = s.Scan(&d.ID, &d.Person, &d.Hash, &d.Sealed, &d.Name, &created, &sent)
		d.Created, d.Sent = fromMillis(created), fromZero(sent)
		return d, err
	}, `SELECT id, person, hash, sealed, name, created_at, sent_at FROM push_devices WHERE person = $1
		ORDER BY created_at DESC, id DESC LIMIT 100`, person)
}

// MarkSent records that a message was accepted for a device.
func (t PushDevices) MarkSent(ctx context.Context, id string, at time.Time) error {
	_, err := t.db.exec(ctx, `UPDATE push_devices SET sent_at = $2 WHERE id = $1`, id, millis(at))
	return err
}

// Remove removes a device of a person, or returns [ErrNotFound].
func (t PushDevices) Remove(ctx context.Context, person, id string) error {
	return t.db.execOne(ctx, `DELETE FROM push_devices WHERE person = $1 AND id = $2`, person, id)
}
