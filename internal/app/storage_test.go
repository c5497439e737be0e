package app

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// The free space is checked repeatedly; the log has one line per change.
func TestStorageWatched(t *testing.T) {
	free, known, unkept, rekept := uint64(10<<30), true, false, 0
	var log bytes.Buffer
	s := &storage{
		db: storetest.SQLite(t), folder: "data", log: slog.New(slog.NewTextHandler(&log, nil)),
		unkept: func() bool { return unkept }, rekept: func() { unkept = false; rekept++ },
		space: func(string) (uint64, bool) { return free, known },
	}
	for _, step := range []struct {
		what   string
		free   uint64
		unkept bool
		state  string // reported
		again  string // after the next check
		lines  string // words in the new log lines
	}{
		{"all is well", 10 << 30, false, "", "", ""},
		{"little room", store.LittleSpace - 1, false, diskLow, diskLow, "little"},
		{"hardly any", store.NoSpace - 1, false, diskFull, diskFull, "ready"},
		{"none", 0, false, diskFull, diskFull, ""},
		{"little again", store.NoSpace, false, diskLow, diskLow, "little"},
		{"room again", 10 << 30, false, "", "", "again"},
		{"a turn is lost", 10 << 30, true, notKept, "", "ready again"},
	} {
		log.Reset()
		free, unkept = step.free, step.unkept
		var failing []string
		if step.state != "" && step.state != diskLow {
			failing = []string{step.state}
		}
		for range 3 {
			if got := s.failing(); !slices.Equal(got, failing) || s.current() != step.state {
				t.Errorf("%s: it says %q and %q", step.what, got, s.current())
			}
		}
		for range 3 {
			s.measure(t.Context())
		}
		if s.current() != step.again || s.free.Load() != step.free {
			t.Errorf("%s: it says %q then, and %d bytes", step.what, s.current(), s.free.Load())
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		words := strings.Fields(step.lines)
		if log.Len() == 0 {
			lines = nil
		}
		if len(lines) != len(words) {
			t.Errorf("%s: the log has %q", step.what, lines)
			continue
		}
		for i, word := range words {
			if !strings.Contains(lines[i], word) {
				t.Errorf("%s: the log has %q", step.what, lines)
			}
		}
	}
	if rekept != 1 {
		t.Errorf("it said %d times that turns can be kept", rekept)
	}
	known = false // a system that does not report free space
	if free = 0; s.current() != "" {
		t.Errorf("it says %q", s.current())
	}
}
