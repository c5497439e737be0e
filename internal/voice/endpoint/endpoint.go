// Package endpoint hears where speech begins and ends in the packets of a voice
// board, without decoding them.
//
// SILK says for every 20 ms whether its encoder heard a voice. A single one of these
// flags means little: in steady noise, such as a fan's, every third is set, often
// several in a row. Speech sets nearly all of them. So speech begins when nearly all
// of 15 flags are set, which noise brings about once in two minutes. While somebody
// speaks, less is enough to go on, because a word after a pause has to be heard before
// the pause is an end: six of nine.
//
// Encoders need up to two seconds to get used to a noise, and take it for a voice
// meanwhile. Voices from a television are voices.
//
// CELT has no flags. There what counts is size: a packet is voice if it has more
// than a third of the bytes of the largest one so far, and more than those of silence.
// That works where the bit rate varies and the room is quiet. Elsewhere everything is
// voice, from the first packet to the last, so that whoever waits for the end needs a
// limit.
package endpoint

import (
	"math/bits"
	"time"

	"patchbay/internal/voice/opus"
)

const (
	// flagDuration is the time that one flag is about.
	flagDuration = 20 * time.Millisecond
	// window is how many flags are looked at together when speech may begin: 300 ms.
	window = 15
	// continueFlags of the last shortWindow flags are needed to go on.
	continueFlags, shortWindow = 6, 9
	// celtSilence is how many bytes CELT may take for 20 ms of silence, 4 kbit/s. At 24
	// kbit/s libopus takes 3 of them, and 55 and more for all that can be heard.
	celtSilence = 10
)

// Options say what is speech and what is a pause.
type Options struct {
	// Silence is how long nobody has to speak until speech has ended; 0 means 800 ms.
	Silence time.Duration
	// Speech is how many of 15 flags of 20 ms in a row have to be set for speech to
	// begin, 1 to 15. 0 means 13: a word of a quarter of a second begins it. With 12
	// steady noise does three times as often, and with 6 all the time.
	Speech int
}

// Event is what a packet changed.
type Event int

// The events.
const (
	None  Event = iota
	Began       // somebody speaks, and began 300 ms ago or a little less
	Ended       // nobody has spoken for as long as Options.Silence
)

func (e Event) String() string { return [...]string{"none", "began", "ended"}[e] }

// Detector listens to one board. Its time is that of the packets, one after the
// other: a packet that does not come takes none, so that whoever waits for an end
// needs a clock as well. It is for one goroutine.
type Detector struct {
	options  Options
	packet   opus.Packet
	length   time.Duration // of the packet before; 0: there was none
	flags    uint16        // the last ones; the newest is the lowest bit
	speaking bool
	voiced   time.Duration
	quiet    time.Duration // since the last voice, while speaking
	largest  int           // bytes that CELT took for 20 ms
}

// New makes a detector for a board that has said nothing yet.
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

// Reset forgets everything, as at the start of another conversation.
func (d *Detector) Reset() {
	*d = Detector{options: d.options}
}

// IsSpeaking reports whether speech has begun and not ended yet.
func (d *Detector) IsSpeaking() bool { return d.speaking }

// VoicedDuration is how much voice was heard, without the pauses, since speech began. It
// stays when speech has ended, until it begins again.
func (d *Detector) VoicedDuration() time.Duration { return d.voiced }

// Packet hears a packet. One that is not Opus is silence, as long as the one before.
// It does not keep the bytes for later, and allocates nothing for a packet that is
// well-formed.
func (d *Detector) Packet(data []byte) (e Event) {
	active, of := d.packetFlags(data)
	each := d.length / time.Duration(of)
	// Which of a packet's flags are set is not asked. Voice that was there goes on
	// from its start, and voice that was not begins towards its end.
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

// addFlag takes a flag. It is true when speech begins with it.
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

// packetFlags says how many flags a packet has, one or more, and how many are set.
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

// flagCount is how many flags a packet without flags would have.
func flagCount(length time.Duration) int { return max(1, int(length/flagDuration)) }
