// Package slowtest judges promised times in tests, by how slow the machine is meanwhile.
package slowtest

import (
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
)

// Clock measures how long something took, and how long the test did not get the processor.
type Clock struct {
	meter *sim.Meter
	began time.Time
	parts time.Duration
}

// Start starts a clock, which is stopped when the test ends. parts is the number of processes that
// take part beside this one: on a machine that keeps this process waiting, each of them waits as
// long.
func Start(t testing.TB, parts int) *Clock {
	c := &Clock{meter: sim.NewMeter(), parts: time.Duration(parts)}
	t.Cleanup(c.meter.Close)
	c.began = time.Now()
	return c
}

// Limit returns the time that is promised, stretched by how slow the machine is since the start.
func (c *Clock) Limit(promised time.Duration) time.Duration {
	return promised + (1+c.parts)*c.meter.Stalled()
}

// Check fails the test if what began at the start has not ended within a promised time.
func (c *Clock) Check(t testing.TB, what string, ended time.Time, promised time.Duration) {
	t.Helper()
	if took, limit := ended.Sub(c.began), c.Limit(promised); took > limit {
		t.Errorf("%s: after %v; promised are %v, on this machine %v", what, took, promised, limit)
	}
}

// Over reports whether a promised time has passed.
func (c *Clock) Over(promised time.Duration) bool { return time.Since(c.began) > c.Limit(promised) }
