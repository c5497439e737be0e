package sim

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// beat is how often a Meter looks at the clock.
	beat = 5 * time.Millisecond
	// late is from when a beat counts as missed.
	late = 10 * time.Millisecond
)

// Meter measures for how long this process was not given the processor. A board that
// stood still takes what came meanwhile all at once, and would blame the server. Its
// methods may be called by many goroutines.
type Meter struct {
	held atomic.Int64
	stop chan struct{}
	work sync.WaitGroup
}

// NewMeter begins to measure. Close ends it.
func NewMeter() *Meter {
	m := &Meter{stop: make(chan struct{})}
	m.work.Go(m.run)
	return m
}

func (m *Meter) run() {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-m.stop:
			return
		}
		now := time.Now()
		if missed := now.Sub(last) - beat; missed > late {
			m.held.Add(int64(missed))
		}
		last = now
	}
}

// Held is how long the process stood still since the beginning, for Options.Held.
func (m *Meter) Held() time.Duration { return time.Duration(m.held.Load()) }

// Close ends the measuring.
func (m *Meter) Close() {
	close(m.stop)
	m.work.Wait()
}
