//go:build unix

package mqtt

import (
	"errors"
	"syscall"
)

// writeNow writes what the socket takes without blocking.
func writeNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return 0, nil
		default:
			return max(n, 0), err
		}
	}
}
