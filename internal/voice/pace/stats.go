package pace

import "time"

// Stats are what happened while something was played.
type Stats struct {
	Frames int
	Texts  int
	// Stalls counts packets that came from the source a frame or more after they were
	// due, while the board still had sound.
	Stalls int
	// Gaps counts how often the board ran dry, and Silence for how long altogether.
	Gaps    int
	Silence time.Duration
	// Late counts packets that were sent more than 20 ms after they were due. Jitter
	// has how much after, of all of them, and Latest the worst.
	Late        int
	MaxLateness time.Duration
	Jitter      Histogram
}

// recordSent counts a packet that was sent this much after it was due.
func (s *Stats) recordSent(after time.Duration) {
	if after > lateThreshold {
		s.Late++
	}
	s.MaxLateness = max(s.MaxLateness, after)
	s.Jitter.Add(after)
}

// Bounds are the upper ends of the steps of a [Histogram]; its last step has none.
var Bounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 160 * time.Millisecond,
}

// Histogram counts durations by steps.
type Histogram [len(Bounds) + 1]uint64

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	i := 0
	for i < len(Bounds) && d > Bounds[i] {
		i++
	}
	h[i]++
}

// Merge adds the counts of another.
func (h *Histogram) Merge(other Histogram) {
	for i, n := range other {
		h[i] += n
	}
}

// Count is how many durations were counted.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h {
		n += c
	}
	return n
}

// Quantile is the upper end of the step in which the q-th part of the durations ends:
// 0.99 gives what 99 % did not exceed. It is an hour for the last step, and 0 if
// nothing was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	all := h.Count()
	var n uint64
	for i, c := range h {
		if n += c; n > 0 && float64(n) >= q*float64(all) {
			if i == len(Bounds) {
				return time.Hour
			}
			return Bounds[i]
		}
	}
	return 0
}
