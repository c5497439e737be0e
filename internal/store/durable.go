package store

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// WriteDurably atomically replaces or creates a file with permissions 0600 and syncs it to disk.
// After a crash there is the old file, complete, the new one, or none if there was none before.
func WriteDurably(path string, data []byte) error {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync a folder and does not need to
	}
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
