package store

import (
	"context"
	"errors"
	"time"
)

// Limits say what is old.
type Limits struct {
	Traces    time.Time // traces that began before go
	Exchanges time.Time // exchanges that began before go
	Calls     time.Time // calls that began, and acts that were done, before go
	Now       time.Time // what has expired by now goes
}

// Used and expired invitations are kept for a day, so that a wearer who holds
// an old QR code is told what is wrong with it.
const tokenAfterlife = 24 * time.Hour

// Purge deletes what is old and returns how many rows went.
func (db *DB) Purge(ctx context.Context, l Limits) (int64, error) {
	var total int64
	var errs []error
	for _, d := range []struct {
		query  string
		before time.Time
	}{
		{`DELETE FROM traces WHERE at < $1`, l.Traces},
		{`DELETE FROM exchanges WHERE at < $1`, l.Exchanges},
		{`DELETE FROM pages WHERE at < $1`, l.Exchanges},
		{`DELETE FROM media WHERE expires_at < $1`, l.Now},
		{`DELETE FROM bind_tokens WHERE expires_at < $1`, l.Now.Add(-tokenAfterlife)},
		{`DELETE FROM learn_talks WHERE until_at < $1`, l.Now},
		{`DELETE FROM bind_pending WHERE expires_at < $1`, l.Now},
		{`DELETE FROM peer_requests WHERE kind = '` + RequestDevice + `' AND refreshed_at <= $1`, l.Now.Add(-PeerRequestLife)},
		{`DELETE FROM sign_ins WHERE seen_at < $1`, l.Now.Add(-SignInIdle)},
		{`DELETE FROM bind_tries WHERE tried_at < $1`, l.Now.Add(-time.Hour)},
		{`DELETE FROM sign_in_tries WHERE began_at < $1`, l.Now.Add(-time.Hour)},
	} {
		n, err := db.exec(ctx, d.query, millis(d.before))
		total += n
		errs = append(errs, err)
	}
	n, err := db.purgeAudit(ctx, l.Calls)
	total += n
	errs = append(errs, err)
	return total, errors.Join(errs...)
}
