package sim

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// meterInterval is how often a Meter reads the clock.
	meterInterval = 5 * time.Millisecond
	// meterThreshold is the delay above which a tick counts as late.
	meterThreshold = 10 * time.Millisecond
)

// Meter measures how long this process did not get the processor. A board that did not run receives
// everything at once afterwards, and would blame the server. Its methods are safe for concurrent
// use.
type Meter struct {
	stalled atomic.Int64
	stop    chan struct{}
	work    sync.WaitGroup
}

// NewMeter starts a measurement. Close ends it.
func NewMeter() *Meter {
	m := &Meter{stop: make(chan struct{})}
	m.work.Go(m.run)
	return m
}

func (m *Meter) run() {
	tick := time.NewTicker(meterInterval)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-m.stop:
			return
		}
		now := time.Now()
		if missed := now.Sub(last) - meterInterval; missed > meterThreshold {
			m.stalled.Add(int64(missed))
		}
		last = now
	}
}

// Stalled returns the time lost since NewMeter. It is for Options.Stalled.
func (m *Meter) Stalled() time.Duration { return time.Duration(m.stalled.Load()) }

// Close ends the measurement.
func (m *Meter) Close() {
	close(m.stop)
	m.work.Wait()
}
