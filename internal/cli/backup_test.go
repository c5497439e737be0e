package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/seal"
)

// A backup that is restored elsewhere has all data once the server starts; the data that was there
// before is kept.
func TestBackupRestores(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "parrot", "--kind", "echo")
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	var made struct{ File string }
	d.json(&made, "backup", "create", file)
	if info, err := os.Stat(file); err != nil || made.File != file || info.Mode().Perm() != 0o600 {
		t.Fatalf("%+v: %v, %v", made, info, err)
	}
	d.failing(1, "", []string{"backup", "create", file}, "exists")
	d.ok("bot", "add", "--name", "later", "--kind", "echo")

	other := blankDesk(t)
	other.ok("user", "add", "eve")
	var staged struct{ Pending string }
	other.json(&staged, "backup", "restore", file)
	if _, err := os.Stat(staged.Pending); err != nil {
		t.Fatal(err)
	}
	people := func(folder string) (names []string) {
		var list []struct{ Name string }
		other.json(&list, "user", "list", "--data", folder)
		for _, p := range list {
			names = append(names, p.Name)
		}
		return names
	}
	if got := people(other.data); len(got) != 1 || got[0] != "eve" {
		t.Errorf("before the start there is %q", got)
	}
	other.serve()
	if got := people(other.data); len(got) != 1 || got[0] != "ada" {
		t.Errorf("restored is %q", got)
	}
	var bots []struct{ Name string }
	other.json(&bots, "bot", "list")
	if len(bots) != 1 || bots[0].Name != "parrot" {
		t.Errorf("the bots are %+v", bots)
	}
	kept, err := filepath.Glob(filepath.Join(other.data, "before-restore-*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%q, %v", kept, err)
	}
	if got := people(kept[0]); len(got) != 1 || got[0] != "eve" {
		t.Errorf("kept is %q", got)
	}
	if _, err := os.Stat(filepath.Join(kept[0], seal.FileName)); err != nil {
		t.Error(err)
	}
	base := d.base()
	defer base.Close()
	acts, err := base.Store.AdminEvents.Newest(context.Background(), "", 9)
	if err != nil || len(acts) != 4 || acts[1].Action != "backup.taken" || acts[3].About != "ada" {
		t.Errorf("the journal has %+v, %v", acts, err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.failing(1, "", []string{"backup", "restore", file}, "no backup of Patchbay")
	d.failing(1, "", []string{"backup", "restore", file + "y"}, "no such file")
	d.failing(1, "", []string{"backup", "restore", file, "--database-url", "postgres://x@127.0.0.1/y"}, "pg_dump")
}

// The passphrase of an encrypted backup is in a file or in the environment, and the error about a
// backup that cannot be opened says what is missing.
func TestEncryptedBackupRestores(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "b.tar.gz.age"), filepath.Join(dir, "passphrase")
	if err := os.WriteFile(secret, []byte("correct horse battery\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.failing(1, "", []string{"backup", "create", "--encrypt", file}, "--passphrase-file")
	var made struct{ Encrypted bool }
	d.json(&made, "backup", "create", "--passphrase-file", secret, file)
	text, err := os.ReadFile(file)
	if err != nil || !made.Encrypted || !strings.HasPrefix(string(text), "age-encryption.org/v1\n") {
		t.Fatalf("%v, %v: %.30q", made, err, text)
	}

	other := blankDesk(t)
	other.failing(1, "", []string{"backup", "restore", file}, "the backup is encrypted", "PATCHBAY_BACKUP_PASSPHRASE")
	other.env = append(other.env, "PATCHBAY_BACKUP_PASSPHRASE=wrong horse battery")
	other.failing(1, "", []string{"backup", "restore", file}, "The passphrase is wrong")
	other.env = append(other.env[:len(other.env)-1], "PATCHBAY_BACKUP_PASSPHRASE=correct horse battery")
	if said := other.ok("backup", "restore", file); !strings.Contains(said, "The backup is valid") {
		t.Errorf("it says %q", said)
	}
	if err := os.WriteFile(secret, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.failing(1, "", []string{"backup", "create", "--passphrase-file", secret}, "there is no passphrase in")
	if err := os.WriteFile(secret, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.failing(1, "", []string{"backup", "create", "--passphrase-file", secret, file + "2"}, "12 characters")
	if _, err := os.Stat(file + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a backup with a short passphrase: %v", err)
	}
}
