package store

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// WriteDurably puts a file in its place, over one that is there. When it returns the file
// is on the disk; if the machine dies before, there is the old one, whole, or none. Others
// may not read it.
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
		return nil // it cannot sync a folder, and needs not
	}
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
