package pace

import (
	"sync"
	"time"

	"patchbay/internal/voice/opus"
)

// ArrivalStats are the measurements of the packets that a board has sent.
type ArrivalStats struct {
	Packets   int
	Bytes     int
	Sound     time.Duration // total duration of the packets
	Silent    int           // packets of silence, of one byte
	Malformed int           // packets that are not Opus
	Dropped   int           // packets for which there was no use or no room
	Missing   int           // packets that the transport reported as lost
	// Gaps counts pauses that are two packets or more longer than usual.
	Gaps int
	// Bursts counts packets that came right after the one before: the network delayed them, or the
	// board recorded them before it had a connection.
	Bursts int
	// Jitter has the deviations of all other packets from their expected time, and Average is the
	// interarrival jitter of RFC 3550 §6.4.1.
	Jitter  Histogram
	Average time.Duration
}

// SilentShare is the share of silent packets, 0 to 1.
func (a ArrivalStats) SilentShare() float64 {
	if a.Packets == 0 {
		return 0
	}
	return float64(a.Silent) / float64(a.Packets)
}

// ArrivalCounter measures the packets of one board in one session. It is safe for concurrent use.
type ArrivalCounter struct {
	mu     sync.Mutex
	stats  ArrivalStats
	parsed opus.Packet
	last   time.Time     // when the packet before came; zero after a pause
	length time.Duration // duration of the packet before
}

// Packet counts a packet that came at the given time. It reports whether the packet is valid.
func (in *ArrivalCounter) Packet(at time.Time, packet []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.parsed.Parse(packet); err != nil {
		in.stats.Malformed++
		return false
	}
	in.stats.Packets++
	in.stats.Bytes += len(packet)
	if in.parsed.IsSilent() {
		in.stats.Silent++
	}
	if !in.last.IsZero() {
		in.interval(at.Sub(in.last))
	}
	in.last, in.length = at, in.parsed.Duration()
	in.stats.Sound += in.length
	return true
}

// interval records the time since the packet before.
func (in *ArrivalCounter) interval(d time.Duration) {
	switch {
	case d < in.length/4:
		in.stats.Bursts++
		return
	case d >= 3*in.length: // at least two packets are missing
		in.stats.Gaps++
		return
	}
	off := (d - in.length).Abs()
	in.stats.Jitter.Add(off)
	in.stats.Average += (off - in.stats.Average) / 16
}

// Pause marks an expected end of transmission. The time until the next packet does not count as a
// gap.
func (in *ArrivalCounter) Pause() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.last = time.Time{}
}

// Dropped counts packets for which there was no use or no room.
func (in *ArrivalCounter) Dropped(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stats.Dropped += n
}

// Missing counts packets that the transport reported as lost.
func (in *ArrivalCounter) Missing(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stats.Missing += n
}

// Stats returns the counts so far.
func (in *ArrivalCounter) Stats() ArrivalStats {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.stats
}
