//go:build !linux && !darwin

package store

// FreeSpace is not supported on this system.
func FreeSpace(string) (bytes uint64, ok bool) { return 0, false }
