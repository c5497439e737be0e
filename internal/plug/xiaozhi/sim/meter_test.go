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

// On a machine that may be busy, the server is blamed for what it does again and again,
// and not for what looked wrong once.
func TestDoubts(t *testing.T) {
	for _, c := range []struct {
		name  string
		gaps  []time.Duration // between start and audio
		sends int             // packets at once
		broke string
	}{
		{"once early", []time.Duration{0, startGap, 0, 0}, 1, ""},
		{"always early", []time.Duration{0, 0, 0}, 1, "C6"},
		{"crowded twice", []time.Duration{startGap, startGap}, 5, ""},
		{"always crowded", []time.Duration{startGap, startGap, startGap}, 5, "C7"},
	} {
		var report Report
		i := inspector{frame: wire.DownlinkFrame, ahead: 3, tight: true, report: &report, violate: report.violate, allowance: time.Second}
		now := time.Now()
		for _, gap := range c.gaps {
			i.start(now)
			now = now.Add(gap)
			for range c.sends {
				i.audio(now, wire.DownlinkFrame)
			}
			now = now.Add(time.Duration(c.sends) * wire.DownlinkFrame)
			i.stop(now)
			now = now.Add(time.Second)
		}
		if c.broke == "" && len(report.Violations) > 0 || c.broke != "" && !report.Broke(c.broke) {
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
