package store

import (
	"context"
	"time"
)

// Media accesses the table of pictures stored for a short time, so that a bot on another machine
// can fetch them. Each is found by the hash of a secret token.
type Media struct{ db *DB }

// Picture is a stored picture.
type Picture struct {
	MIME    string
	Data    []byte
	Expires time.Time
}

// Add stores a picture.
func (t Media) Add(ctx context.Context, tokenHash string, p Picture, now time.Time) error {
	_, err := t.db.exec(ctx,
		`INSERT INTO media (token_hash, mime, data, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)`,
		tokenHash, p.MIME, p.Data, millis(now), millis(p.Expires))
	return err
}

// Get returns a picture that has not expired.
func (t Media) Get(ctx context.Context, tokenHash string, now time.Time) (Picture, error) {
	return one(ctx, t.db, func(s scanner) (p Picture, err error) {
		var expires int64
		err = s.Scan(&p.MIME, &p.Data, &expires)
		p.Expires = fromMillis(expires)
		return p, err
	}, `SELECT mime, data, expires_at FROM media WHERE token_hash = $1 AND expires_at > $2`, tokenHash, millis(now))
}
