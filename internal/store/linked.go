package store

import (
	"context"
	"database/sql"
	"time"
)

// Linked is a person of an OpenID provider, as whom a person here may sign in.
type Linked struct {
	Issuer  string    `json:"issuer"`
	Subject string    `json:"subject"`
	Person  string    `json:"person"` // id
	Label   string    `json:"label"`  // what the provider calls them
	Created time.Time `json:"created_at"`
	Used    time.Time `json:"used_at"`
}

// OIDCRound is a browser that is at the provider.
type OIDCRound struct {
	ID      string // hash of the state
	Browser string // hash of what the browser keeps
	Address string // from which it was begun
	Purpose string
	Person  string // who confirms or links; empty: somebody signs in
	SignIn  string // of that person
	Nonce   string
	// Verifier is useless to readers of the database: the provider wants the code beside it.
	Verifier string
	Redirect string
	Next     string
	Pending  string // sealed form that waits; empty: none
	Created  time.Time
	Expires  time.Time
}

// LinkedPeople accesses the tables of people of OpenID providers, and of browsers that are there.
type LinkedPeople struct{ db *DB }

const linkedColumns = `issuer, subject, person, label, created_at, used_at`

func readLinked(s scanner) (l Linked, err error) {
	var created, used int64
	err = s.Scan(&l.Issuer, &l.Subject, &l.Person, &l.Label, &created, &used)
	l.Created, l.Used = fromMillis(created), fromMillis(used)
	return l, err
}

func (l Linked) fields() []any {
	return sanitizeArgs([]any{l.Issuer, l.Subject, l.Person, l.Label, millis(l.Created), millis(l.Used)})
}

const addLinked = `INSERT INTO linked (` + linkedColumns + `) VALUES ($1, $2, $3, $4, $5, $6)`

// Get returns who a subject of an issuer is.
func (t LinkedPeople) Get(ctx context.Context, issuer, subject string) (Linked, error) {
	return one(ctx, t.db, readLinked, `SELECT `+linkedColumns+` FROM linked WHERE issuer = $1 AND subject = $2`,
		issuer, subject)
}

// List lists those of a person, or of everybody for an empty person, at most 1,000.
func (t LinkedPeople) List(ctx context.Context, person string) ([]Linked, error) {
	return all(ctx, t.db, readLinked, `SELECT `+linkedColumns+` FROM linked WHERE $1 = '' OR person = $1
		ORDER BY created_at, subject LIMIT 1000`, person)
}

// Has reports whether a person is linked to a subject of an issuer.
func (t LinkedPeople) Has(ctx context.Context, person, issuer string) (bool, error) {
	var n int
	err := t.db.r.QueryRowContext(ctx, `SELECT COUNT(*) FROM linked WHERE person = $1 AND issuer = $2`, person,
		issuer).Scan(&n)
	return n > 0, translate(err)
}

// CountAdmins returns how many people with a role are linked to a subject of an issuer.
func (t LinkedPeople) CountAdmins(ctx context.Context, issuer, role string) (n int, err error) {
	err = t.db.r.QueryRowContext(ctx, `SELECT COUNT(*) FROM people WHERE role = $1 AND id IN (
		SELECT person FROM linked WHERE issuer = $2)`, role, issuer).Scan(&n)
	return n, translate(err)
}

// Add links a person. It returns [ErrExists] if the subject is linked already, and [ErrLast] if the
// person has as many links as most.
func (t LinkedPeople) Add(ctx context.Context, l Linked, most int) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM linked WHERE person = $1`, l.Person).Scan(&n); err != nil {
			return err
		}
		if n >= most {
			return ErrLast
		}
		_, err := tx.ExecContext(ctx, addLinked, l.fields()...)
		return err
	})
}

// AddPerson adds a person as [People.AddChecked] does, linked to a subject.
func (t LinkedPeople) AddPerson(ctx context.Context, p *Person, l Linked, check func([]Person) error) error {
	return t.db.People.changeChecked(ctx, check, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, addPerson, p.fields()...); err != nil {
			return err
		}
		l.Person = p.ID
		_, err := tx.ExecContext(ctx, addLinked, l.fields()...)
		return err
	})
}

// MarkUsed notes a sign-in, and what the provider calls the person now.
func (t LinkedPeople) MarkUsed(ctx context.Context, l Linked) error {
	args := sanitizeArgs([]any{l.Label, millis(l.Used), l.Issuer, l.Subject})
	return t.db.execOne(ctx, `UPDATE linked SET label = $1, used_at = $2 WHERE issuer = $3 AND subject = $4`, args...)
}

// Remove removes a link.
func (t LinkedPeople) Remove(ctx context.Context, issuer, subject string) error {
	return t.db.execOne(ctx, `DELETE FROM linked WHERE issuer = $1 AND subject = $2`, issuer, subject)
}

const roundColumns = `id, browser, address, purpose, person, sign_in, nonce, verifier, redirect, next, pending,
	created_at, expires_at`

func readRound(s scanner) (r OIDCRound, err error) {
	var person sql.NullString
	var created, expires int64
	err = s.Scan(&r.ID, &r.Browser, &r.Address, &r.Purpose, &person, &r.SignIn, &r.Nonce, &r.Verifier, &r.Redirect,
		&r.Next, &r.Pending, &created, &expires)
	r.Person, r.Created, r.Expires = person.String, fromMillis(created), fromMillis(expires)
	return r, err
}

// AddRound stores that a browser goes to the provider, and forgets the oldest rounds of its address
// beyond most.
func (t LinkedPeople) AddRound(ctx context.Context, r OIDCRound, most int) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		args := sanitizeArgs([]any{r.ID, r.Browser, r.Address, r.Purpose, nullString(r.Person), r.SignIn, r.Nonce,
			r.Verifier, r.Redirect, r.Next, r.Pending, millis(r.Created), millis(r.Expires)})
		if _, err := tx.ExecContext(ctx, `INSERT INTO oidc_rounds (`+roundColumns+
			`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`, args...); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM oidc_rounds WHERE address = $1 AND id NOT IN (
			SELECT id FROM oidc_rounds WHERE address = $1 ORDER BY created_at DESC, id LIMIT $2)`, r.Address, most)
		return err
	})
}

// Round returns a round.
func (t LinkedPeople) Round(ctx context.Context, id string) (OIDCRound, error) {
	return one(ctx, t.db, readRound, `SELECT `+roundColumns+` FROM oidc_rounds WHERE id = $1`, id)
}

// TakeRound removes a round. Of several concurrent calls one succeeds, the others get
// [ErrNotFound].
func (t LinkedPeople) TakeRound(ctx context.Context, id string) error {
	return t.db.execOne(ctx, `DELETE FROM oidc_rounds WHERE id = $1`, id)
}
