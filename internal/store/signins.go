package store

import (
	"context"
	"database/sql"
	"time"
)

// SignIn is a browser session of a person.
type SignIn struct {
	ID        string    `json:"-"` // hash of the browser's token
	Person    string    `json:"person"`
	Agent     string    `json:"agent"`   // User-Agent of the browser
	Address   string    `json:"address"` // IP address of its last use
	Created   time.Time `json:"created_at"`
	Seen      time.Time `json:"seen_at"`
	Confirmed time.Time `json:"confirmed_at"` // when the password was last entered
}

// SignInIdle is the idle time after which a browser must sign in again.
const SignInIdle = 30 * 24 * time.Hour

// SignIns accesses the table of browser sessions.
type SignIns struct{ db *DB }

const signInColumns = `id, person, agent, address, created_at, seen_at, confirmed_at`

func readSignIn(s scanner) (x SignIn, err error) {
	var created, seen, confirmed int64
	err = s.Scan(&x.ID, &x.Person, &x.Agent, &x.Address, &created, &seen, &confirmed)
	x.Created, x.Seen, x.Confirmed = fromMillis(created), fromMillis(seen), fromMillis(confirmed)
	return x, err
}

// Add stores a sign-in, and ends the person's least recently used ones beyond most.
func (t SignIns) Add(ctx context.Context, x SignIn, most int) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO sign_ins (`+signInColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			x.ID, x.Person, x.Agent, x.Address, millis(x.Created), millis(x.Seen), millis(x.Confirmed)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM sign_ins WHERE person = $1 AND id NOT IN (
			SELECT id FROM sign_ins WHERE person = $1 ORDER BY seen_at DESC, id LIMIT $2)`, x.Person, most)
		return err
	})
}

// ByID returns a sign-in by the hash of its token.
func (t SignIns) ByID(ctx context.Context, id string) (SignIn, error) {
	return one(ctx, t.db, readSignIn, `SELECT `+signInColumns+` FROM sign_ins WHERE id = $1`, id)
}

// ByPerson lists a person's sign-ins, most recently used first.
func (t SignIns) ByPerson(ctx context.Context, person string) ([]SignIn, error) {
	return all(ctx, t.db, readSignIn, `SELECT `+signInColumns+
		` FROM sign_ins WHERE person = $1 ORDER BY seen_at DESC, id`, person)
}

// Seen records the use of a sign-in from an address.
func (t SignIns) Seen(ctx context.Context, id, address string, at time.Time) error {
	return t.db.execOne(ctx, `UPDATE sign_ins SET seen_at = $1, address = $2 WHERE id = $3`, millis(at), address, id)
}

// Replace changes the token of a sign-in that has just been confirmed by password.
func (t SignIns) Replace(ctx context.Context, id, by string, at time.Time) error {
	return t.db.execOne(ctx, `UPDATE sign_ins SET id = $1, seen_at = $2, confirmed_at = $2 WHERE id = $3`, by,
		millis(at), id)
}

// Rename changes the token of a sign-in. It stays as confirmed as it was.
func (t SignIns) Rename(ctx context.Context, id, by string) error {
	return t.db.execOne(ctx, `UPDATE sign_ins SET id = $1 WHERE id = $2`, by, id)
}

// Unconfirm makes a person confirm again in all browsers except one.
func (t SignIns) Unconfirm(ctx context.Context, person, but string) error {
	_, err := t.db.exec(ctx, `UPDATE sign_ins SET confirmed_at = 0 WHERE person = $1 AND id <> $2`, person, but)
	return err
}

// Remove ends a person's sign-in.
func (t SignIns) Remove(ctx context.Context, person, id string) error {
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `DELETE FROM sign_ins WHERE person = $1 AND id = $2`, person, id))
	})
}

// RemoveOthers ends all sign-ins of a person except one, or all if but is empty, and the access of
// all programs that the person let in by OAuth, as whoever was signed in may have done so. It
// returns the number of sign-ins.
func (t SignIns) RemoveOthers(ctx context.Context, person, but string, at time.Time) (n int64, err error) {
	err = t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		n, err = endSignIns(ctx, tx, person, but, at)
		return err
	})
	return n, err
}

// endSignIns is [SignIns.RemoveOthers] in a transaction.
func endSignIns(ctx context.Context, tx *sql.Tx, person, but string, at time.Time) (int64, error) {
	// Codes first: the exchange of one holds its row until the key is there.
	if _, err := tx.ExecContext(ctx, `DELETE FROM oauth_requests WHERE person = $1`, person); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE keys SET revoked_at = $1 WHERE person = $2 AND client <> ''
		AND revoked_at IS NULL`, millis(at), person); err != nil {
		return 0, err
	}
	return affected(tx.ExecContext(ctx, `DELETE FROM sign_ins WHERE person = $1 AND id <> $2`, person, but))
}

// Try counts an attempt under a key before it is made, so that concurrent attempts on several
// instances count too. It reports whether there were fewer than most in the window that began after
// since; otherwise nothing is counted.
func (t SignIns) Try(ctx context.Context, key string, most int, now, since time.Time) (bool, error) {
	n, err := t.db.exec(ctx, `INSERT INTO sign_in_tries (key, began_at, tries) VALUES ($1, $2, 1)
		ON CONFLICT (key) DO UPDATE SET
			tries = CASE WHEN sign_in_tries.began_at <= $3 THEN 1 ELSE sign_in_tries.tries + 1 END,
			began_at = CASE WHEN sign_in_tries.began_at <= $3 THEN $2 ELSE sign_in_tries.began_at END
		WHERE sign_in_tries.began_at <= $3 OR sign_in_tries.tries < $4`, key, millis(now), millis(since), most)
	return n > 0, err
}

// GiveBack takes back one attempt under a key, after a correct password.
func (t SignIns) GiveBack(ctx context.Context, key string) error {
	_, err := t.db.exec(ctx, `UPDATE sign_in_tries SET tries = tries - 1 WHERE key = $1 AND tries > 0`, key)
	return err
}
