package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// What comes at once because the board itself stood still is not the server's fault.
func TestStoodStill(t *testing.T) {
	for _, c := range []struct {
		name  string
		still time.Duration
		broke bool
	}{{"the server sends all at once", 0, true}, {"the board stood still", 1200 * time.Millisecond, false}} {
		var report Report
		held := 3 * time.Second // before the answer
		i := inspector{
			frame: wire.DownlinkFrame, ahead: 3, report: &report, held: func() time.Duration { return held },
			violate: report.violate,
		}
		now := time.Now()
		i.start(now)
		now = now.Add(startGap + c.still)
		held += c.still
		for range 20 {
			i.audio(now, wire.DownlinkFrame)
		}
		if report.Broke("C7") != c.broke {
			t.Errorf("%s: %v", c.name, report.Violations)
		}
	}
}

// A meter of a process that runs all the time has nothing to tell.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter()
		defer m.Close()
		time.Sleep(time.Minute)
		if held := m.Held(); held != 0 {
			t.Errorf("held for %v", held)
		}
	})
}
