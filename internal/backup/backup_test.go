package backup_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/internal/backup"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var now = time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)

// newInstallation creates an installation with one person.
func newInstallation(t *testing.T, name string) (folder string, db *store.DB, box *seal.Box) {
	t.Helper()
	folder = t.TempDir()
	box, err := seal.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	db = open(t, folder)
	add(t, db, name)
	return folder, db, box
}

func open(t *testing.T, folder string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func add(t *testing.T, db *store.DB, name string) {
	t.Helper()
	if err := db.People.Add(t.Context(), store.Person{ID: name, Name: name, Role: "admin", Created: now}); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, db *store.DB) string {
	t.Helper()
	people, err := db.People.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range people {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

func write(t *testing.T, folder string, db *store.DB, box *seal.Box) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := backup.Write(t.Context(), &b, "", backup.Source{Store: db, Box: box, Folder: folder, Version: "test"},
		now); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A restore brings back the data and the key that opens its secrets, and keeps the previous files.
func TestRestore(t *testing.T) {
	folder, db, box := newInstallation(t, "ada")
	sealed := box.Seal("credential")
	saved := write(t, folder, db, box)
	add(t, db, "bob") // after the backup

	other, otherDB, _ := newInstallation(t, "eve")
	m, err := backup.Stage(t.Context(), bytes.NewReader(saved), "", other, "")
	if err != nil || m.Version != "test" || !m.At.Equal(now) {
		t.Fatalf("%+v, %v", m, err)
	}
	if staged := backup.Staged(other); staged == nil || staged.Secret != m.Secret {
		t.Errorf("staged is %+v", staged)
	}
	if got := names(t, otherDB); got != "eve" {
		t.Errorf("before the next start there is %s", got)
	}
	otherDB.Close()
	kept, err := backup.Swap(other)
	if err != nil || kept == "" {
		t.Fatalf("%q, %v", kept, err)
	}
	if got := names(t, open(t, other)); got != "ada" {
		t.Errorf("restored was %s", got)
	}
	if again, err := seal.Open(other); err != nil {
		t.Error(err)
	} else if plain, err := again.Open(sealed); err != nil || plain != "credential" {
		t.Errorf("the key opens %q, %v", plain, err)
	}
	if got := names(t, open(t, filepath.Join(other, kept))); got != "eve" {
		t.Errorf("kept was %s", got)
	}
	if kept, err := backup.Swap(other); kept != "" || err != nil {
		t.Errorf("restored twice: %q, %v", kept, err)
	}
	left, _ := filepath.Glob(filepath.Join(other, "restore*"))
	if more, _ := filepath.Glob(filepath.Join(folder, "backup.*")); len(left)+len(more) > 0 {
		t.Errorf("left are %q %q", left, more)
	}
	info, err := os.Stat(filepath.Join(other, store.FileName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the database is %v, %v", info.Mode(), err)
	}
}

// After a crash during a restore, the next start uses either all previous files or all restored
// ones.
func TestRestoreGoesOnAfterACrash(t *testing.T) {
	folder, db, box := newInstallation(t, "ada")
	saved := write(t, folder, db, box)
	other, otherDB, _ := newInstallation(t, "eve")
	otherDB.Close()
	if _, err := backup.Stage(t.Context(), bytes.NewReader(saved), "", other, ""); err != nil {
		t.Fatal(err)
	}
	// Something blocks the path of the database.
	staged, err := os.Stat(filepath.Join(other, "restore.pending"))
	if err != nil {
		t.Fatal(err)
	}
	way := filepath.Join(other, "before-restore-"+staged.ModTime().UTC().Format("20060102-150405.000000"),
		seal.FileName, "x")
	if err := os.MkdirAll(way, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Swap(other); err == nil {
		t.Fatal("the key was moved onto a folder")
	}
	if err := os.RemoveAll(filepath.Dir(way)); err != nil {
		t.Fatal(err)
	}
	kept, err := backup.Swap(other)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, open(t, filepath.Join(other, kept))); got != "eve" {
		t.Errorf("kept was %s", got)
	}
	if got := names(t, open(t, other)); got != "ada" {
		t.Errorf("restored was %s", got)
	}
}

// A backup made during writes is a consistent snapshot.
func TestBackupOfABusyDatabase(t *testing.T) {
	folder, db, box := newInstallation(t, "ada")
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := db.People.SetPassword(context.Background(), "ada", strings.Repeat("x", i%1000)); err != nil {
				done <- err
				return
			}
		}
	}()
	var saved [5][]byte
	for i := range saved {
		saved[i] = write(t, folder, db, box)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, b := range saved {
		if _, err := backup.Stage(t.Context(), bytes.NewReader(b), "", folder, ""); err != nil {
			t.Error(err)
		}
	}
}

// entry is a file in an archive.
type entry struct{ name, text string }

func entries(t *testing.T, archive []byte) (list []entry) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, entry{head.Name, string(text)})
	}
}

func archive(t testing.TB, list ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range list {
		if err := w.WriteHeader(&tar.Header{Name: e.name, Mode: 0o600, Size: int64(len(e.text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A file that is not a complete backup of this installation, or not readable by this program,
// changes nothing.
func TestRefusedBackups(t *testing.T) {
	folder, db, box := newInstallation(t, "ada")
	good := entries(t, write(t, folder, db, box))
	if len(good) != 3 || good[0].name != "manifest.json" || good[1].name != store.FileName ||
		good[2].name != seal.FileName {
		t.Fatalf("a backup has %+v", good)
	}
	manifest, data, key := good[0], good[1], good[2]
	configured := strings.Repeat("ab", 32)
	flipped := entry{data.name, data.text[:5000] + "x" + data.text[5001:]}
	for _, c := range []struct {
		name string
		file []byte
		key  string
		want error
	}{
		{"nothing", nil, "", backup.ErrNotBackup},
		{"a text", []byte("hello"), "", backup.ErrNotBackup},
		{"another archive", archive(t, entry{"hello", "world"}), "", backup.ErrNotBackup},
		{"no JSON", archive(t, entry{"manifest.json", "world"}), "", backup.ErrNotBackup},
		{"no database", archive(t, manifest, key), "", backup.ErrBroken},
		{"a changed one", archive(t, manifest, flipped, key), "", backup.ErrBroken},
		{"half", archive(t, good...)[:8000], "", backup.ErrBroken},
		{"a file more", archive(t, manifest, data, entry{"../evil", "x"}), "", backup.ErrBroken},
		{"a name that leads elsewhere", archive(t, entry{manifest.name,
			strings.Replace(manifest.text, seal.FileName, "../evil", 1)}, data, entry{"../evil", key.text}),
			"", backup.ErrBroken},
		{"a newer form", archive(t, entry{manifest.name, strings.Replace(manifest.text, `"format": 1`,
			`"format": 2`, 1)}, data, key), "", store.ErrNewer},
		{"another key", archive(t, good...), configured, backup.ErrSecret},
	} {
		if _, err := backup.Stage(t.Context(), bytes.NewReader(c.file), "", folder, c.key); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if backup.Staged(folder) != nil {
			t.Errorf("%s is staged", c.name)
		}
	}
	if list, _ := filepath.Glob(filepath.Join(folder, "restore*")); len(list) > 0 {
		t.Errorf("left are %q", list)
	}
	if _, err := backup.Stage(t.Context(), bytes.NewReader(archive(t, good...)), "", folder, ""); err != nil {
		t.Error(err)
	}
}

func TestPostgresIsBackedUpOtherwise(t *testing.T) {
	o := storetest.Postgres(t)
	box, err := seal.Open(o.Folder)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err = backup.Write(t.Context(), &b, "", backup.Source{Store: storetest.Open(t, o), Box: box, Folder: o.Folder}, now)
	if !errors.Is(err, store.ErrNoSnapshot) || b.Len() > 0 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
}

// Any input is rejected or is a valid backup.
func FuzzStage(f *testing.F) {
	f.Add(archive(f, entry{"manifest.json", `{"format":1,"sums":{"patchbay.db":"x"}}`}, entry{"patchbay.db", "x"}))
	f.Add([]byte("hello"))
	f.Add([]byte("age-encryption.org/v1\n-> scrypt AAAAAAAAAAAAAAAAAAAAAA 30\nAAAA\n--- AAAA\nx"))
	f.Fuzz(func(t *testing.T, file []byte) {
		folder := t.TempDir()
		if _, err := backup.Stage(t.Context(), bytes.NewReader(file), "wrong battery", folder, ""); err == nil &&
			backup.Staged(folder) == nil {
			t.Error("it is good, and not there")
		}
	})
}
