package store

import (
	"context"
	"database/sql"
)

// OnAccess sets what is told, after each change of who may do what that is made through
// this DB, that there was one. It is set before the DB is used by several goroutines.
func (db *DB) OnAccess(f func()) { db.onAccess = f }

// AccessVersion grows whenever a key or a sign-in is ended or changed, or a person gets
// another role or is removed, whoever did it.
func (db *DB) AccessVersion(ctx context.Context) (int64, error) {
	return one(ctx, db, func(s scanner) (v int64, err error) { return v, s.Scan(&v) }, `SELECT value FROM counters WHERE name = 'access'`)
}

// changeAccess runs f in a transaction and counts that somebody may do less now.
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
