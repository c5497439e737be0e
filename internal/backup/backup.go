// Package backup writes all that an installation keeps into one file, and puts it back.
//
// A backup is a gzipped tar archive of
//
//	manifest.json   what it is of, and the sums of the others
//	patchbay.db     the database, as it was at one moment
//	secret.key      the key that opens the secrets in it, unless that is configured
//
// and may be encrypted as a whole by a passphrase.
//
// It is put back in two steps. [Stage] checks a backup and lays it down in the data
// folder; [Swap], before the database is opened the next time, puts it in the place of
// what is there, which it keeps in a folder beside.
package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	manifestName = "manifest.json"
	// format is that of the archive; readers refuse what they do not know.
	format = 1
	// maxManifest bounds a manifest, and the file of a key, in bytes.
	maxManifest = 64 << 10
	// MaxSize bounds what is unpacked, so that a small file cannot fill the disk.
	MaxSize = 16 << 30
)

// Manifest is what a backup says of itself.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program that wrote it
	At      time.Time `json:"at"`
	// Secret is the id of a key that opens what is sealed in it: of the one in the archive,
	// if there is one. Secrets are all of which that is true.
	Secret  string            `json:"secret"`
	Secrets []string          `json:"secrets,omitempty"`
	Sums    map[string]string `json:"sums"` // SHA-256 by file
}

// opens says whether a secret opens what is sealed in the backup.
func (m *Manifest) opens(secret string) bool {
	k, err := seal.NewKey(secret)
	return err == nil && (k.ID == m.Secret || slices.Contains(m.Secrets, k.ID))
}

// Source is what is backed up.
type Source struct {
	Store   *store.DB
	Box     *seal.Box
	Folder  string // of the data; the copy is made there before it is packed
	Version string
}

// Name is what the file of a backup is called.
func Name(at time.Time, encrypted bool) string {
	name := "patchbay-" + at.UTC().Format("20060102-150405") + ".tar.gz"
	if encrypted {
		name += ".age"
	}
	return name
}

// Write writes a backup, encrypted by a passphrase if there is one. Nothing has been
// written if the error is that of [CheckPassphrase], or [store.ErrNoSnapshot], which it is
// with PostgreSQL.
func Write(ctx context.Context, w io.Writer, passphrase string, s Source, at time.Time) error {
	if err := CheckPassphrase(passphrase); err != nil {
		return err
	}
	if s.Store.Dialect() != "sqlite" {
		return store.ErrNoSnapshot
	}
	dir, err := os.MkdirTemp(s.Folder, "backup.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, store.FileName)
	if err := s.Store.Snapshot(ctx, copied); err != nil {
		return err
	}
	files := []string{copied}
	m := Manifest{Format: format, Version: s.Version, At: at.UTC().Truncate(time.Second), Secret: s.Box.Key().ID, Sums: map[string]string{}}
	for _, k := range s.Box.Keys() {
		m.Secrets = append(m.Secrets, k.ID)
	}
	// Without that file the key is configured, and kept by whoever did that.
	if secret, err := seal.ReadFile(s.Folder); err == nil && m.opens(secret) {
		key, err := seal.NewKey(secret)
		if err != nil {
			return err
		}
		if err := seal.WriteFile(dir, key); err != nil { // the one of the folder may change meanwhile
			return err
		}
		m.Secret = key.ID
		files = append(files, filepath.Join(dir, seal.FileName))
	}
	for _, f := range files {
		if m.Sums[filepath.Base(f)], err = sum(f); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	sealed, err := encrypt(w, passphrase)
	if err != nil {
		return err
	}
	zipped := gzip.NewWriter(sealed)
	packed := tar.NewWriter(zipped)
	if err := packed.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(text)), ModTime: m.At}); err != nil {
		return err
	}
	if _, err := packed.Write(text); err != nil {
		return err
	}
	for _, f := range files {
		if err := pack(ctx, packed, f, m.At); err != nil {
			return err
		}
	}
	return errors.Join(packed.Close(), zipped.Close(), sealed.Close())
}

func sum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func pack(ctx context.Context, to *tar.Writer, file string, at time.Time) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := to.WriteHeader(&tar.Header{Name: filepath.Base(file), Mode: 0o600, Size: info.Size(), ModTime: at}); err != nil {
		return err
	}
	_, err = io.Copy(to, reader{ctx, f})
	return err
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// exists says whether there is a file or folder.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// describe is an error about a file of a backup, which its owner can do something about.
func describe(name string, err error) error { return fmt.Errorf("%s in the backup: %w", name, err) }
