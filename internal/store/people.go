package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Person is somebody with an account.
type Person struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"` // unique
	Role     string    `json:"role"` // admin or member
	Lang     string    `json:"lang"`
	Password string    `json:"-"`              // argon2id hash; empty: cannot sign in with a password
	Zone     string    `json:"zone,omitempty"` // as the IANA names it; empty: the server's
	Created  time.Time `json:"created_at"`
}

// People is the table of persons.
type People struct{ db *DB }

const personColumns = `id, name, role, lang, password, created_at, zone`

// listPeople lists everybody, 1,000 at most.
const listPeople = `SELECT ` + personColumns + ` FROM people ORDER BY name LIMIT 1000`

func readPerson(s scanner) (p Person, err error) {
	var created int64
	err = s.Scan(&p.ID, &p.Name, &p.Role, &p.Lang, &p.Password, &created, &p.Zone)
	p.Created = fromMillis(created)
	return p, err
}

// Add inserts a person; a name that is taken is [ErrExists].
func (t People) Add(ctx context.Context, p Person) error {
	_, err := t.db.exec(ctx, addPerson, p.fields()...)
	return err
}

const addPerson = `INSERT INTO people (` + personColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7)`

func (p Person) fields() []any {
	return texts([]any{p.ID, p.Name, p.Role, p.Lang, p.Password, millis(p.Created), p.Zone})
}

// AddAmong inserts a person, unless check returns an error. Check gets everybody there is,
// and nobody else is added or renamed by check until it is done; it may still change p.
func (t People) AddAmong(ctx context.Context, p *Person, check func([]Person) error) error {
	return t.among(ctx, check, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, addPerson, p.fields()...)
		return err
	})
}

// among changes people in one step with a check of everybody there is.
func (t People) among(ctx context.Context, check func([]Person) error, change func(*sql.Tx) error) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		var value int64
		if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT value FROM counters WHERE name = 'bot'`, "FOR UPDATE")).Scan(&value); err != nil {
			return err
		}
		everybody, err := everyPerson(tx.QueryContext(ctx, listPeople))
		if err != nil {
			return err
		}
		if err := check(everybody); err != nil {
			return err
		}
		return change(tx)
	})
}

func everyPerson(rows *sql.Rows, err error) (people []Person, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		p, err := readPerson(rows)
		if err != nil {
			return nil, err
		}
		people = append(people, p)
	}
	return people, rows.Err()
}

// SetPassword replaces a person's password hash.
func (t People) SetPassword(ctx context.Context, id, hash string) error {
	return t.db.execOne(ctx, `UPDATE people SET password = $1 WHERE id = $2`, hash, id)
}

// SetProfile replaces what a person says of themselves: name, language and time zone,
// unless check, as for [People.AddAmong], returns an error. A name that is taken is
// [ErrExists].
func (t People) SetProfile(ctx context.Context, p Person, check func([]Person) error) error {
	return t.among(ctx, check, func(tx *sql.Tx) error {
		args := texts([]any{p.Name, p.Lang, p.Zone, p.ID})
		return changed(tx.ExecContext(ctx, `UPDATE people SET name = $1, lang = $2, zone = $3 WHERE id = $4`, args...))
	})
}

// SetRole gives a person another role. Instances begin anew with the person's tool servers,
// since the role says what those may be: commands, and private addresses. The error is [ErrLast] if nobody were left of
// the role that somebody has to have.
func (t People) SetRole(ctx context.Context, id, role, needed string) error {
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		if role != needed {
			if err := t.others(ctx, tx, id, needed); err != nil {
				return err
			}
		}
		if err := changed(tx.ExecContext(ctx, `UPDATE people SET role = $1 WHERE id = $2`, role, id)); err != nil {
			return err
		}
		for _, query := range []string{
			`UPDATE upstreams SET version = version + 1 WHERE owner = $1`,
			`UPDATE counters SET value = value + 1 WHERE name = 'tools' AND $1 <> ''`,
		} {
			if _, err := tx.ExecContext(ctx, query, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// others says whether somebody else has a role, and keeps it so until the transaction
// ends. It keeps nobody from recording something of theirs meanwhile.
func (t People) others(ctx context.Context, tx *sql.Tx, but, role string) error {
	rows, err := tx.QueryContext(ctx, t.db.locking(`SELECT id FROM people WHERE role = $1 ORDER BY id`, "FOR NO KEY UPDATE"), role)
	if err != nil {
		return err
	}
	defer rows.Close()
	has, others := false, 0
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		if id == but {
			has = true
		} else {
			others++
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if has && others == 0 {
		return ErrLast
	}
	return nil
}

// Remove deletes a person with everything that is theirs, in one step. Running
// instances find out by the counters that their bots' tools, devices and nodes are
// gone. The error is [ErrLast] as for [People.SetRole].
func (t People) Remove(ctx context.Context, id, needed string) error {
	ctx = patient(ctx)
	return unlocked(func() error {
		return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
			if err := t.others(ctx, tx, id, needed); err != nil {
				return err
			}
			// Nobody records anything of theirs from now on, see lives.
			var person string
			switch err := tx.QueryRowContext(ctx, t.db.locking(`SELECT id FROM people WHERE id = $1`, "FOR UPDATE"), id).Scan(&person); {
			case errors.Is(err, sql.ErrNoRows):
				return ErrNotFound
			case err != nil:
				return err
			}
			// The search of SQLite has no foreign keys.
			if err := t.db.dropWords(ctx, tx, `person = $1`, id); err != nil {
				return err
			}
			// Records and what wearers tried are kept by name of the person alone.
			for _, query := range []string{
				`DELETE FROM traces WHERE owner = $1`,
				`DELETE FROM bind_pending WHERE publisher = $1`,
				`DELETE FROM bind_tries WHERE publisher = $1`,
			} {
				if _, err := tx.ExecContext(ctx, query, id); err != nil {
					return err
				}
			}
			calls, err := affected(tx.ExecContext(ctx, `DELETE FROM calls WHERE person = $1`, id))
			if err != nil {
				return err
			}
			if err := t.db.chainNote(ctx, tx, linkPerson, id, linkNote{Calls: calls}); err != nil {
				return err
			}
			if err := changed(tx.ExecContext(ctx, `DELETE FROM people WHERE id = $1`, id)); err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name IN ('tools', 'devices', 'peers')`)
			return err
		})
	})
}

// lives says whether somebody has an account still, and keeps it so until the
// transaction ends: what is recorded by name of the person alone would stay for ever of
// who was removed while they were asking for something. Who is being removed has none;
// nobody is whoever runs the machine, and stays.
func (db *DB) lives(ctx context.Context, tx *sql.Tx, person string) (bool, error) {
	if person == "" {
		return true, nil
	}
	err := tx.QueryRowContext(ctx, db.locking(`SELECT id FROM people WHERE id = $1`, "FOR KEY SHARE SKIP LOCKED"), person).Scan(&person)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// ByName finds a person by name.
func (t People) ByName(ctx context.Context, name string) (Person, error) {
	return one(ctx, t.db, readPerson, `SELECT `+personColumns+` FROM people WHERE name = $1`, name)
}

// ByID finds a person by id.
func (t People) ByID(ctx context.Context, id string) (Person, error) {
	return recall(ctx, t.db, knownKey{"people", id}, func(ctx context.Context) (Person, error) {
		return one(ctx, t.db, readPerson, `SELECT `+personColumns+` FROM people WHERE id = $1`, id)
	})
}

// All lists everybody by name, 1,000 at most.
func (t People) All(ctx context.Context) ([]Person, error) {
	return all(ctx, t.db, readPerson, listPeople)
}
