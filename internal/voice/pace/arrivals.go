package pace

import (
	"sync"
	"time"

	"patchbay/internal/voice/opus"
)

// ArrivalStats are what came from a board so far.
type ArrivalStats struct {
	Packets   int
	Bytes     int
	Sound     time.Duration // of all packets
	Silent    int           // packets of silence, of one byte
	Malformed int           // packets that are not Opus
	Dropped   int           // packets that we had no use or no room for
	Missing   int           // packets that the transport says were lost
	// Gaps counts pauses of two packets and more between packets.
	Gaps int
	// Bursts counts packets that came right after the one before: kept back, by the
	// network or because they are what was said before the board had a connection.
	Bursts int
	// Jitter has how much the others came before or after their time, and Average
	// what RFC 3550 calls the interarrival jitter.
	Jitter  Histogram
	Average time.Duration
}

// SilentShare is which part of the packets, 0 to 1, is silence.
func (a ArrivalStats) SilentShare() float64 {
	if a.Packets == 0 {
		return 0
	}
	return float64(a.Silent) / float64(a.Packets)
}

// ArrivalCounter counts the packets that come from one board in one session. It is safe for
// concurrent use, by the goroutine that receives and those that want to know.
type ArrivalCounter struct {
	mu     sync.Mutex
	stats  ArrivalStats
	parsed opus.Packet
	last   time.Time     // when the packet before came; zero if it does not matter
	length time.Duration // of the packet before
}

// Packet counts a packet that came at a time. It reports whether it is one.
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

// interval counts the time since the packet before.
func (in *ArrivalCounter) interval(d time.Duration) {
	switch {
	case d < in.length/4:
		in.stats.Bursts++
		return
	case d >= 3*in.length: // two packets are missing
		in.stats.Gaps++
		return
	}
	off := (d - in.length).Abs()
	in.stats.Jitter.Add(off)
	in.stats.Average += (off - in.stats.Average) / 16
}

// Pause says that the board stops sending, as it should. The time until the next
// packet is no gap.
func (in *ArrivalCounter) Pause() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.last = time.Time{}
}

// Dropped counts packets that we had no use or no room for.
func (in *ArrivalCounter) Dropped(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stats.Dropped += n
}

// Missing counts packets that the transport says were lost.
func (in *ArrivalCounter) Missing(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stats.Missing += n
}

// Stats are the counts so far.
func (in *ArrivalCounter) Stats() ArrivalStats {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.stats
}
