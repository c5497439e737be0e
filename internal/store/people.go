package store

import (
	"context"
	"time"
)

// Person is somebody with an account.
type Person struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"` // unique
	Role     string    `json:"role"` // admin or member
	Lang     string    `json:"lang"`
	Password string    `json:"-"` // argon2id hash; empty: cannot sign in with a password
	Created  time.Time `json:"created_at"`
}

// People is the table of persons.
type People struct{ db *DB }

const personColumns = `id, name, role, lang, password, created_at`

func readPerson(s scanner) (p Person, err error) {
	var created int64
	err = s.Scan(&p.ID, &p.Name, &p.Role, &p.Lang, &p.Password, &created)
	p.Created = fromMillis(created)
	return p, err
}

// Add inserts a person; a name that is taken is [ErrExists].
func (t People) Add(ctx context.Context, p Person) error {
	_, err := t.db.exec(ctx, `INSERT INTO people (`+personColumns+`) VALUES ($1, $2, $3, $4, $5, $6)`,
		p.ID, p.Name, p.Role, p.Lang, p.Password, millis(p.Created))
	return err
}

// SetPassword replaces a person's password hash.
func (t People) SetPassword(ctx context.Context, id, hash string) error {
	return t.db.execOne(ctx, `UPDATE people SET password = $1 WHERE id = $2`, hash, id)
}

// ByName finds a person by name.
func (t People) ByName(ctx context.Context, name string) (Person, error) {
	return one(ctx, t.db, readPerson, `SELECT `+personColumns+` FROM people WHERE name = $1`, name)
}

// ByID finds a person by id.
func (t People) ByID(ctx context.Context, id string) (Person, error) {
	return one(ctx, t.db, readPerson, `SELECT `+personColumns+` FROM people WHERE id = $1`, id)
}

// All lists everybody by name, 1,000 at most.
func (t People) All(ctx context.Context) ([]Person, error) {
	return all(ctx, t.db, readPerson, `SELECT `+personColumns+` FROM people ORDER BY name LIMIT 1000`)
}
