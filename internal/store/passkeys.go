package store

import (
	"context"
	"database/sql"
	"time"
)

// Passkey is a passkey of a person.
type Passkey struct {
	ID         string // of the authenticator, in base64url
	Person     string
	Name       string
	Credential []byte // JSON with the public key
	Created    time.Time
	Used       time.Time
}

// Passkeys accesses the table of passkeys.
type Passkeys struct{ db *DB }

const passkeyColumns = `id, person, name, credential, created_at, used_at`

func readPasskey(s scanner) (x Passkey, err error) {
	var created, used int64
	var credential string
	err = s.Scan(&x.ID, &x.Person, &x.Name, &credential, &created, &used)
	x.Credential, x.Created, x.Used = []byte(credential), fromMillis(created), fromMillis(used)
	return x, err
}

// Add stores a passkey of a person who has fewer than most, and the hashes of recovery codes if the
// person has none. It reports whether it stored the codes. The error is [ErrExists] if there is
// such a passkey, or [ErrNotFound] if there are too many.
func (t Passkeys) Add(ctx context.Context, x Passkey, most int, codes []string) (coded bool, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, `UPDATE people SET name = name WHERE id = $1
			AND (SELECT COUNT(*) FROM passkeys WHERE person = $1) < $2`, x.Person, most)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO passkeys (`+passkeyColumns+`) VALUES ($1, $2, $3, $4, $5, $6)`,
			x.ID, x.Person, x.Name, string(x.Credential), millis(x.Created), millis(x.Used)); err != nil {
			return err
		}
		var there int
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM recovery_codes WHERE person = $1`,
			x.Person).Scan(&there); err != nil || there > 0 {
			return err
		}
		coded = true
		return replaceCodes(ctx, tx, x.Person, codes)
	})
	return coded, err
}

// ByPerson lists the passkeys of a person, the oldest first.
func (t Passkeys) ByPerson(ctx context.Context, person string) ([]Passkey, error) {
	return all(ctx, t.db, readPasskey, `SELECT `+passkeyColumns+
		` FROM passkeys WHERE person = $1 ORDER BY created_at, id`, person)
}

// Has reports whether a person has a passkey, or with an empty person anybody.
func (t Passkeys) Has(ctx context.Context, person string) (bool, error) {
	return one(ctx, t.db, func(s scanner) (has bool, err error) { return has, s.Scan(&has) },
		`SELECT EXISTS (SELECT 1 FROM passkeys WHERE person = $1 OR $1 = '')`, person)
}

// MarkUsed stores what a use of a passkey has changed. The error is [ErrNotFound] if it was
// removed.
func (t Passkeys) MarkUsed(ctx context.Context, x Passkey) error {
	return t.db.execOne(ctx, `UPDATE passkeys SET credential = $2, used_at = $3 WHERE id = $1`, x.ID,
		string(x.Credential), millis(x.Used))
}

// Remove removes a passkey of a person, and the recovery codes if nothing is left that they
// replace.
func (t Passkeys) Remove(ctx context.Context, person, id string) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, `DELETE FROM passkeys WHERE person = $1 AND id = $2`, person,
			id)); err != nil {
			return err
		}
		return removeNeedlessCodes(ctx, tx, person)
	})
}

// removeNeedlessCodes removes the recovery codes of a person who has no authenticator and no
// passkey.
func removeNeedlessCodes(ctx context.Context, tx *sql.Tx, person string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM recovery_codes WHERE person = $1
		AND NOT EXISTS (SELECT 1 FROM authenticators WHERE person = $1)
		AND NOT EXISTS (SELECT 1 FROM passkeys WHERE person = $1)`, person)
	return err
}
