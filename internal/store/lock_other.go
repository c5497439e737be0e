//go:build !unix || aix || solaris

package store

import (
	"errors"
	"os"
)

// LockFile always fails: this system has no file locks. Calls are then committed without a journal,
// and a second server on a data folder is not detected.
func LockFile(*os.File) (bool, error) {
	return false, errors.New("files cannot be locked on this system")
}
