package store

import (
	"context"
	"database/sql"
	"time"
)

// Authenticator is the app of a person that shows codes for signing in.
type Authenticator struct {
	Person   string
	Secret   string // sealed
	Created  time.Time
	LastStep int64 // time step of the last accepted code
}

// Authenticators accesses the tables of authenticators and recovery codes.
type Authenticators struct{ db *DB }

const authenticatorColumns = `person, secret, created_at, last_step`

func readAuthenticator(s scanner) (x Authenticator, err error) {
	var created int64
	err = s.Scan(&x.Person, &x.Secret, &created, &x.LastStep)
	x.Created = fromMillis(created)
	return x, err
}

// Add stores an authenticator and the hashes of its recovery codes, in place of those before.
func (t Authenticators) Add(ctx context.Context, x Authenticator, codes []string) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO authenticators (person, secret, created_at, last_step)
			VALUES ($1, $2, $3, $4) ON CONFLICT (person) DO UPDATE SET secret = excluded.secret,
			created_at = excluded.created_at, last_step = excluded.last_step`,
			x.Person, x.Secret, millis(x.Created), x.LastStep); err != nil {
			return err
		}
		return replaceCodes(ctx, tx, x.Person, codes)
	})
}

// ByPerson returns the authenticator of a person. The error is [ErrNotFound] if there is none.
func (t Authenticators) ByPerson(ctx context.Context, person string) (Authenticator, error) {
	return one(ctx, t.db, readAuthenticator, `SELECT `+authenticatorColumns+
		` FROM authenticators WHERE person = $1`, person)
}

// SecondSteps are what a person has besides the password.
type SecondSteps struct {
	App      bool // an authenticator
	Passkeys int
	Recovery int // unused recovery codes
}

// Any reports whether the password is not enough.
func (x SecondSteps) Any() bool { return x.App || x.Passkeys > 0 }

// SecondSteps returns what a person has besides the password, by the id of the person, or with an
// empty id what everybody has.
func (t Authenticators) SecondSteps(ctx context.Context, person string) (map[string]SecondSteps, error) {
	type row struct {
		person string
		SecondSteps
	}
	rows, err := all(ctx, t.db, func(s scanner) (x row, err error) {
		var apps int
		err = s.Scan(&x.person, &apps, &x.Passkeys, &x.Recovery)
		x.App = apps > 0
		return x, err
	}, `SELECT id, (SELECT COUNT(*) FROM authenticators a WHERE a.person = p.id),
		(SELECT COUNT(*) FROM passkeys k WHERE k.person = p.id),
		(SELECT COUNT(*) FROM recovery_codes c WHERE c.person = p.id)
		FROM people p WHERE id = $1 OR $1 = ''`, person)
	byPerson := map[string]SecondSteps{}
	for _, x := range rows {
		byPerson[x.person] = x.SecondSteps
	}
	return byPerson, err
}

// UseStep records that the code of a time step was accepted, and reports whether it is later than
// the one before.
func (t Authenticators) UseStep(ctx context.Context, person string, step int64) (bool, error) {
	n, err := t.db.exec(ctx, `UPDATE authenticators SET last_step = $2 WHERE person = $1 AND last_step < $2`,
		person, step)
	return n > 0, err
}

// UseCode removes a recovery code, and reports whether it was there.
func (t Authenticators) UseCode(ctx context.Context, person, hash string) (bool, error) {
	n, err := t.db.exec(ctx, `DELETE FROM recovery_codes WHERE person = $1 AND hash = $2`, person, hash)
	return n > 0, err
}

// ReplaceCodes replaces the recovery codes of a person. The error is [ErrNotFound] if the person
// has neither an authenticator nor a passkey.
func (t Authenticators) ReplaceCodes(ctx context.Context, person string, codes []string) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		// The update holds the row, so that concurrent calls do not mix their codes.
		if err := changed(tx.ExecContext(ctx, `UPDATE people SET name = name WHERE id = $1
			AND (EXISTS (SELECT 1 FROM authenticators WHERE person = $1)
			OR EXISTS (SELECT 1 FROM passkeys WHERE person = $1))`, person)); err != nil {
			return err
		}
		return replaceCodes(ctx, tx, person, codes)
	})
}

func replaceCodes(ctx context.Context, tx *sql.Tx, person string, codes []string) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM recovery_codes WHERE person = $1`, person); err != nil {
		return err
	}
	for _, hash := range codes {
		if _, err := tx.ExecContext(ctx, `INSERT INTO recovery_codes (person, hash) VALUES ($1, $2)`, person,
			hash); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes the authenticator of a person, and the recovery codes if nothing is left that they
// replace.
func (t Authenticators) Remove(ctx context.Context, person string) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, `DELETE FROM authenticators WHERE person = $1`, person)); err != nil {
			return err
		}
		return removeNeedlessCodes(ctx, tx, person)
	})
}

// RemoveAll removes everything besides the password and the OpenID provider that a person signs in
// with: authenticator, passkeys and recovery codes. The error is [ErrNotFound] if there is nothing.
func (t Authenticators) RemoveAll(ctx context.Context, person string) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		var removed int64
		for _, table := range []string{"authenticators", "passkeys", "recovery_codes"} {
			n, err := affected(tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE person = $1`, person))
			if err != nil {
				return err
			}
			removed += n
		}
		if removed == 0 {
			return ErrNotFound
		}
		return nil
	})
}
