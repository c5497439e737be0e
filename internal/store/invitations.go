package store

import (
	"context"
	"database/sql"
	"time"
)

// Invitation is a link with which a person chooses the password of an account that was made for
// them.
type Invitation struct {
	Person  string // id
	Hash    string // of the secret in the link
	By      string // id of the person who made it; empty: the operator of this machine
	Created time.Time
	Expires time.Time
}

// endInvitations ends the invitations of a person, and those that the person has made.
const endInvitations = `DELETE FROM invitations WHERE person = $1 OR created_by = $1`

// Invitations accesses the table of invitations.
type Invitations struct{ db *DB }

const invitationColumns = `person, hash, created_by, created_at, expires_at`

func readInvitation(s scanner) (i Invitation, err error) {
	var created, expires int64
	err = s.Scan(&i.Person, &i.Hash, &i.By, &created, &expires)
	i.Created, i.Expires = fromMillis(created), fromMillis(expires)
	return i, err
}

// Save keeps an invitation in place of the person's previous one.
func (t Invitations) Save(ctx context.Context, i Invitation) error {
	_, err := t.db.exec(ctx, `INSERT INTO invitations (`+invitationColumns+`) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (person) DO UPDATE SET hash = excluded.hash, created_by = excluded.created_by,
			created_at = excluded.created_at, expires_at = excluded.expires_at`,
		i.Person, i.Hash, i.By, millis(i.Created), millis(i.Expires))
	return err
}

// ByHash returns the invitation with a secret of this hash.
func (t Invitations) ByHash(ctx context.Context, hash string) (Invitation, error) {
	return one(ctx, t.db, readInvitation, `SELECT `+invitationColumns+` FROM invitations WHERE hash = $1`, hash)
}

// Open lists the invitations that have not expired, by the id of the person.
func (t Invitations) Open(ctx context.Context, now time.Time) (map[string]Invitation, error) {
	list, err := all(ctx, t.db, readInvitation, `SELECT `+invitationColumns+` FROM invitations WHERE expires_at > $1`,
		millis(now))
	out := make(map[string]Invitation, len(list))
	for _, i := range list {
		out[i.Person] = i
	}
	return out, err
}

// Accept deletes an invitation and sets the password of its person, ending what
// [SignIns.RemoveOthers] ends. It returns [ErrNotFound] if it is gone or has expired.
func (t Invitations) Accept(ctx context.Context, hash, password, zone string, now time.Time) error {
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		var person string
		if err := tx.QueryRowContext(ctx, `DELETE FROM invitations WHERE hash = $1 AND expires_at > $2 RETURNING person`,
			hash, millis(now)).Scan(&person); err != nil {
			return err
		}
		if _, err := endSignIns(ctx, tx, person, "", now); err != nil {
			return err
		}
		// Instances read the time zone of people with limits anew.
		if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'tools'`); err != nil {
			return err
		}
		return changed(tx.ExecContext(ctx, `UPDATE people SET password = $2, zone = CASE WHEN password = '' AND zone = ''
			THEN $3 ELSE zone END WHERE id = $1`, person, password, zone))
	})
}

// Withdraw deletes the invitation of a person.
func (t Invitations) Withdraw(ctx context.Context, person string) error {
	return t.db.execOne(ctx, `DELETE FROM invitations WHERE person = $1`, person)
}
