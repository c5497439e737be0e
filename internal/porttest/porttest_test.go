package porttest_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"patchbay/internal/porttest"
)

func TestRefused(t *testing.T) {
	address := porttest.Refused(t)
	if l, err := net.Listen("tcp", address); err == nil {
		_ = l.Close()
		t.Errorf("%s is free for a listener", address)
	}
	if c, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialing %s: %v, %v", address, c, err)
	}
}
