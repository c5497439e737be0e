package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// Why a file is not put back.
var (
	ErrNotBackup = errors.New("this is no backup of Patchbay")
	ErrBroken    = errors.New("the backup is broken: a file in it is not what it was")
	ErrTooLarge  = errors.New("the backup is too large")
	ErrSecret    = errors.New("the secrets in the backup were sealed with another key than the one that is configured")
)

// Folders in the data folder.
const (
	arriving = "restore.new"     // what is unpacked and not checked yet
	pending  = "restore.pending" // what is put in place at the next start
	moving   = "restore.moving"  // the same, when what was there before is out of the way
	// before begins the name of the folder that keeps what was there.
	before = "before-restore-"
)

// files are those that a backup may have, beside its manifest.
var files = []string{store.FileName, seal.FileName}

// Stage reads a backup, checks it, and lays it down in the data folder, from where the
// next start puts it in place. The passphrase counts if the backup is encrypted.
// Configured is the secret that is; empty if it is the one in the data folder. What was
// staged before is gone. The error is, or wraps, one of the Err… of this package,
// [store.ErrDamaged] or [store.ErrNewer] if the backup is to blame.
func Stage(ctx context.Context, r io.Reader, passphrase, folder, configured string) (Manifest, error) {
	archive, err := decrypt(reader{ctx, r}, passphrase)
	if err != nil {
		return Manifest{}, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return Manifest{}, err
	}
	dir := filepath.Join(folder, arriving)
	if err := os.RemoveAll(dir); err != nil {
		return Manifest{}, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return Manifest{}, err
	}
	defer os.RemoveAll(dir)
	m, err := unpack(archive, dir)
	if err != nil {
		return m, err
	}
	if err := store.CheckFile(ctx, filepath.Join(dir, store.FileName)); err != nil {
		return m, err
	}
	if configured != "" {
		if !m.opens(configured) {
			return m, ErrSecret
		}
	} else if secret, err := seal.ReadFile(dir); err == nil {
		if !m.opens(secret) {
			return m, describe(seal.FileName, ErrBroken)
		}
	} else if secret, err := seal.ReadFile(folder); err != nil || !m.opens(secret) {
		// It was configured when the backup was made, and the file here is another.
		return m, ErrSecret
	}
	if err := syncFiles(dir); err != nil {
		return m, err
	}
	if err := Cancel(folder); err != nil {
		return m, err
	}
	return m, os.Rename(dir, filepath.Join(folder, pending))
}

// unpack writes the files of a backup into a folder, and checks their sums.
func unpack(r io.Reader, dir string) (m Manifest, err error) {
	unzipped, err := gzip.NewReader(r)
	if errors.Is(err, ErrBroken) {
		return m, err
	}
	if err != nil {
		return m, ErrNotBackup
	}
	archive := tar.NewReader(io.LimitReader(unzipped, MaxSize))
	head, err := archive.Next()
	if err != nil || head.Name != manifestName || head.Size > maxManifest {
		return m, ErrNotBackup
	}
	text, err := io.ReadAll(archive)
	if err != nil {
		return m, describe(manifestName, ErrBroken)
	}
	if json.Unmarshal(text, &m) != nil || m.Sums[store.FileName] == "" {
		return m, ErrNotBackup
	}
	if m.Format != format {
		return m, store.ErrNewer
	}
	left := make(map[string]bool, len(m.Sums))
	for name := range m.Sums {
		left[name] = true
	}
	for len(left) > 0 {
		head, err := archive.Next()
		if err != nil {
			return m, errors.Join(ErrBroken, err)
		}
		if !left[head.Name] || !slices.Contains(files, head.Name) || head.Typeflag != tar.TypeReg {
			return m, describe(head.Name, ErrBroken)
		}
		if head.Size > MaxSize || head.Name == seal.FileName && head.Size > maxManifest {
			return m, ErrTooLarge
		}
		delete(left, head.Name)
		got, err := write(filepath.Join(dir, head.Name), archive)
		if err != nil {
			return m, err
		}
		if got != m.Sums[head.Name] {
			return m, describe(head.Name, ErrBroken)
		}
	}
	return m, os.WriteFile(filepath.Join(dir, manifestName), text, 0o600)
}

// write makes a file, and returns its sum.
func write(file string, r io.Reader) (string, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, h), r)
	var disk *fs.PathError
	if err != nil && !errors.As(err, &disk) {
		err = errors.Join(ErrBroken, err)
	}
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}

// syncFiles has what is in a folder on the disk before anything relies on it.
func syncFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		f, err := os.OpenFile(filepath.Join(dir, e.Name()), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Staged is the backup that the next start puts in place; nil: none.
func Staged(folder string) *Manifest {
	text, err := os.ReadFile(filepath.Join(folder, pending, manifestName))
	var m Manifest
	if err != nil || json.Unmarshal(text, &m) != nil {
		return nil
	}
	return &m
}

// Cancel forgets what was staged. That there is nothing is no error.
func Cancel(folder string) error { return os.RemoveAll(filepath.Join(folder, pending)) }

// Swap puts what was staged in place, and what was there before into a folder whose
// name it returns; empty: nothing was staged. Nobody may have the database open. A
// crash on the way does no harm: the next Swap goes on.
func Swap(folder string) (kept string, err error) {
	from := filepath.Join(folder, moving)
	staged, err := os.Stat(filepath.Join(folder, pending))
	if err == nil && !exists(from) {
		// The name follows from what was staged, so that after a crash the rest of what
		// was there goes to the same place.
		old := filepath.Join(folder, before+staged.ModTime().UTC().Format("20060102-150405.000000"))
		if err := os.MkdirAll(old, 0o700); err != nil {
			return "", err
		}
		journals, err := filepath.Glob(filepath.Join(folder, "calls-*.journal"))
		if err != nil {
			return "", err
		}
		names := []string{store.FileName, store.FileName + "-wal", store.FileName + "-shm"}
		if exists(filepath.Join(folder, "turns.pending")) {
			names = append(names, "turns.pending") // of what was there, too
		}
		for _, j := range journals {
			names = append(names, filepath.Base(j))
		}
		// A backup without a key is of an installation whose key is here, or configured.
		if exists(filepath.Join(folder, pending, seal.FileName)) {
			names = append(names, seal.FileName)
		}
		for _, name := range names {
			if err := move(filepath.Join(folder, name), filepath.Join(old, name)); err != nil {
				return "", err
			}
		}
		if err := os.Rename(filepath.Join(folder, pending), from); err != nil {
			return "", err
		}
		kept = filepath.Base(old)
	}
	if !exists(from) {
		return "", nil
	}
	for _, name := range files {
		if err := move(filepath.Join(from, name), filepath.Join(folder, name)); err != nil {
			return kept, err
		}
	}
	if kept == "" { // it was begun before; tell at least that it was done
		kept = before + "…"
	}
	return kept, os.RemoveAll(from)
}

// move renames a file, if it is there.
func move(from, to string) error {
	if err := os.Rename(from, to); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
