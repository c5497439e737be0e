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

// Reasons to reject a backup.
var (
	ErrNotBackup = errors.New("this is no backup of Patchbay")
	ErrBroken    = errors.New("the backup is broken: a file in it is not what it was")
	ErrTooLarge  = errors.New("the backup is too large")
	ErrSecret    = errors.New("the secrets in the backup were sealed with another key than the one that is configured")
)

// Folders inside the data folder.
const (
	unpackFolder  = "restore.new"     // unpacked, not yet verified
	pendingFolder = "restore.pending" // to be moved into place at the next start
	movingFolder  = "restore.moving"  // the same, after the previous files have been moved away
	// oldFolderPrefix is the prefix of the folder with the previous files.
	oldFolderPrefix = "before-restore-"
)

// files are the files that a backup may contain besides its manifest.
var files = []string{store.FileName, seal.FileName}

// Stage reads and verifies a backup and unpacks it into the data folder, for [Swap] at the next
// start. passphrase is used if the backup is encrypted. configured is the configured secret; empty
// if the secret is in the data folder. A previously staged backup is replaced. If the backup itself
// is the cause, the error is, or wraps, one of the Err… of this package, [store.ErrDamaged] or
// [store.ErrNewer].
func Stage(ctx context.Context, r io.Reader, passphrase, folder, configured string) (Manifest, error) {
	archive, err := decrypt(reader{ctx, r}, passphrase)
	if err != nil {
		return Manifest{}, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return Manifest{}, err
	}
	dir := filepath.Join(folder, unpackFolder)
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
		if !m.openedBy(configured) {
			return m, ErrSecret
		}
	} else if secret, err := seal.ReadFile(dir); err == nil {
		if !m.openedBy(secret) {
			return m, fileError(seal.FileName, ErrBroken)
		}
	} else if secret, err := seal.ReadFile(folder); err != nil || !m.openedBy(secret) {
		// The secret was configured when the backup was made, and the local file has another.
		return m, ErrSecret
	}
	if err := syncFiles(dir); err != nil {
		return m, err
	}
	if err := Cancel(folder); err != nil {
		return m, err
	}
	return m, os.Rename(dir, filepath.Join(folder, pendingFolder))
}

// unpack writes the files of a backup into a folder and verifies their sums.
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
		return m, fileError(manifestName, ErrBroken)
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
			return m, fileError(head.Name, ErrBroken)
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
			return m, fileError(head.Name, ErrBroken)
		}
	}
	return m, os.WriteFile(filepath.Join(dir, manifestName), text, 0o600)
}

// write creates a file and returns its SHA-256 in hex.
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

// syncFiles flushes the files of a folder to disk before anything relies on them.
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

// Staged returns the manifest of the staged backup, or nil if there is none.
func Staged(folder string) *Manifest {
	text, err := os.ReadFile(filepath.Join(folder, pendingFolder, manifestName))
	var m Manifest
	if err != nil || json.Unmarshal(text, &m) != nil {
		return nil
	}
	return &m
}

// Cancel deletes the staged backup, if any.
func Cancel(folder string) error { return os.RemoveAll(filepath.Join(folder, pendingFolder)) }

// Swap moves the staged backup into place and the previous files into a folder whose name it
// returns; empty: nothing was staged. The database must not be open. After a crash the next Swap
// continues.
func Swap(folder string) (kept string, err error) {
	from := filepath.Join(folder, movingFolder)
	staged, err := os.Stat(filepath.Join(folder, pendingFolder))
	if err == nil && !exists(from) {
		// The name is derived from the staged backup, so that after a crash the remaining files go
		// to the same folder.
		old := filepath.Join(folder, oldFolderPrefix+staged.ModTime().UTC().Format("20060102-150405.000000"))
		if err := os.MkdirAll(old, 0o700); err != nil {
			return "", err
		}
		journals, err := filepath.Glob(filepath.Join(folder, "calls-*.journal"))
		if err != nil {
			return "", err
		}
		names := []string{store.FileName, store.FileName + "-wal", store.FileName + "-shm"}
		for _, turns := range []string{"turns.pending", "turns.running"} { // belong to the previous data
			if exists(filepath.Join(folder, turns)) {
				names = append(names, turns)
			}
		}
		for _, j := range journals {
			names = append(names, filepath.Base(j))
		}
		// Without a key in the backup, the current key file or the configured one opens it.
		if exists(filepath.Join(folder, pendingFolder, seal.FileName)) {
			names = append(names, seal.FileName)
		}
		for _, name := range names {
			if err := renameIfExists(filepath.Join(folder, name), filepath.Join(old, name)); err != nil {
				return "", err
			}
		}
		if err := os.Rename(filepath.Join(folder, pendingFolder), from); err != nil {
			return "", err
		}
		kept = filepath.Base(old)
	}
	if !exists(from) {
		return "", nil
	}
	for _, name := range files {
		if err := renameIfExists(filepath.Join(from, name), filepath.Join(folder, name)); err != nil {
			return kept, err
		}
	}
	if kept == "" { // resumed after a crash: the exact name is unknown
		kept = oldFolderPrefix + "…"
	}
	return kept, os.RemoveAll(from)
}

// renameIfExists renames a file if it exists.
func renameIfExists(from, to string) error {
	if err := os.Rename(from, to); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
