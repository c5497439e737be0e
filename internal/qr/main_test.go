package qr

import (
	"os"
	"testing"
	"time"
)

// What can be read must not depend on how busy the machine is that runs the
// tests.
func TestMain(m *testing.M) {
	budget = 2 * time.Minute
	os.Exit(m.Run())
}
