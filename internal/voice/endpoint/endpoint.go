// Package endpoint detects where speech begins and ends in the packets of a voice board, without
// decoding them.
//
// SILK has a voice activity flag for every 20 ms (RFC 6716 §4.2.3). A single flag means little:
// steady noise, such as that of a fan, sets every third, often several in a row. Speech sets nearly
// all of them. So speech begins when nearly all of 15 flags are set, which noise causes about once
// in two minutes. While somebody speaks, six of nine are enough to continue, because a word after a
// pause has to be detected before the pause counts as the end.
//
// Encoders need up to two seconds to adapt to a noise, and take it for a voice meanwhile. Voices
// from a television are voices.
//
// CELT has no flags. There a packet is voice if it has more than a third of the bytes of the
// largest packet so far, and more than silence needs. That works if the bit rate is variable and
// the room is quiet. Elsewhere every packet counts as voice, so the caller needs a limit for the
// duration of speech.
package endpoint

import (
	"math/bits"
	"time"

	"patchbay/internal/voice/opus"
)

const (
	// flagDuration is the duration that one flag covers (RFC 6716 §4.2.3).
	flagDuration = 20 * time.Millisecond
	// window is the number of flags that decide whether speech begins: 300 ms.
	window = 15
	// continueFlags of the last shortWindow flags have to be set for speech to continue.
	continueFlags, shortWindow = 6, 9
	// celtSilence is the maximum size of 20 ms of silence in CELT, in bytes; 10 are 4 kbit/s. At 24
	// kbit/s libopus 1.5.2 makes 3 bytes of silence, and 55 and more of every audible sound.
	celtSilence = 10
)

// Options define what speech and what a pause is.
type Options struct {
	// Silence is the duration without voice after which speech has ended; 0 means 800 ms.
	Silence time.Duration
	// Speech is how many of 15 consecutive flags of 20 ms have to be set for speech to begin, 1 to
	// 15. 0 means 13: a word of a quarter of a second is enough. With 12, steady noise begins
	// speech three times as often, and with 6 all the time.
	Speech int
}

// Event is a state change caused by a packet.
type Event int

// The events.
const (
	None  Event = iota
	Began       // speech began at most 300 ms ago
	Ended       // there was no voice for Options.Silence
)

// Detector detects the speech of one board. Its clock is the duration of the packets: a packet that
// is never received takes no time, so a caller that waits for the end of speech needs a timeout as
// well. It is not safe for concurrent use.
type Detector struct {
	options  Options
	packet   opus.Packet
	length   time.Duration // of the packet before; 0 if there was none
	flags    uint16        // the last ones; the newest is the lowest bit
	speaking bool
	voiced   time.Duration
	quiet    time.Duration // time since the last voice, while speaking
	largest  int           // largest number of bytes for 20 ms of CELT
}

// New returns a detector in its initial state.
func New(o Options) *Detector {
	if o.Silence <= 0 {
		o.Silence = 800 * time.Millisecond
	}
	if o.Speech <= 0 {
		o.Speech = 13
	}
	o.Speech = min(o.Speech, window)
	return &Detector{options: o}
}

// Reset restores the initial state, as for another conversation.
func (d *Detector) Reset() {
	*d = Detector{options: d.options}
}

// IsSpeaking reports whether speech has begun and not ended yet.
func (d *Detector) IsSpeaking() bool { return d.speaking }

// VoicedDuration is the duration of voice since speech began, without the pauses. It is kept after
// speech has ended, until speech begins again.
func (d *Detector) VoicedDuration() time.Duration { return d.voiced }

// Packet processes a packet. A malformed packet counts as silence, as long as the packet before. It
// does not keep data, and allocates nothing for a valid packet.
func (d *Detector) Packet(data []byte) (e Event) {
	active, of := d.packetFlags(data)
	each := d.length / time.Duration(of)
	// The positions of a packet's flags are ignored. Voice that was there continues from the start
	// of the packet, and new voice begins towards its end.
	first := 0
	if d.flags&1 == 0 {
		first = of - active
	}
	for i := range of {
		set := i >= first && i < first+active
		if d.addFlag(set, each) {
			e = Began
		}
	}
	if d.speaking && d.quiet >= d.options.Silence && e == None {
		d.speaking = false
		e = Ended
	}
	return e
}

// addFlag processes a flag. It reports whether speech begins with it.
func (d *Detector) addFlag(set bool, each time.Duration) (began bool) {
	d.flags = d.flags << 1 & (1<<window - 1)
	if set {
		d.flags |= 1
	}
	all := bits.OnesCount16(d.flags)
	newest := bits.OnesCount16(d.flags & (1<<shortWindow - 1))
	switch enough := all >= d.options.Speech; {
	case !d.speaking && set && enough:
		d.speaking, d.quiet, d.voiced = true, 0, time.Duration(all)*each
		return true
	case d.speaking && set && (enough || newest >= continueFlags):
		d.quiet = 0
		d.voiced += each
	case d.speaking:
		d.quiet += each
	}
	return false
}

// packetFlags returns the number of flags of a packet, at least one, and how many are set.
func (d *Detector) packetFlags(data []byte) (active, of int) {
	if err := d.packet.Parse(data); err != nil {
		return 0, flagCount(d.length)
	}
	d.length = d.packet.Duration()
	if active, of = d.packet.VoiceFlags(); of > 0 {
		return active, of
	}
	of = flagCount(d.length)
	size := (len(data) - d.packet.Padding) / of
	d.largest = max(d.largest, size)
	if size <= celtSilence || 3*size <= d.largest {
		return 0, of
	}
	return of, of
}

// flagCount is the number of flags that a packet of this duration would have.
func flagCount(length time.Duration) int { return max(1, int(length/flagDuration)) }
