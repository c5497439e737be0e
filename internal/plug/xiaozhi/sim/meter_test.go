package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// Packets that arrive at once because the board's process did not run are not a violation.
func TestStoodStill(t *testing.T) {
	for _, c := range []struct {
		name  string
		still time.Duration
		broke bool
	}{{"the server sends all at once", 0, true}, {"the board stood still", 1200 * time.Millisecond, false}} {
		var report Report
		held := 3 * time.Second // before the answer
		i := inspector{
			frame: wire.DownlinkFrame, ahead: 3, report: &report, stalledTime: func() time.Duration { return held },
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

// With Slack, the server is blamed for what looks wrong again and again, not for what looked wrong
// once. The more the process had to wait for the processor, the more often that has to be.
func TestDoubts(t *testing.T) {
	for _, c := range []struct {
		name  string
		gaps  []time.Duration // from start to audio
		sends int             // packets at once
		held  time.Duration   // how long the process did not run, before all of it
		broke string
	}{
		{"once early", []time.Duration{0, startGap, 0, 0}, 1, 0, ""},
		{"always early", []time.Duration{0, 0, 0}, 1, 0, "C6"},
		{"always early, on a busy machine", []time.Duration{0, 0, 0}, 1, doubtStall, ""},
		{"always early, on a busy machine, and long", []time.Duration{0, 0, 0, 0}, 1, doubtStall, "C6"},
		{"crowded twice", []time.Duration{startGap, startGap}, 5, 0, ""},
		{"always crowded", []time.Duration{startGap, startGap, startGap}, 5, 0, "C7"},
	} {
		var report Report
		i := inspector{frame: wire.DownlinkFrame, ahead: 3, tight: true, report: &report, violate: report.violate,
			allowance: time.Second, stalledTime: func() time.Duration { return c.held }}
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

// The meter of a process that always runs stays at zero.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter()
		defer m.Close()
		time.Sleep(time.Minute)
		if held := m.Stalled(); held != 0 {
			t.Errorf("held for %v", held)
		}
	})
}
