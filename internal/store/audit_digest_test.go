package store

import (
	"slices"
	"testing"
)

// Links from before a column or an outcome was renamed stay valid.
func TestDigestNames(t *testing.T) {
	if got := digestNames("id, channel, action, tool"); !slices.Equal(got, []string{"id", "door", "act", "tool"}) {
		t.Errorf("the digest of a row has %v", got)
	}
	names := []string{"id", "outcome"}
	if digest(linkCall, names, []any{"a", "tool_error"}) != digest(linkCall, names, []any{"a", "trouble"}) {
		t.Error("an outcome was hashed under its new name")
	}
}
