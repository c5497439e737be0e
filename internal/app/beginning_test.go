package app

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func openAt(t *testing.T, o store.Options) (*Base, error) {
	t.Helper()
	return OpenBase(t.Context(), configOf(t, o.Folder, o.URL), "1.2.3", slog.New(slog.DiscardHandler))
}

// configOf is the default configuration, with its data elsewhere.
func configOf(t *testing.T, folder, url string) *config.Config {
	t.Helper()
	c, _, err := config.Load(config.Sources{Flags: map[string]string{"data": folder, "database.url": url}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// With a lost database or a mistyped address the server does not start a new installation unless
// told to. A fresh folder, a restored one, and another instance's are fine.
func TestDataGone(t *testing.T) {
	storetest.EachBlank(t, func(t *testing.T, o store.Options) {
		open := func(o store.Options) {
			t.Helper()
			b, err := openAt(t, o)
			if err != nil {
				t.Fatal(err)
			}
			b.Close() //nolint:errcheck // nothing was written
		}
		open(o) // a fresh folder
		open(o)
		if o.URL != "" {
			second := o
			second.Folder = t.TempDir() // of another instance, with the same secret
			text, err := os.ReadFile(filepath.Join(o.Folder, "secret.key"))
			if err = errors.Join(err, os.WriteFile(filepath.Join(second.Folder, "secret.key"), text,
				0o600)); err != nil {
				t.Fatal(err)
			}
			open(second)
			o.URL = storetest.Blank(t).URL // another database
		} else if err := os.Remove(filepath.Join(o.Folder, store.FileName)); err != nil {
			t.Fatal(err)
		}
		for range 2 { // checking does not create the database
			_, err := openAt(t, o)
			if _, gone := errors.AsType[DataGoneError](err); !gone || !strings.Contains(err.Error(), "serve --new") ||
				!strings.Contains(i18n.Localize(err, i18n.Chinese), "serve --new") {
				t.Fatalf("it says %v", err)
			}
		}
		// With the secret configured or lost too, the folder still identifies its installation.
		if err := os.Remove(filepath.Join(o.Folder, "secret.key")); err != nil {
			t.Fatal(err)
		}
		if _, err := openAt(t, o); err == nil {
			t.Error("without the secret it begins anew")
		}
		c, _, err := config.Load(config.Sources{Flags: map[string]string{"data": o.Folder, "database.url": o.URL,
			"listen": "127.0.0.1:0"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		if err := Serve(ctx, c, Options{Logs: io.Discard}); err == nil {
			t.Error("serve begins anew")
		}
		ready := false
		if err := Serve(ctx, c, Options{Logs: io.Discard, New: true,
			Ready: func(string, *Base) { ready = true; stop() }}); err != nil || !ready {
			t.Errorf("serve --new: %v", err)
		}
		open(o)
	})
}

// An older program reports which version wrote the tables that it does not know.
func TestNewerTables(t *testing.T) {
	storetest.EachBlank(t, func(t *testing.T, o store.Options) {
		b, err := openAt(t, o)
		if err != nil {
			t.Fatal(err)
		}
		b.Close() //nolint:errcheck // nothing was written
		driver, name := "pgx", o.URL
		if name == "" {
			driver, name = "sqlite", filepath.Join(o.Folder, store.FileName)
		}
		db, err := sql.Open(driver, name)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var wrote string
		if err := db.QueryRow(`SELECT version FROM written_by`).Scan(&wrote); err != nil || wrote != "1.2.3" {
			t.Errorf("%q has written it, %v", wrote, err)
		}
		if _, err := db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (90001, TRUE); INSERT INTO written_by (state, version, at) VALUES (90001, '7.8.9', 0)`); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err = openAt(t, o)
			if !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), "7.8.9") ||
				!strings.Contains(err.Error(), "90001") {
				t.Errorf("it says %v", err)
			}
		}
		if _, err := db.Exec(`DROP TABLE written_by`); err != nil {
			t.Fatal(err)
		}
		if _, err = openAt(t, o); !errors.Is(err, store.ErrNewer) ||
			!strings.Contains(i18n.Localize(err, i18n.English), "newer version of Patchbay") {
			t.Errorf("it says %v", err)
		}
	})
}

// Flipped bytes and a truncated file are detected.
func TestDamagedFile(t *testing.T) {
	for what, spoil := range map[string]func([]byte) []byte{
		"flipped bytes": func(b []byte) []byte {
			at := len(b) / 2 &^ 4095 // the start of a page
			for i := range 200 {
				b[at+i] ^= 0xff
			}
			return b
		},
		"a cut file":  func(b []byte) []byte { return b[:len(b)/2] },
		"no database": func(b []byte) []byte { return bytes.Repeat([]byte("x"), len(b)) },
	} {
		t.Run(what, func(t *testing.T) {
			o := store.Options{Folder: t.TempDir()}
			b, err := openAt(t, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Store.Check(t.Context()); err != nil {
				t.Errorf("a whole file: %v", err)
			}
			b.Close() //nolint:errcheck // nothing was written
			path := filepath.Join(o.Folder, store.FileName)
			data, err := os.ReadFile(path)
			if err = errors.Join(err, os.WriteFile(path, spoil(data), 0o600)); err != nil {
				t.Fatal(err)
			}
			if b, err = openAt(t, o); err == nil {
				defer b.Close()
				err = b.Store.Check(t.Context())
			}
			if store.ClassifyError(err) != store.ErrDamaged {
				t.Errorf("it says %v", err)
			}
		})
	}
}
