package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"
)

// Person is an account.
type Person struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"` // unique
	Role     string    `json:"role"` // admin or member
	Lang     string    `json:"lang"`
	Password string    `json:"-"`              // argon2id hash; empty: cannot sign in with a password
	Zone     string    `json:"zone,omitempty"` // IANA time zone name; empty: the server's
	Created  time.Time `json:"created_at"`
	// Limits are what an administrator lets the person do.
	Limits PersonLimits `json:"limits"`
	// Paused is since when the person, their programs and devices are refused; zero: they are not.
	Paused time.Time `json:"paused_at,omitzero"`
}

// PersonLimits bound what a person may do; the zero value is no limit.
type PersonLimits struct {
	// Questions is the most that bots answer in a day, which begins at midnight in the person's
	// time zone; 0: no limit.
	Questions int `json:"questions_per_day,omitempty"`
	// SharedOnly means that the person adds no bots, tool servers and keys, and lets no programs
	// in.
	SharedOnly bool `json:"shared_only,omitempty"`
	// AllowTools and DenyTools are patterns of the tools that may be called by the person, and for
	// them: only these (empty: all), and never these.
	AllowTools []string `json:"allow_tools,omitempty"`
	DenyTools  []string `json:"deny_tools,omitempty"`
}

// IsZero reports whether there is no limit.
func (l PersonLimits) IsZero() bool {
	return l.Questions == 0 && !l.SharedOnly && len(l.AllowTools) == 0 && len(l.DenyTools) == 0
}

// People accesses the table of accounts.
type People struct{ db *DB }

const personColumns = `id, name, role, lang, password, created_at, zone, limits, paused_at`

// listPeople lists all people by name, at most 1,000.
const listPeople = `SELECT ` + personColumns + ` FROM people ORDER BY name LIMIT 1000`

func readPerson(s scanner) (p Person, err error) {
	var created, paused int64
	var limits string
	err = s.Scan(&p.ID, &p.Name, &p.Role, &p.Lang, &p.Password, &created, &p.Zone, &limits, &paused)
	p.Created = fromMillis(created)
	if paused != 0 {
		p.Paused = fromMillis(paused)
	}
	if err == nil && limits != "" {
		err = json.Unmarshal([]byte(limits), &p.Limits)
	}
	return p, err
}

// Add inserts a person. It returns [ErrExists] if the name is taken.
func (t People) Add(ctx context.Context, p Person) error {
	_, err := t.db.exec(ctx, addPerson, p.fields()...)
	return err
}

const addPerson = `INSERT INTO people (` + personColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0)`

func (p Person) fields() []any {
	return sanitizeArgs([]any{p.ID, p.Name, p.Role, p.Lang, p.Password, millis(p.Created), p.Zone, p.Limits.text()})
}

// text returns the limits as they are stored.
func (l PersonLimits) text() string {
	if l.IsZero() {
		return ""
	}
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // of numbers and texts
	}
	return string(text)
}

// AddChecked inserts a person, unless check returns an error. check gets all existing people, and
// no other AddChecked or SetProfile runs concurrently. check may still change p.
func (t People) AddChecked(ctx context.Context, p *Person, check func([]Person) error) error {
	return t.changeChecked(ctx, check, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, addPerson, p.fields()...)
		return err
	})
}

// changeChecked runs check on all people and then change, in one transaction that excludes other
// calls of changeChecked.
func (t People) changeChecked(ctx context.Context, check func([]Person) error, change func(*sql.Tx) error) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		var value int64
		if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT value FROM counters WHERE name = 'bot'`,
			"FOR UPDATE")).Scan(&value); err != nil {
			return err
		}
		everybody, err := readPeople(tx.QueryContext(ctx, listPeople))
		if err != nil {
			return err
		}
		if err := check(everybody); err != nil {
			return err
		}
		return change(tx)
	})
}

func readPeople(rows *sql.Rows, err error) (people []Person, _ error) {
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

// SetPassword replaces a person's password hash, and ends an invitation of theirs.
func (t People) SetPassword(ctx context.Context, id, hash string) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM invitations WHERE person = $1`, id); err != nil {
			return err
		}
		return changed(tx.ExecContext(ctx, `UPDATE people SET password = $1 WHERE id = $2`, hash, id))
	})
}

// SetProfile replaces a person's name, language and time zone, unless check, as in
// [People.AddChecked], returns an error. It returns [ErrExists] if the name is taken.
func (t People) SetProfile(ctx context.Context, p Person, check func([]Person) error) error {
	return t.changeChecked(ctx, check, func(tx *sql.Tx) error {
		// Instances read the time zone of people with limits anew.
		if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'tools'`); err != nil {
			return err
		}
		args := sanitizeArgs([]any{p.Name, p.Lang, p.Zone, p.ID})
		return changed(tx.ExecContext(ctx, `UPDATE people SET name = $1, lang = $2, zone = $3 WHERE id = $4`, args...))
	})
}

// SetRole changes a person's role, and ends invitations of and by the person. Instances restart the
// person's tool servers, because the role determines whether those may run commands and use private
// addresses. Without the role needed the person shares none, and the sign-ins of others to them are
// deleted. It returns [ErrLast] if nobody would be left with that role.
func (t People) SetRole(ctx context.Context, id, role, needed string) error {
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		if role != needed {
			if err := t.requireOther(ctx, tx, id, needed); err != nil {
				return err
			}
		}
		if err := changed(tx.ExecContext(ctx, `UPDATE people SET role = $1 WHERE id = $2`, role, id)); err != nil {
			return err
		}
		queries := []string{
			endInvitations,
			`UPDATE upstreams SET version = version + 1 WHERE owner = $1`,
			`UPDATE counters SET value = value + 1 WHERE name = 'tools' AND $1 <> ''`,
		}
		if role != needed { // what the person shares is not shared any more
			queries = append(queries, `DELETE FROM upstream_signins WHERE person <> $1
				AND upstream IN (SELECT number FROM upstreams WHERE owner = $1)`)
		}
		for _, query := range queries {
			if _, err := tx.ExecContext(ctx, query, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// requireOther returns ErrLast if the person but is the only one with a role who is not paused, and
// locks those who have it until the transaction ends. The lock does not block inserts that
// reference them.
func (t People) requireOther(ctx context.Context, tx *sql.Tx, but, role string) error {
	rows, err := tx.QueryContext(ctx, t.db.locking(`SELECT id, paused_at FROM people WHERE role = $1 ORDER BY id`,
		"FOR NO KEY UPDATE"), role)
	if err != nil {
		return err
	}
	defer rows.Close()
	has, others := false, 0
	for rows.Next() {
		var id string
		var paused int64
		if err := rows.Scan(&id, &paused); err != nil {
			return err
		}
		switch {
		case id == but:
			has = true
		case paused == 0:
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

// Remove deletes a person with all their data, in one transaction. Running instances notice by the
// version counters that the person's tools, devices and peers are gone. It returns [ErrLast] as
// [People.SetRole] does.
func (t People) Remove(ctx context.Context, id, needed string) error {
	ctx = longRunning(ctx)
	if err := t.forgetRecordings(ctx, id, needed); err != nil {
		return err
	}
	return retryDeadlock(func() error {
		return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
			if err := t.requireOther(ctx, tx, id, needed); err != nil {
				return err
			}
			// From here on nothing is recorded for the person, see personExists.
			var person string
			switch err := tx.QueryRowContext(ctx, t.db.locking(`SELECT id FROM people WHERE id = $1`, "FOR UPDATE"),
				id).Scan(&person); {
			case errors.Is(err, sql.ErrNoRows):
				return ErrNotFound
			case err != nil:
				return err
			}
			// SQLite's full-text table has no foreign keys.
			if err := t.db.dropWords(ctx, tx, `person = $1`, id); err != nil {
				return err
			}
			// Records and code attempts refer to the person without a foreign key.
			for _, query := range []string{
				endInvitations,
				`DELETE FROM traces WHERE owner = $1`,
				`DELETE FROM exchanges WHERE acts_for = $1 AND acts_for <> ''`,
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
			if err := t.db.addNoteLink(ctx, tx, linkPerson, id, linkNote{Calls: calls}); err != nil {
				return err
			}
			if err := changed(tx.ExecContext(ctx, `DELETE FROM people WHERE id = $1`, id)); err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx,
				`UPDATE counters SET value = value + 1 WHERE name IN ('tools', 'devices', 'peers')`)
			return err
		})
	})
}

// forgetRecordings deletes the recordings of a person who is to be removed. They are large, so that
// is done in batches, and not if the person cannot be removed.
func (t People) forgetRecordings(ctx context.Context, id, needed string) error {
	if err := t.db.tx(ctx, func(tx *sql.Tx) error { return t.requireOther(ctx, tx, id, needed) }); err != nil {
		return err
	}
	_, err := t.db.Recordings.Forget(ctx, id, 0)
	return err
}

// personExists reports whether a person still has an account, and prevents the removal until the
// transaction ends. Without it, records without a foreign key that are written during a removal
// would stay forever. A person who is being removed counts as removed. The empty person stands for
// the operator of the machine, and always exists.
func (db *DB) personExists(ctx context.Context, tx *sql.Tx, person string) (bool, error) {
	if person == "" {
		return true, nil
	}
	err := tx.QueryRowContext(ctx, db.locking(`SELECT id FROM people WHERE id = $1`, "FOR KEY SHARE SKIP LOCKED"),
		person).Scan(&person)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// ByName returns a person by name.
func (t People) ByName(ctx context.Context, name string) (Person, error) {
	return one(ctx, t.db, readPerson, `SELECT `+personColumns+` FROM people WHERE name = $1`, name)
}

// ByID returns a person by id.
func (t People) ByID(ctx context.Context, id string) (Person, error) {
	return readCached(ctx, t.db, cacheKey{"people", id}, func(ctx context.Context) (Person, error) {
		return one(ctx, t.db, readPerson, `SELECT `+personColumns+` FROM people WHERE id = $1`, id)
	})
}

// All lists all people by name, at most 1,000.
func (t People) All(ctx context.Context) ([]Person, error) {
	return all(ctx, t.db, readPerson, listPeople)
}
