package qr

import (
	"os"
	"testing"
	"time"
)

// TestMain increases the budget: results must not depend on the load of the machine.
func TestMain(m *testing.M) {
	budget = 2 * time.Minute
	os.Exit(m.Run())
}
