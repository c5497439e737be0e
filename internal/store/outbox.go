package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

const (
	// MaxPushes is how many pushes wait for one device. It protects whoever wakes a
	// device after a month from an hour of old news, and, with [MaxPush], the disk:
	// the pushes of one device take 2 MiB at most.
	MaxPushes = 32
	// MaxPush is how many bytes the body of one may have: texts and addresses, no
	// sounds.
	MaxPush = 64 << 10
)

// Push is something that waits for a device until it wakes.
type Push struct {
	ID      string          `json:"id"` // a UUID of version 7, so that ids sort by time
	Device  int64           `json:"device"`
	Kind    string          `json:"kind"`
	Body    json.RawMessage `json:"body"`             // JSON; empty: {}
	Person  string          `json:"person,omitempty"` // who asked for it
	Key     string          `json:"key,omitempty"`    // id of the key they used
	Created time.Time       `json:"created_at"`
	Expires time.Time       `json:"expires_at"`
}

// Outbox is the table of pushes that wait. Those of a device go with it.
type Outbox struct{ db *DB }

const pushColumns = `id, device, kind, body, person, key, created_at, expires_at`

func readPush(s scanner) (p Push, err error) {
	var (
		body             string
		created, expires int64
	)
	err = s.Scan(&p.ID, &p.Device, &p.Kind, &body, &p.Person, &p.Key, &created, &expires)
	p.Body, p.Created, p.Expires = json.RawMessage(body), fromMillis(created), fromMillis(expires)
	return p, err
}

// Add keeps a push. [ErrFull] says that [MaxPushes] wait for the device already,
// [ErrTooLarge] that the body has more than [MaxPush] bytes, [ErrNotFound] that there
// is no such device, and [ErrExists] that the id was used. Where there is no room,
// pushes that had expired when this one was created make it; [Outbox.Expire] does not
// count those.
func (t Outbox) Add(ctx context.Context, p Push) error {
	if len(p.Body) > MaxPush {
		return ErrTooLarge
	}
	if len(p.Body) == 0 {
		p.Body = json.RawMessage(`{}`)
	}
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		// Of two that come at the same moment the second one counts the first.
		var number, waiting int64
		if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT number FROM devices WHERE number = $1`, "FOR NO KEY UPDATE"), p.Device).Scan(&number); err != nil {
			return err
		}
		count := func() error {
			return tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM device_outbox WHERE device = $1`, p.Device).Scan(&waiting)
		}
		if err := count(); err != nil {
			return err
		}
		if waiting >= MaxPushes {
			if _, err := tx.ExecContext(ctx, `DELETE FROM device_outbox WHERE device = $1 AND expires_at <= $2`, p.Device, millis(p.Created)); err != nil {
				return err
			}
			if err := count(); err != nil {
				return err
			}
		}
		if waiting >= MaxPushes {
			return ErrFull
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO device_outbox (`+pushColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			texts([]any{p.ID, p.Device, p.Kind, string(p.Body), p.Person, p.Key, millis(p.Created), millis(p.Expires)})...)
		return err
	})
}

// For lists what waits for a device and has not expired, oldest first.
func (t Outbox) For(ctx context.Context, device int64, now time.Time) ([]Push, error) {
	return all(ctx, t.db, readPush, `SELECT `+pushColumns+` FROM device_outbox WHERE device = $1 AND expires_at > $2 ORDER BY id`, device, millis(now))
}

// Remove takes pushes out that were delivered. Those that are gone already are no
// error.
func (t Outbox) Remove(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		for _, id := range ids {
			if _, err := tx.ExecContext(ctx, `DELETE FROM device_outbox WHERE id = $1`, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// RemoveAll takes out whatever waits for a device.
func (t Outbox) RemoveAll(ctx context.Context, device int64) error {
	_, err := t.db.exec(ctx, `DELETE FROM device_outbox WHERE device = $1`, device)
	return err
}

// Expire takes out what has expired, and returns how many those were that nobody
// could deliver.
func (t Outbox) Expire(ctx context.Context, now time.Time) (int64, error) {
	return t.db.piecemeal(ctx, `DELETE FROM device_outbox WHERE id IN (SELECT id FROM device_outbox WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)`, millis(now))
}
