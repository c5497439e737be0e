package pace

import "time"

// Stats are the measurements of one playback.
type Stats struct {
	Frames int
	Texts  int
	// Waiting is the sound that was sent and that the board had not played when the playback ended.
	Waiting time.Duration
	// Stalls counts packets that the source returned a frame or more after they were due, while the
	// board still had packets.
	Stalls int
	// Gaps counts how often the board ran out of packets, and Silence is the total duration of
	// that.
	Gaps    int
	Silence time.Duration
	// Late counts packets that were sent more than 20 ms after they were due. Jitter has the delays
	// of all packets, and MaxLateness the longest.
	Late        int
	MaxLateness time.Duration
	Jitter      Histogram
}

// recordSent records a packet that was sent with the given delay.
func (s *Stats) recordSent(after time.Duration) {
	if after > lateThreshold {
		s.Late++
	}
	s.MaxLateness = max(s.MaxLateness, after)
	s.Jitter.Add(after)
}

// Bounds are the upper bounds of the buckets of a [Histogram]; its last bucket has none.
var Bounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 160 * time.Millisecond,
}

// Histogram counts durations in buckets.
type Histogram [len(Bounds) + 1]uint64

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	i := 0
	for i < len(Bounds) && d > Bounds[i] {
		i++
	}
	h[i]++
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(other Histogram) {
	for i, n := range other {
		h[i] += n
	}
}

// Count is the number of durations.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h {
		n += c
	}
	return n
}

// Quantile returns the upper bound of the bucket with the q-th quantile: 0.99 returns what 99 % did
// not exceed. It is an hour for the last bucket, and 0 if the histogram is empty.
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
