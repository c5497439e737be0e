package store

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// Act is something that somebody did to the installation, or to what is theirs in it.
type Act struct {
	ID     string    `json:"id"` // later ones are greater
	At     time.Time `json:"at"`
	Person string    `json:"person,omitempty"` // empty: whoever uses the command line
	Name   string    `json:"name,omitempty"`   // what they were called then
	Act    string    `json:"act"`
	About  string    `json:"about,omitempty"` // whom or what

	Key     string `json:"key,omitempty"`     // that was shown; empty: a browser, or the command line
	Address string `json:"address,omitempty"` // from which they came
	Door    string `json:"door,omitempty"`    // the way in: api, console or cli
}

// Acts is the journal of the installation.
type Acts struct{ db *DB }

const actColumns = `id, at, person, name, act, about, key, address, door`

var actNames = strings.Split(actColumns, ", ")

// values are what is kept of an act, column by column.
func (a *Act) values() []any {
	return texts([]any{a.ID, millis(a.At), a.Person, a.Name, a.Act, a.About, a.Key, a.Address, a.Door})
}

// Add keeps an act.
func (t Acts) Add(ctx context.Context, a Act) error {
	values := a.values()
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO acts (`+actColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, values...)
		if err != nil {
			return err
		}
		return t.db.chain(ctx, tx, nil, []link{rowLink(linkAct, actNames, values)})
	})
}

func readAct(s scanner) (a Act, err error) {
	var at int64
	err = s.Scan(&a.ID, &at, &a.Person, &a.Name, &a.Act, &a.About, &a.Key, &a.Address, &a.Door)
	a.At = fromMillis(at)
	return a, err
}

// Newest lists acts, the newest first, those before an id if it is not empty.
func (t Acts) Newest(ctx context.Context, before string, limit int) ([]Act, error) {
	return all(ctx, t.db, readAct, `SELECT `+actColumns+` FROM acts WHERE $1 = '' OR id < $1 ORDER BY id DESC LIMIT $2`, before, limit)
}
