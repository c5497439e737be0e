package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

const (
	// MaxPushes is the maximum number of pending pushes of a device. It spares the user of a device
	// that wakes after a month an hour of old messages and, with [MaxPush], protects the disk: the
	// pushes of one device take at most 2 MiB.
	MaxPushes = 32
	// MaxPush is the maximum size of a push's body in bytes: texts and addresses, no audio.
	MaxPush = 64 << 10
)

// Push is a message that waits for a device until it wakes.
type Push struct {
	ID      string          `json:"id"` // a UUID of version 7, so that ids sort by time
	Device  int64           `json:"device"`
	Kind    string          `json:"kind"`
	Body    json.RawMessage `json:"body"`             // JSON; empty: {}
	Person  string          `json:"person,omitempty"` // person who requested it
	Key     string          `json:"key,omitempty"`    // id of the key that was used
	Created time.Time       `json:"created_at"`
	Expires time.Time       `json:"expires_at"`
}

// Outbox accesses the table of pending pushes. Removing a device deletes its pushes.
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

// Add stores a push. It returns [ErrFull] if [MaxPushes] are pending for the device, [ErrTooLarge]
// if the body exceeds [MaxPush], [ErrNotFound] if there is no such device, and [ErrExists] if the
// id was used. When the outbox is full, pushes that had expired at p.Created are deleted first;
// [Outbox.Expire] does not count those.
func (t Outbox) Add(ctx context.Context, p Push) error {
	if len(p.Body) > MaxPush {
		return ErrTooLarge
	}
	if len(p.Body) == 0 {
		p.Body = json.RawMessage(`{}`)
	}
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		// The lock makes concurrent calls count each other's pushes.
		var number, waiting int64
		if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT number FROM devices WHERE number = $1`,
			"FOR NO KEY UPDATE"), p.Device).Scan(&number); err != nil {
			return err
		}
		count := func() error {
			return tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM device_outbox WHERE device = $1`,
				p.Device).Scan(&waiting)
		}
		if err := count(); err != nil {
			return err
		}
		if waiting >= MaxPushes {
			if _, err := tx.ExecContext(ctx, `DELETE FROM device_outbox WHERE device = $1 AND expires_at <= $2`,
				p.Device, millis(p.Created)); err != nil {
				return err
			}
			if err := count(); err != nil {
				return err
			}
		}
		if waiting >= MaxPushes {
			return ErrFull
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO device_outbox (`+pushColumns+
			`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			sanitizeArgs([]any{p.ID, p.Device, p.Kind, string(p.Body), p.Person, p.Key, millis(p.Created),
				millis(p.Expires)})...)
		return err
	})
}

// For lists the pushes of a device that have not expired, oldest first.
func (t Outbox) For(ctx context.Context, device int64, now time.Time) ([]Push, error) {
	return all(ctx, t.db, readPush, `SELECT `+pushColumns+
		` FROM device_outbox WHERE device = $1 AND expires_at > $2 ORDER BY id`, device, millis(now))
}

// Remove deletes delivered pushes. Missing ones are not an error.
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

// Expire deletes expired pushes and returns how many were deleted undelivered.
func (t Outbox) Expire(ctx context.Context, now time.Time) (int64, error) {
	return t.db.execInBatches(ctx,
		`DELETE FROM device_outbox WHERE id IN (SELECT id FROM device_outbox WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)`, millis(now))
}
