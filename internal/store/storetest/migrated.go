package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"patchbay/internal/store"
)

// Migrating a database takes longer than most tests, so it is done once and tests get copies. Each
// copy is as before the first Open by a program. Tests of how a database is created use a blank
// one.

// clearAudit deletes the rows that migrating and opening a database have written.
const clearAudit = `DELETE FROM audit_links; DELETE FROM audit_chains; DELETE FROM written_by`

// migratedFile returns the content of a migrated SQLite database.
var migratedFile = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "patchbay-migrated-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, store.FileName)
	if err := migrate(store.Options{Folder: folder}, "sqlite", path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func migrate(o store.Options, driver, name string) error {
	db, err := store.Open(context.Background(), o)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	raw, err := sql.Open(driver, name)
	if err != nil {
		return err
	}
	_, err = raw.Exec(clearAudit)
	return errors.Join(err, raw.Close())
}

// Folder creates a data folder with a migrated SQLite database, unless it has one, and returns its
// path.
func Folder(t testing.TB, folder string) string {
	t.Helper()
	migrated, err := migratedFile()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(folder, store.FileName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return folder
	}
	if err == nil {
		_, err = f.Write(migrated)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// template is the PostgreSQL database that is copied.
const template = "patchbay_migrated"

// migratedDatabase creates the template database in a server, unless another process has.
func migratedDatabase(s *Server) (err error) {
	admin, err := sql.Open("pgx", s.URL("postgres"))
	if err != nil {
		return err
	}
	defer admin.Close()
	ctx := context.Background()
	conn, err := admin.Conn(ctx) // the advisory lock belongs to the connection
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock(1)`); err != nil {
		return err
	}
	var there bool
	if err := conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`,
		template).Scan(&there); err != nil || there {
		return err
	}
	unfinished := fmt.Sprintf("%s_%d", template, os.Getpid())
	if _, err := conn.ExecContext(ctx, "CREATE DATABASE "+unfinished); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "patchbay-migrated-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	url := s.URL(unfinished)
	if err := migrate(store.Options{URL: url, Folder: folder}, "pgx", url); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "ALTER DATABASE "+unfinished+" RENAME TO "+template)
	return err
}
