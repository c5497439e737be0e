//go:build !unix || aix || solaris

package board

import (
	"errors"
	"os"
)

// lockFile fails: without a lock nobody knows whose a journal is, so that there is
// none, and calls wait for their commit.
func lockFile(*os.File) (bool, error) {
	return false, errors.New("files cannot be locked on this system")
}
