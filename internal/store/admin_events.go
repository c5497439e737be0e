package store

import (
	"context"
	"database/sql"
	"time"
)

// AdminEvent is the record of a change that a person made to the installation or to their own data.
type AdminEvent struct {
	ID     string    `json:"id"` // later events have greater ids
	At     time.Time `json:"at"`
	Person string    `json:"person,omitempty"` // empty: a user of the command line
	Name   string    `json:"name,omitempty"`   // the person's name at that time
	Action string    `json:"action"`
	About  string    `json:"about,omitempty"` // the object of the action

	// key that authenticated the request; empty: a browser or the command line
	Key     string `json:"key,omitempty"`
	Address string `json:"address,omitempty"` // client IP address
	Channel string `json:"channel,omitempty"` // api, console, cli, oauth or openclaw
}

// AdminEvents is the table of admin events.
type AdminEvents struct{ db *DB }

const adminEventColumns = `id, at, person, name, action, about, key, address, channel`

var adminEventDigestNames = digestNames(adminEventColumns)

// values returns the column values of an event, in the order of adminEventColumns.
func (a *AdminEvent) values() []any {
	return sanitizeArgs([]any{a.ID, millis(a.At), a.Person, a.Name, a.Action, a.About, a.Key, a.Address, a.Channel})
}

// Add writes an event and its audit link.
func (t AdminEvents) Add(ctx context.Context, a AdminEvent) error {
	values := a.values()
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO admin_events (`+adminEventColumns+
			`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, values...)
		if err != nil {
			return err
		}
		return t.db.addLinks(ctx, tx, nil, []link{rowLink(linkAdminEvent, adminEventDigestNames, values)})
	})
}

func readAdminEvent(s scanner) (a AdminEvent, err error) {
	var at int64
	err = s.Scan(&a.ID, &at, &a.Person, &a.Name, &a.Action, &a.About, &a.Key, &a.Address, &a.Channel)
	a.At = fromMillis(at)
	return a, err
}

// Newest lists events, newest first; if before is not empty, only those with a smaller id.
func (t AdminEvents) Newest(ctx context.Context, before string, limit int) ([]AdminEvent, error) {
	return all(ctx, t.db, readAdminEvent, `SELECT `+adminEventColumns+
		` FROM admin_events WHERE $1 = '' OR id < $1 ORDER BY id DESC LIMIT $2`, before, limit)
}
