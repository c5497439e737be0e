package backup_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"filippo.io/age"

	"patchbay/internal/backup"
	"patchbay/internal/store"
)

const passphrase = "correct horse 电池"

// An encrypted backup reveals nothing without its passphrase, is a valid age file, and is rejected
// with a specific error if damaged.
func TestEncryptedBackup(t *testing.T) {
	folder, db, box := newInstallation(t, "ada")
	source := backup.Source{Store: db, Box: box, Folder: folder, Version: "test"}
	var b bytes.Buffer
	if err := backup.Write(t.Context(), &b, passphrase, source, now); err != nil {
		t.Fatal(err)
	}
	file := b.Bytes()
	if !backup.Encrypted(bufio.NewReader(bytes.NewReader(file))) || bytes.Contains(file, []byte("patchbay.db")) {
		t.Errorf("it begins with %q", file[:80])
	}
	identity, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := age.Decrypt(bytes.NewReader(file), identity)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := io.ReadAll(opened)
	if err != nil {
		t.Fatal(err)
	}
	if list := entries(t, inside); len(list) != 3 || list[1].name != store.FileName {
		t.Errorf("inside are %d files", len(list))
	}

	other, _, _ := newInstallation(t, "eve")
	flipped := bytes.Clone(file)
	flipped[len(file)-9000] ^= 1
	for _, c := range []struct {
		name, passphrase string
		file             []byte
		want             error
	}{
		{"no passphrase", "", file, backup.ErrEncrypted},
		{"another one", "wrong battery", file, backup.ErrPassphrase},
		{"a changed byte", passphrase, flipped, backup.ErrBroken},
		{"half", passphrase, file[:len(file)/2], backup.ErrBroken},
		{"the beginning", passphrase, file[:60], backup.ErrNotBackup},
		{"work for an hour", passphrase, bytes.Replace(file, []byte(" 18\n"), []byte(" 29\n"), 1), backup.ErrBroken},
		{"a head without an end", passphrase, []byte("age-encryption.org/v1\n-> " + strings.Repeat("x", 1<<20)),
			backup.ErrNotBackup},
		{"for keys", passphrase, forKeys(t), backup.ErrNotBackup},
	} {
		if _, err := backup.Stage(t.Context(), bytes.NewReader(c.file), c.passphrase, other, ""); !errors.Is(err,
			c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if backup.Staged(other) != nil {
			t.Errorf("%s is staged", c.name)
		}
	}
	if _, err := backup.Stage(t.Context(), bytes.NewReader(file), passphrase, other, ""); err != nil ||
		backup.Staged(other) == nil {
		t.Errorf("with its passphrase: %v", err)
	}
}

// forKeys returns a file encrypted for a key.
func forKeys(t *testing.T) []byte {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, key.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// An unacceptable passphrase is rejected before anything is written.
func TestPassphrasesOfBackups(t *testing.T) {
	for passphrase, want := range map[string]error{
		"": nil, "eleven char": backup.ErrShort, "电池电池电池电池电池电": backup.ErrShort, "twelve chars": nil,
		strings.Repeat("x", 1025): backup.ErrLong,
	} {
		if err := backup.CheckPassphrase(passphrase); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", passphrase, err, want)
		}
	}
	folder, db, box := newInstallation(t, "ada")
	var b bytes.Buffer
	source := backup.Source{Store: db, Box: box, Folder: folder}
	if err := backup.Write(context.Background(), &b, "short", source, now); !errors.Is(err, backup.ErrShort) ||
		b.Len() > 0 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
}
