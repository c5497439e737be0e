//go:build unix && !aix && !solaris

package store

import (
	"errors"
	"os"
	"syscall"
)

// LockFile locks an open file until it is closed, and reports whether it could: another process, or
// another part of this one, may hold the lock. The system releases the locks of a process that
// ends.
func LockFile(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		}
		return err == nil, err
	}
}
