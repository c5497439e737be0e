package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// ErrNoSnapshot reports that the database is PostgreSQL, which has its own backup tools.
var ErrNoSnapshot = errors.New("PostgreSQL is backed up with its own means, pg_dump")

// Snapshot writes a consistent copy of the SQLite database to a new file. Concurrent readers and
// writers are not blocked.
func (db *DB) Snapshot(ctx context.Context, file string) error {
	if db.path == "" { // PostgreSQL
		return ErrNoSnapshot
	}
	// Create the file first, so that only its owner can read it.
	if _, err := touch(file); err != nil {
		return err
	}
	// Use a separate connection, to leave the write connection to writers.
	own, err := sql.Open("sqlite", "file:"+escapePath(db.path)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer own.Close()
	own.SetMaxOpenConns(1)
	// A database created without incremental vacuum gets a copy with it.
	var vacuum int
	if err := own.QueryRowContext(ctx, `PRAGMA auto_vacuum`).Scan(&vacuum); err != nil {
		return err
	}
	if vacuum != autoVacuumIncremental {
		if _, err := own.ExecContext(ctx, `PRAGMA auto_vacuum = INCREMENTAL`); err != nil {
			return err
		}
	}
	if _, err := own.ExecContext(ctx, `VACUUM INTO $1`, file); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	return nil
}

// Errors about a file that is to become the database.
var (
	ErrDamaged = errors.New("the database is damaged")
	ErrNewer   = errors.New("the database is of a newer version of Patchbay")
)

// CheckFile verifies that a file is an intact Patchbay database that this program can migrate.
// Otherwise the error is, or wraps, [ErrDamaged] or [ErrNewer].
func CheckFile(ctx context.Context, file string) error {
	q := url.Values{"mode": {"ro"}, "immutable": {"1"}, "_pragma": {"query_only(ON)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: escapePath(file), RawQuery: q.Encode()}).String())
	if err != nil {
		return err
	}
	defer db.Close()
	var found string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&found); err != nil || found != "ok" {
		return errors.Join(ErrDamaged, err, ctx.Err())
	}
	var version int64
	if err := db.QueryRowContext(ctx, `SELECT MAX(version_id) FROM goose_db_version`).Scan(&version); err != nil {
		return errors.Join(ErrDamaged, err)
	}
	latest, err := latestMigration()
	if err != nil {
		return err
	}
	if version > latest {
		return ErrNewer
	}
	return nil
}

// latestMigration returns the number of the newest migration of this program.
func latestMigration() (latest int64, err error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	for _, f := range files {
		number, _, _ := strings.Cut(path.Base(f), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, err
		}
		latest = max(latest, n)
	}
	return latest, err
}
