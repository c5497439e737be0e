package pace

import (
	"sync"
	"time"

	"patchbay/internal/voice/opus"
)

// Arrivals are what came from a board so far.
type Arrivals struct {
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
func (a Arrivals) SilentShare() float64 {
	if a.Packets == 0 {
		return 0
	}
	return float64(a.Silent) / float64(a.Packets)
}

// Intake counts the packets that come from one board in one session. It is safe for
// concurrent use, by the goroutine that receives and those that want to know.
type Intake struct {
	mu     sync.Mutex
	got    Arrivals
	parsed opus.Packet
	last   time.Time     // when the packet before came; zero if it does not matter
	length time.Duration // of the packet before
}

// Packet counts a packet that came at a time. It says whether it is one.
func (in *Intake) Packet(at time.Time, packet []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.parsed.Parse(packet); err != nil {
		in.got.Malformed++
		return false
	}
	in.got.Packets++
	in.got.Bytes += len(packet)
	if in.parsed.Silent() {
		in.got.Silent++
	}
	if !in.last.IsZero() {
		in.interval(at.Sub(in.last))
	}
	in.last, in.length = at, in.parsed.Duration()
	in.got.Sound += in.length
	return true
}

// interval counts the time since the packet before.
func (in *Intake) interval(d time.Duration) {
	switch {
	case d < in.length/4:
		in.got.Bursts++
		return
	case d >= 3*in.length: // two packets are missing
		in.got.Gaps++
		return
	}
	off := (d - in.length).Abs()
	in.got.Jitter.Add(off)
	in.got.Average += (off - in.got.Average) / 16
}

// Pause says that the board stops sending, as it should. The time until the next
// packet is no gap.
func (in *Intake) Pause() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.last = time.Time{}
}

// Dropped counts packets that we had no use or no room for.
func (in *Intake) Dropped(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.got.Dropped += n
}

// Missing counts packets that the transport says were lost.
func (in *Intake) Missing(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.got.Missing += n
}

// Arrivals are the counts so far.
func (in *Intake) Arrivals() Arrivals {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.got
}
