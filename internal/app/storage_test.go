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

// Whether there is room is found out again and again; the log has one line for each change.
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
		state  string // that is told
		again  string // after the next look
		lines  string // words of lines that the log has then
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
			if got := s.failing(); !slices.Equal(got, failing) || s.now() != step.state {
				t.Errorf("%s: it says %q and %q", step.what, got, s.now())
			}
		}
		for range 3 {
			s.look(t.Context())
		}
		if s.now() != step.again || s.free.Load() != step.free {
			t.Errorf("%s: it says %q then, and %d bytes", step.what, s.now(), s.free.Load())
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
	known = false // a system that does not tell
	if free = 0; s.now() != "" {
		t.Errorf("it says %q", s.now())
	}
}
