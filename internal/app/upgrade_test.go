package app

import (
	"bytes"
	"database/sql"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/backup"
	"patchbay/internal/check"
	"patchbay/internal/seal"
	"patchbay/internal/service"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// outdate takes back the newest migration, so that the database is of the version before.
func outdate(t *testing.T, o store.Options) {
	t.Helper()
	driver, name := databaseOf(o)
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	number, undo := newestMigration(t, driver)
	if _, err := db.Exec(undo); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`DELETE FROM goose_db_version WHERE version_id = $1`, number); err != nil {
		t.Fatal(err)
	}
}

// databaseOf returns the driver of a database, and what it opens it by.
func databaseOf(o store.Options) (driver, name string) {
	if o.URL != "" {
		return "pgx", o.URL
	}
	return "sqlite", filepath.Join(o.Folder, store.FileName)
}

// newestMigration returns the number of the newest migration of a database, and what takes it back.
func newestMigration(t *testing.T, driver string) (number int, undo string) {
	t.Helper()
	others := map[string]string{"pgx": "_sqlite.sql", "sqlite": "_postgres.sql"}[driver]
	files, err := filepath.Glob("../store/migrations/*.sql")
	files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, others) })
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations, %v", len(files), err)
	}
	newest := slices.Max(files)
	text, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(filepath.Base(newest), "%d_", &number); err != nil {
		t.Fatal(err)
	}
	_, undo, _ = strings.Cut(string(text), "-- +goose Down")
	return number, undo
}

// stateOf returns the newest migration of a database.
func stateOf(t *testing.T, driver, name string) (state int) {
	t.Helper()
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(`SELECT MAX(version_id) FROM goose_db_version`).Scan(&state); err != nil {
		t.Fatal(err)
	}
	return state
}

// A database of an older version is copied before it is changed, and the copy can be restored.
func TestBackupBeforeMigration(t *testing.T) {
	storetest.EachBlank(t, func(t *testing.T, o store.Options) {
		c := configOf(t, o.Folder, o.URL)
		var logged bytes.Buffer
		open := func(version string) {
			t.Helper()
			b, err := OpenBase(t.Context(), c, version, slog.New(slog.NewTextHandler(&logged, nil)))
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		folder := filepath.Join(o.Folder, upgradeFolder)
		open("v1.2.3")
		open("v1.2.3")
		if _, err := os.Stat(folder); err == nil {
			t.Fatal("a backup was made although nothing was to be changed")
		}
		outdate(t, o)
		open("v1.3.0")
		if o.URL != "" {
			if !strings.Contains(logged.String(), "pg_dump") {
				t.Errorf("logged %s", logged.String())
			}
			return
		}
		list, err := filepath.Glob(filepath.Join(folder, "*-v1.2.3.tar.gz"))
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		driver, file := databaseOf(o)
		newest, _ := newestMigration(t, driver)
		if got := stateOf(t, driver, file); got != newest {
			t.Errorf("migrated to %d", got)
		}
		restore(t, list[0], o.Folder)
		if got := stateOf(t, driver, file); got >= newest {
			t.Errorf("restored: %d", got)
		}
		open("v1.3.0") // and again
	})
}

// A start that is refused because the secret is missing leaves the database as it was.
func TestNoMigrationWithoutSecret(t *testing.T) {
	storetest.EachBlank(t, func(t *testing.T, o store.Options) {
		b, err := openAt(t, o)
		if err != nil {
			t.Fatal(err)
		}
		b.Close() //nolint:errcheck // nothing was written
		outdate(t, o)
		if err := os.Remove(filepath.Join(o.Folder, seal.FileName)); err != nil {
			t.Fatal(err)
		}
		if _, err := openAt(t, o); !IsSecretWrong(err) {
			t.Errorf("opened: %v", err)
		}
		driver, name := databaseOf(o)
		newest, _ := newestMigration(t, driver)
		if got := stateOf(t, driver, name); got >= newest {
			t.Errorf("migrated to %d", got)
		}
	})
}

func restore(t *testing.T, file, folder string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if m, err := backup.Stage(t.Context(), f, "", folder, ""); err != nil || m.Version != "v1.2.3" {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := backup.Swap(folder); err != nil {
		t.Fatal(err)
	}
}

func TestBackupsTurnedOff(t *testing.T) {
	o := store.Options{Folder: t.TempDir()}
	b, err := openAt(t, o)
	if err != nil {
		t.Fatal(err)
	}
	b.Close() //nolint:errcheck // nothing was written
	outdate(t, o)
	c := *configOf(t, o.Folder, "")
	c.Upgrade.Backups = 0
	var logged bytes.Buffer
	b, err = OpenBase(t.Context(), &c, "v2", slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	b.Close() //nolint:errcheck // nothing was written
	if _, err := os.Stat(filepath.Join(o.Folder, upgradeFolder)); err == nil ||
		!strings.Contains(logged.String(), "no backup is made") {
		t.Errorf("logged %s", logged.String())
	}
}

func TestKeepNewest(t *testing.T) {
	old, mid, last := "20260101-000000-v1.tar.gz", "20260201-000000-v1.tar.gz", "20260301-000000-v2.tar.gz"
	foreign := "mine-20270101.tar.gz"
	for _, c := range []struct {
		keep    int
		written string
		want    []string
	}{
		{2, last, []string{mid, last, foreign}},
		{1, last, []string{last, foreign}},
		{1, old, []string{old, foreign}}, // the clock is behind
		{2, old, []string{old, last, foreign}},
	} {
		folder := t.TempDir()
		for _, name := range []string{old, mid, last, foreign} {
			if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := keepNewest(folder, c.keep, c.written); err != nil {
			t.Fatal(err)
		}
		list, _ := os.ReadDir(folder)
		var names []string
		for _, e := range list {
			names = append(names, e.Name())
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%d with %s: %q", c.keep, c.written, names)
		}
	}
}

// What a killed backup has left is removed, and what another process is writing is not.
func TestLeftoversOfBackups(t *testing.T) {
	data := t.TempDir()
	write := func(name string) *os.File {
		t.Helper()
		path := filepath.Join(data, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	write("backup.1/patchbay.db")
	write("backup.2/" + backup.LockName)
	write(upgradeFolder + "/20260101-000000-v1.tar.gz.part")
	stay := []string{"backup.3/" + backup.LockName, upgradeFolder + "/20260201-000000-v1.tar.gz.part",
		"backup.txt", "patchbay.db", upgradeFolder + "/20260101-000000-v1.tar.gz"}
	for i, name := range stay {
		f := write(name)
		if i < 2 {
			if ok, err := store.LockFile(f); err != nil || !ok {
				t.Skip("no locks here: ", err)
			}
		}
	}
	if err := removeLeftovers(data); err != nil {
		t.Fatal(err)
	}
	var got []string
	fs.WalkDir(os.DirFS(data), ".", func(path string, e fs.DirEntry, err error) error { //nolint:errcheck // none is returned
		if err == nil && !e.IsDir() {
			got = append(got, path)
		}
		return nil
	})
	slices.Sort(stay)
	if !slices.Equal(got, stay) {
		t.Errorf("left: %q", got)
	}
	if err := removeLeftovers(filepath.Join(data, "missing")); err != nil {
		t.Error(err)
	}
}

// A start after a killed one removes its leftovers before it looks for room.
func TestLeftoversBeforeMigration(t *testing.T) {
	o := store.Options{Folder: t.TempDir()}
	for range 2 {
		b, err := openAt(t, o)
		if err != nil {
			t.Fatal(err)
		}
		b.Close() //nolint:errcheck // nothing was written
		left := filepath.Join(o.Folder, backup.WorkPrefix+"1")
		if _, err := os.Stat(left); err == nil {
			t.Error("the leftover is still there")
		}
		outdate(t, o)
		if err := os.Mkdir(left, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRoomForBackup(t *testing.T) {
	if _, known := store.FreeSpace(t.TempDir()); !known {
		t.Skip("the system does not tell how much is free")
	}
	if _, _, ok := roomForBackup(t.TempDir(), 1<<60); ok {
		t.Error("there is room for an exbibyte")
	}
	if _, _, ok := roomForBackup(t.TempDir(), 1<<20); !ok {
		t.Error("there is no room for a mebibyte")
	}
}

func TestReportService(t *testing.T) {
	for want, s := range map[string]service.State{
		"ok":   {File: "patchbay.service", Running: true, AtBoot: true},
		"warn": {File: "patchbay.service", Running: true},
		"wArn": {File: "patchbay.service", Detail: "failed (exit-code)"},
	} {
		var r check.Report
		if reportService(&r, s); len(r.Findings) != 1 || string(r.Findings[0].State) != strings.ToLower(want) {
			t.Errorf("%+v: %+v", s, r.Findings)
		}
	}
}

// The service manager waits longer than the server takes to stop.
func TestStopTimeout(t *testing.T) {
	if needs := drainLimit + lastWords + 10*time.Second; service.StopTimeout < needs {
		t.Errorf("%v, and it needs %v", service.StopTimeout, needs)
	}
}
