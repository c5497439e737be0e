package store

import (
	"context"
	"database/sql"
	"errors"
)

// UpstreamSignIn is what is known of a person's sign-in to a tool server.
type UpstreamSignIn struct {
	Upstream int64
	Person   string
	Sealed   string
	// State is the hash of the text by which the answer to a sign-in is found; empty: none has
	// begun.
	State   string
	Version int64 // 0: not stored yet
	// Connects means that a connection is kept for the person, if that is not the owner, who always
	// has one.
	Connects bool
}

// UpstreamSignIns accesses the table of sign-ins to tool servers.
type UpstreamSignIns struct{ db *DB }

const upstreamSignIn = `SELECT upstream, person, sealed, state, version, connects FROM upstream_signins `

func readUpstreamSignIn(s scanner) (r UpstreamSignIn, err error) {
	var state sql.NullString
	var connects int64
	err = s.Scan(&r.Upstream, &r.Person, &r.Sealed, &state, &r.Version, &connects)
	r.State, r.Connects = state.String, connects != 0
	return r, err
}

// Find returns a person's sign-in to a tool server, or [ErrNotFound].
func (t UpstreamSignIns) Find(ctx context.Context, upstream int64, person string) (UpstreamSignIn, error) {
	return one(ctx, t.db, readUpstreamSignIn, upstreamSignIn+`WHERE upstream = $1 AND person = $2`, upstream, person)
}

// ByState returns the sign-in that has begun with a text of this hash, or [ErrNotFound].
func (t UpstreamSignIns) ByState(ctx context.Context, hash string) (UpstreamSignIn, error) {
	return one(ctx, t.db, readUpstreamSignIn, upstreamSignIn+`WHERE state = $1`, hash)
}

// Save writes a sign-in, unless it has changed since it was read: then it returns [ErrExists]. If
// told is set, running instances notice. It returns [ErrNotFound] unless the person is the owner of
// the upstream, or it is shared with the person.
func (t UpstreamSignIns) Save(ctx context.Context, r UpstreamSignIn, told bool) error {
	change, step := t.db.tx, 0
	if told {
		change, step = t.db.changeTools, 1
	}
	connects := 0
	if r.Connects {
		connects = 1
	}
	return change(ctx, func(tx *sql.Tx) error {
		// The row of the upstream is locked first, as when it is removed, or no longer shared.
		if err := changed(tx.ExecContext(ctx, `UPDATE upstreams SET number = number WHERE number = $1 AND (owner = $2
			OR `+sharedWith("$2")+`)`, r.Upstream, r.Person)); err != nil {
			return err
		}
		// A row that was read and is gone does not come back.
		query := `INSERT INTO upstream_signins (upstream, person, sealed, state, version, told, connects)
			SELECT $1, $2, $3, $4, 1, $6, $7 WHERE $5 = 0 ON CONFLICT (upstream, person) DO NOTHING`
		if r.Version > 0 {
			query = `UPDATE upstream_signins SET sealed = $3, state = $4, version = version + 1, told = told + $6,
				connects = $7 WHERE upstream = $1 AND person = $2 AND version = $5`
		}
		res, err := tx.ExecContext(ctx, query, r.Upstream, r.Person, r.Sealed, nullString(r.State), r.Version, step,
			connects)
		if err = changed(res, err); errors.Is(err, ErrNotFound) {
			err = ErrExists
		}
		return err
	})
}
