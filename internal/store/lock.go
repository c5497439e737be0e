package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// LockName is the file in the data folder that a running server keeps locked. Its content
// identifies the server.
const LockName = "server.lock"

// Holder identifies the server that uses a data folder.
type Holder struct {
	PID int    `json:"pid"`
	URL string `json:"url,omitempty"` // empty: still starting
}

// HeldError reports that another server uses a data folder.
type HeldError struct {
	Folder string
	Holder Holder
}

// Error implements error.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is in use by process %d", e.Folder, e.Holder.PID)
}

// ErrCannotLock reports that the system or the file system does not support locks.
var ErrCannotLock = errors.New("files cannot be locked here")

// FolderLock prevents other servers from using a data folder with a SQLite database. Other programs
// may open the database. The lock ends with the process, even if it is killed; the file remains.
type FolderLock struct{ f *os.File }

// LockFolder locks a data folder, creating the folder if missing. It returns a [*HeldError] if
// another server has the lock.
func LockFolder(folder string) (*FolderLock, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(folder, LockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	locked, err := LockFile(f)
	switch {
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("%w: %w", ErrCannotLock, err)
	case !locked:
		defer f.Close()
		held := &HeldError{Folder: folder}
		const maxHolder = 4 << 10
		if text, err := io.ReadAll(io.LimitReader(f, maxHolder)); err == nil {
			json.Unmarshal(text, &held.Holder) //nolint:errcheck // a partly written holder is left out
		}
		return nil, held
	}
	l := &FolderLock{f}
	if err := l.Announce(""); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

// Announce writes the holder's process id and URL into the lock file.
func (l *FolderLock) Announce(url string) error {
	if l == nil {
		return nil
	}
	text, err := json.Marshal(Holder{PID: os.Getpid(), URL: url})
	if err != nil {
		return err
	}
	if err := l.f.Truncate(0); err != nil {
		return fmt.Errorf("lock the data folder: %w", err)
	}
	if _, err := l.f.WriteAt(text, 0); err != nil {
		return fmt.Errorf("lock the data folder: %w", err)
	}
	return nil
}

// Close releases the lock.
func (l *FolderLock) Close() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}
