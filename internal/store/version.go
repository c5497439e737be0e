package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pressly/goose/v3"
)

// NewerError reports that the schema is of a newer version of the program. It matches [ErrNewer].
type NewerError struct {
	State, Known int64  // newest migration of the database, and of this program
	Version      string // version of the program that migrated the database; empty: unknown
}

// Error implements error.
func (e *NewerError) Error() string {
	return fmt.Sprintf("%v: its state is %d, by version %q, and this one knows %d", ErrNewer, e.State, e.Version,
		e.Known)
}

// Is reports whether err is [ErrNewer].
func (e *NewerError) Is(err error) bool { return err == ErrNewer }

// checkNotNewer returns a [*NewerError] if the database has migrations that this program does not
// know.
func (db *DB) checkNotNewer(ctx context.Context) error {
	known, err := latestMigration()
	if err != nil {
		return err
	}
	if there, err := db.hasTable(ctx, "goose_db_version"); err != nil || !there {
		return err
	}
	e := &NewerError{Known: known}
	if err := db.w.QueryRowContext(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version WHERE is_applied`).
		Scan(&e.State); err != nil || e.State <= known {
		return err
	}
	e.Version = db.writtenBy(ctx)
	return e
}

// writtenBy returns the version of the program that migrated the database; empty: unknown.
func (db *DB) writtenBy(ctx context.Context) (version string) {
	if there, err := db.hasTable(ctx, "written_by"); err == nil && there {
		// Texts are useful without the version too.
		db.w.QueryRowContext(ctx, `SELECT version FROM written_by ORDER BY state DESC LIMIT 1`).Scan(&version) //nolint:errcheck // see above
	}
	return version
}

// HasSecrets reports whether values of the database are sealed with a secret of the installation.
func (p Pending) HasSecrets(ctx context.Context) (bool, error) {
	there, err := p.DB.hasTable(ctx, "secrets")
	if err != nil {
		return false, err
	}
	if !there {
		return true, nil // of before the table: each installation had a secret already
	}
	list, err := Secrets{p.DB}.All(ctx)
	return len(list) > 0, err
}

// announce calls before if migrations of a used database are pending.
func (db *DB) announce(ctx context.Context, p *goose.Provider, before func(context.Context, Pending) error) error {
	if before == nil {
		return nil
	}
	if there, err := db.hasTable(ctx, "goose_db_version"); err != nil || !there {
		return err // nothing is lost with a new database
	}
	pending := Pending{DB: db, Version: db.writtenBy(ctx)}
	var err error
	if pending.From, pending.To, err = p.GetVersions(ctx); err != nil {
		return fmt.Errorf("look whether the database is up to date: %w", err)
	}
	if pending.From == 0 || pending.From >= pending.To {
		return nil
	}
	return before(ctx, pending)
}

// Size returns the size of the SQLite database in bytes, with what is in its log; 0 for PostgreSQL.
func (db *DB) Size() (size int64) {
	if db.path == "" {
		return 0
	}
	for _, file := range []string{db.path, db.path + "-wal"} {
		if info, err := os.Stat(file); err == nil {
			size += info.Size()
		}
	}
	return size
}

// recordVersion records which program version migrated the database to its current state.
func (db *DB) recordVersion(ctx context.Context, version string) error {
	state, err := latestMigration()
	if err != nil {
		return err
	}
	_, err = db.exec(ctx, `INSERT INTO written_by (state, version, at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		state, version, millis(time.Now()))
	return err
}

func (db *DB) hasTable(ctx context.Context, name string) (there bool, err error) {
	query := `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1)`
	if db.path == "" {
		query = `SELECT to_regclass($1) IS NOT NULL`
	}
	return there, db.w.QueryRowContext(ctx, query, name).Scan(&there)
}

// Empty reports whether the database has no Patchbay tables, or does not exist. It creates and
// changes nothing.
func Empty(ctx context.Context, o Options) (bool, error) {
	if o.URL == "" {
		info, err := os.Stat(filepath.Join(o.Folder, FileName))
		if errors.Is(err, os.ErrNotExist) {
			return true, nil
		}
		return err == nil && info.Size() == 0, err
	}
	o.MaxConns = 1
	db, err := connect(o)
	if err != nil {
		return false, err
	}
	defer db.closePools() //nolint:errcheck // nothing was written
	there, err := db.hasTable(ctx, "goose_db_version")
	return !there, err
}

// Check verifies the integrity of the SQLite file and its foreign keys. It returns an error that
// wraps [ErrDamaged], or the context's error if the time was not enough. It does nothing with
// PostgreSQL, which has its own tools.
func (db *DB) Check(ctx context.Context) error {
	if db.path == "" {
		return nil
	}
	found, err := all(ctx, db, func(s scanner) (text string, err error) { return text, s.Scan(&text) },
		`PRAGMA integrity_check(3)`)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return errors.Join(ErrDamaged, err)
	case len(found) != 1 || found[0] != "ok":
		return fmt.Errorf("%w: %q", ErrDamaged, found)
	}
	rows, err := db.r.QueryContext(ctx, `PRAGMA foreign_key_check`)
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() {
		return fmt.Errorf("%w: a row belongs to another that is not there", ErrDamaged)
	}
	return rows.Err()
}
