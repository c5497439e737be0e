package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// SetLimits replaces what a person may do. Instances reload the tools that the person has.
func (t People) SetLimits(ctx context.Context, id string, l PersonLimits) error {
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, `UPDATE people SET limits = $2 WHERE id = $1`, id, l.text())); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'tools'`)
		return err
	})
}

// SetPaused pauses an account since a time, and ends its sign-ins; the zero time resumes it. It
// returns [ErrLast] if nobody with the needed role would be left who is not paused.
func (t People) SetPaused(ctx context.Context, id string, since time.Time, needed string) error {
	at := int64(0)
	if !since.IsZero() {
		at = millis(since)
	}
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		if at != 0 {
			if err := t.requireOther(ctx, tx, id, needed); err != nil {
				return err
			}
			for _, query := range []string{`DELETE FROM sign_ins WHERE person = $1`, endInvitations} {
				if _, err := tx.ExecContext(ctx, query, id); err != nil {
					return err
				}
			}
		}
		if err := changed(tx.ExecContext(ctx, `UPDATE people SET paused_at = $2 WHERE id = $1`, id, at)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name IN ('tools', 'devices', 'peers')`)
		return err
	})
}

// Restricted lists the people who have limits or are paused, by id.
func (t People) Restricted(ctx context.Context) (map[string]Person, error) {
	list, err := all(ctx, t.db, readPerson, `SELECT `+personColumns+` FROM people WHERE limits <> '' OR paused_at <> 0`)
	out := make(map[string]Person, len(list))
	for _, p := range list {
		out[p.ID] = p
	}
	return out, err
}

// TakeQuestion counts a question of a person on a day, such as 2026-11-28, unless most were counted
// on that day already. It reports whether it did. An earlier day than the last one, as in another
// time zone, counts as that.
func (t People) TakeQuestion(ctx context.Context, id, day string, most int) (bool, error) {
	n, err := t.db.exec(ctx, `INSERT INTO questions_asked (person, day, asked) VALUES ($1, $2, 1)
		ON CONFLICT (person) DO UPDATE SET
			asked = CASE WHEN questions_asked.day < excluded.day THEN 1 ELSE questions_asked.asked + 1 END,
			day = CASE WHEN questions_asked.day < excluded.day THEN excluded.day ELSE questions_asked.day END
		WHERE questions_asked.day < excluded.day OR questions_asked.asked < CAST($3 AS BIGINT)`, id, day, most)
	return n > 0, err
}

// QuestionsAsked returns how many questions were counted for a person on a day, as
// [People.TakeQuestion] counts.
func (t People) QuestionsAsked(ctx context.Context, id, day string) (int, error) {
	n, err := one(ctx, t.db, func(s scanner) (n int, err error) { return n, s.Scan(&n) },
		`SELECT asked FROM questions_asked WHERE person = $1 AND day >= $2`, id, day)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return n, err
}

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

// Accept deletes an invitation and sets the password of its person, ending all their sign-ins. It
// returns [ErrNotFound] if it is gone or has expired.
func (t Invitations) Accept(ctx context.Context, hash, password string, now time.Time) error {
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		var person string
		if err := tx.QueryRowContext(ctx, `DELETE FROM invitations WHERE hash = $1 AND expires_at > $2 RETURNING person`,
			hash, millis(now)).Scan(&person); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM sign_ins WHERE person = $1`, person); err != nil {
			return err
		}
		return changed(tx.ExecContext(ctx, `UPDATE people SET password = $2 WHERE id = $1`, person, password))
	})
}

// Withdraw deletes the invitation of a person.
func (t Invitations) Withdraw(ctx context.Context, person string) error {
	return t.db.execOne(ctx, `DELETE FROM invitations WHERE person = $1`, person)
}
