package store

import (
	"context"
	"database/sql"
)

// OnAccess sets a function that is called after each change of access rights made through this DB.
// Set it before other goroutines use the DB.
func (db *DB) OnAccess(f func()) { db.onAccess = f }

// AccessVersion returns a counter that grows whenever a key or a sign-in ends or changes, or a
// person gets another role or is removed, on any instance.
func (db *DB) AccessVersion(ctx context.Context) (int64, error) {
	return one(ctx, db, func(s scanner) (v int64, err error) { return v, s.Scan(&v) },
		`SELECT value FROM counters WHERE name = 'access'`)
}

// changeAccess runs f in a transaction and increments the access version.
func (db *DB) changeAccess(ctx context.Context, f func(*sql.Tx) error) error {
	err := db.tx(ctx, func(tx *sql.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'access'`)
		return err
	})
	db.accessChanged(err)
	return err
}

func (db *DB) accessChanged(err error) {
	if err == nil && db.onAccess != nil {
		db.onAccess()
	}
}
