package app

import (
	"testing"
	"time"

	"patchbay/internal/voice/engine"
)

func TestPercentiles(t *testing.T) {
	var s speechState
	check := func(median, p95 int64) {
		t.Helper()
		if m, p := s.speak.percentiles(); m != median || p != p95 {
			t.Errorf("%d and %d ms, want %d and %d", m, p, median, p95)
		}
	}
	check(0, 0)
	s.succeeded(engine.StageSpeak, 20*time.Microsecond)
	check(1, 1)
	for i := range maxTimes + 1 { // the first ones are forgotten
		s.succeeded(engine.StageSpeak, time.Duration(i)*time.Millisecond)
	}
	check(51, 95)
	if m, _ := s.listen.percentiles(); m != 0 {
		t.Error("it has listened")
	}
}
