//go:build !unix

package mqtt

// writeNow writes nothing; flush writes everything.
func writeNow(uintptr, []byte) (int, error) { return 0, nil }
