package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"patchbay/internal/backup"
	"patchbay/internal/store"
)

// removeLeftovers removes what is left in a data folder of backups whose process was killed: full
// copies of the database, which would take the room of the next one. A backup that is being written
// holds a lock, and stays. Where files cannot be locked everything stays.
func removeLeftovers(data string) error {
	return errors.Join(
		removeUnlocked(data, backup.WorkPrefix+"*", backup.LockName),
		removeUnlocked(filepath.Join(data, upgradeFolder), "*"+partSuffix, ""))
}

// removeUnlocked removes what matches a pattern in a folder, and is not locked by a process. The
// lock is that of a file in it, or of itself if lock is empty.
func removeUnlocked(folder, pattern, lock string) error {
	list, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range list {
		if match, _ := filepath.Match(pattern, e.Name()); match && e.IsDir() == (lock != "") { //nolint:errcheck // ours
			path := filepath.Join(folder, e.Name())
			err = errors.Join(err, removeIfUnlocked(path, filepath.Join(path, lock)))
		}
	}
	return err
}

func removeIfUnlocked(path, lock string) error {
	f, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if free, err := store.LockFile(f); err != nil || !free {
		return nil //nolint:nilerr // without locks nobody knows who uses it
	}
	return os.RemoveAll(path)
}
