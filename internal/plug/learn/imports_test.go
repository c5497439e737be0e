package learn_test

import (
	"testing"

	"patchbay/internal/plug/learn"
)

// Two files at a time are received and imported.
func TestImportsAtATime(t *testing.T) {
	s := learn.New(learn.Options{})
	release, ok := s.ReserveImport()
	if _, second := s.ReserveImport(); !ok || !second {
		t.Fatal("there are no two places")
	}
	if _, third := s.ReserveImport(); third {
		t.Error("there is a third place")
	}
	release()
	if _, ok := s.ReserveImport(); !ok {
		t.Error("no place is free again")
	}
}
