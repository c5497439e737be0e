//go:build linux || darwin

package store

import "syscall"

// FreeSpace returns how many bytes this account can still write in a folder.
func FreeSpace(folder string) (bytes uint64, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
}
