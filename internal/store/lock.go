package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// LockName is the file in the data folder that a running server holds locked. Its
// content names the server.
const LockName = "server.lock"

// Holder is the server that holds a data folder.
type Holder struct {
	PID int    `json:"pid"`
	URL string `json:"url,omitempty"` // empty: it is still starting
}

// HeldError is returned for a data folder that another server holds.
type HeldError struct {
	Folder string
	Holder Holder
}

// Error implements error.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is in use by process %d", e.Folder, e.Holder.PID)
}

// ErrCannotLock is returned where the system or the file system has no locks.
var ErrCannotLock = errors.New("files cannot be locked here")

// FolderLock keeps other servers away from a data folder with a SQLite database. Other
// programs may open the database beside it. The lock ends with the process, however that
// ends; the file stays.
type FolderLock struct{ f *os.File }

// LockFolder takes the lock of a data folder, and makes the folder if it is missing. The
// error is a [*HeldError] if another server has the lock.
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
			json.Unmarshal(text, &held.Holder) //nolint:errcheck // a name that is only half written is left out
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

// Announce writes who holds the lock, and where it serves.
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

// Close gives the lock back.
func (l *FolderLock) Close() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}
