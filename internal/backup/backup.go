// Package backup writes the data of an installation to one file, and restores it.
//
// A backup is a gzipped tar archive of
//
//	manifest.json   its version, and the SHA-256 sums of the other files
//	patchbay.db     a consistent copy of the database
//	secret.key      the key of the secrets in the database, unless that is configured
//
// and can be encrypted as a whole with a passphrase.
//
// A restore takes two steps. [Stage] verifies a backup and unpacks it into the data folder. [Swap],
// before the database is opened the next time, moves it into place and moves the previous files to
// another folder in the data folder.
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
	// format is the version of the archive format; readers reject any other.
	format = 1
	// maxManifest is the maximum size of a manifest, and of a key file, in bytes.
	maxManifest = 64 << 10
	// MaxSize is the maximum unpacked size in bytes, so that a small file cannot fill the disk.
	MaxSize = 16 << 30
)

// WorkPrefix begins the names of the folders in the data folder in which backups are prepared.
// LockName is a file in them that is locked meanwhile: without the lock, it is left over.
const (
	WorkPrefix = "backup."
	LockName   = "lock"
)

// Manifest describes a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // version of the program that wrote it
	At      time.Time `json:"at"`
	// Secret is the id of a key that opens the sealed values in the backup: of the key in the
	// archive, if there is one. Secrets are the ids of all such keys.
	Secret  string            `json:"secret"`
	Secrets []string          `json:"secrets,omitempty"`
	Sums    map[string]string `json:"sums"` // SHA-256 in hex by file name
}

// openedBy reports whether a secret opens the sealed values in the backup.
func (m *Manifest) openedBy(secret string) bool {
	k, err := seal.NewKey(secret)
	return err == nil && (k.ID == m.Secret || slices.Contains(m.Secrets, k.ID))
}

// Source is the installation to back up.
type Source struct {
	Store   *store.DB
	Box     *seal.Box
	Folder  string // data folder; the database is copied there before it is packed
	Version string
}

// FileName returns the file name for a backup.
func FileName(at time.Time, encrypted bool) string {
	name := "patchbay-" + at.UTC().Format("20060102-150405") + ".tar.gz"
	if encrypted {
		name += ".age"
	}
	return name
}

// Write writes a backup to w, encrypted if passphrase is not empty. If it returns an error of
// [CheckPassphrase], or [store.ErrNoSnapshot] because the database is PostgreSQL, nothing has been
// written.
func Write(ctx context.Context, w io.Writer, passphrase string, s Source, at time.Time) error {
	if err := CheckPassphrase(passphrase); err != nil {
		return err
	}
	if s.Store.Dialect() != "sqlite" {
		return store.ErrNoSnapshot
	}
	dir, err := os.MkdirTemp(s.Folder, WorkPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lock, err := os.OpenFile(filepath.Join(dir, LockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	store.LockFile(lock) //nolint:errcheck // where there are no locks, nobody removes it
	copied := filepath.Join(dir, store.FileName)
	if err := s.Store.Snapshot(ctx, copied); err != nil {
		return err
	}
	files := []string{copied}
	m := Manifest{Format: format, Version: s.Version, At: at.UTC().Truncate(time.Second), Secret: s.Box.Key().ID,
		Sums: map[string]string{}}
	for _, k := range s.Box.Keys() {
		m.Secrets = append(m.Secrets, k.ID)
	}
	// Without a matching key file the key is configured, and its backup is the operator's task.
	if secret, err := seal.ReadFile(s.Folder); err == nil && m.openedBy(secret) {
		key, err := seal.NewKey(secret)
		if err != nil {
			return err
		}
		if err := seal.WriteFile(dir, key); err != nil { // the original file may change meanwhile
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
	if err := packed.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(text)),
		ModTime: m.At}); err != nil {
		return err
	}
	if _, err := packed.Write(text); err != nil {
		return err
	}
	for _, f := range files {
		if err := packFile(ctx, packed, f, m.At); err != nil {
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

func packFile(ctx context.Context, to *tar.Writer, file string, at time.Time) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := to.WriteHeader(&tar.Header{Name: filepath.Base(file), Mode: 0o600, Size: info.Size(),
		ModTime: at}); err != nil {
		return err
	}
	_, err = io.Copy(to, reader{ctx, f})
	return err
}

// reader is a reader that fails when its context ends.
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

// exists reports whether there is a file or folder.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// fileError returns err with the name of a file in the backup, for the user.
func fileError(name string, err error) error { return fmt.Errorf("%s in the backup: %w", name, err) }
