// Package porttest has ports for tests.
package porttest

import (
	"net"
	"testing"
)

// Refused returns a local address that refuses connections until the test ends. It is the client's
// end of a connection: nothing listens there, and no other listener of this machine can be given
// its port meanwhile, as can happen with the port of a listener that was closed.
func Refused(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	other, err := l.Accept() // the listener would reset it when it closes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	return c.LocalAddr().String()
}
