// Package endpoint detects where speech begins and ends in the packets of a voice board.
//
// The packets are decoded, and [vad] estimates for every 32 ms whether there is a voice. Speech
// begins when most of a quarter of a second is voice. It ends after a pause: windows that are no
// voice, or are much quieter than the speech was. The latter tells a person from the television and
// the bystanders behind them, whose voices are voices too.
//
// The voice activity flags in the packets (RFC 6716 §4.2.3) would cost nothing, but music and
// voices in the background set them for as long as they last, so that speech never ends. They only
// tell when nobody has to look: while all is quiet.
package endpoint

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/vad"
)

// window is the duration of which each decision is made.
const window = vad.Window * time.Second / vad.SampleRate

// The thresholds were measured with human and synthetic speech in four languages, with white noise,
// fans, music and other voices behind it; TestTable measures again.
const (
	// Speech begins when beginWindows of the last recentWindows have a probability of more than
	// beginProbability: after some 220 ms.
	beginProbability            = 0.5
	beginWindows, recentWindows = 6, 8
	// A window above sureProbability is certainly voice.
	sureProbability = 0.7
	// A window at endProbability or below belongs to a pause.
	endProbability = 0.35
	// So does one whose level is less than this share of the level of the speech.
	gateShare = 0.35
	// levelDecay is how much of the level of the speech is left after a window, so that somebody
	// who turns away is still heard: half after 15 s.
	levelDecay = 0.9985
	// levelSmoothing is how much of a level is left after a window that is silent.
	levelSmoothing = 0.8
	// Packets in which the encoder found no voice are not looked at after idleWindows in which the
	// probability was below idleProbability.
	idleProbability = 0.1
	idleWindows     = 10
)

// MinVoice is the duration of voice below which an utterance is not worth an answer: a cough.
const MinVoice = 250 * time.Millisecond

// Options define what a pause is.
type Options struct {
	// Silence is the duration without voice after which speech has ended; 0 means 800 ms.
	Silence time.Duration
	// MaxSpeech is the duration after which speech ends in any case, pauses included; 0 means 20 s.
	MaxSpeech time.Duration
}

// Event is a state change caused by a packet.
type Event int

// The events.
const (
	None  Event = iota
	Began       // speech began about a quarter of a second ago
	Ended       // there was no voice for Options.Silence, or speech lasted for Options.MaxSpeech
)

// Detector detects the speech of one board. Its clock is the duration of the packets: a packet that
// is never received takes no time, so a caller that waits for the end of speech needs a timeout as
// well. It is not safe for concurrent use.
type Detector struct {
	options Options
	decoder *opus.Decoder
	packet  opus.Packet
	sound   [vad.SampleRate * opus.MaxDuration / time.Second]int16
	samples int // of the last packet, in sound

	voice   vad.Detector
	window  [vad.Window]int16
	filled  int
	recent  uint8                  // whether the last windows were voice; the newest is the lowest bit
	levels  [recentWindows]float64 // of the last windows; the newest is the last
	idle    int                    // windows in a row with little probability of a voice
	skipped bool                   // the last packet was not looked at

	speaking bool
	level    float64       // of the speech, root mean square
	loudness float64       // level when speech began
	certain  uint8         // which of the last windows were certainly voice, as recent
	sure     time.Duration // since speech began, of windows that were certainly voice
	voiced   time.Duration // since speech began, without pauses
	quiet    time.Duration // since the last voice, while speaking
	lasted   time.Duration // since speech began
}

// New returns a detector in its initial state.
func New(o Options) *Detector {
	if o.Silence <= 0 {
		o.Silence = 800 * time.Millisecond
	}
	if o.MaxSpeech <= 0 {
		o.MaxSpeech = 20 * time.Second
	}
	decoder, err := opus.NewDecoder(vad.SampleRate)
	if err != nil {
		panic(err) // it decodes 16 kHz
	}
	return &Detector{options: o, decoder: decoder}
}

// SetSilence changes Options.Silence, also while somebody speaks.
func (d *Detector) SetSilence(s time.Duration) { d.options.Silence = s }

// Reset restores the initial state, as for another conversation. What SetSilence has set stays.
func (d *Detector) Reset() {
	*d = Detector{options: d.options, decoder: d.decoder}
}

// BeganAgo makes all but the end of what was heard somebody else's: speech has begun so long ago,
// and was voice since then.
func (d *Detector) BeganAgo(voice time.Duration) {
	d.speaking, d.quiet, d.level = true, 0, slices.Max(d.levels[:])
	d.loudness = d.level
	d.voiced, d.sure, d.lasted = voice, voice, voice
}

// IsSpeaking reports whether speech has begun and not ended yet.
func (d *Detector) IsSpeaking() bool { return d.speaking }

// MayBegin reports whether the newest window was a voice, though speech has not begun yet.
func (d *Detector) MayBegin() bool { return !d.speaking && d.recent&1 != 0 }

// VoicedDuration is the duration of voice since speech began, without the pauses. It is kept after
// speech has ended, until speech begins again.
func (d *Detector) VoicedDuration() time.Duration { return d.voiced }

// SureDuration is the part of VoicedDuration, and of the pauses in it, that is certainly voice. It
// is for those who must not take a noise for speech.
func (d *Detector) SureDuration() time.Duration { return d.sure }

// Quiet is how long nobody has spoken in the speech so far.
func (d *Detector) Quiet() time.Duration { return d.quiet }

// Lasted is the time since speech began.
func (d *Detector) Lasted() time.Duration { return d.lasted }

// Loudness is the level that speech began with, as the root mean square of its samples. It tells a
// person in front of the board from those behind.
func (d *Detector) Loudness() float64 { return d.loudness }

// Samples returns the sound of the last packet at 16 kHz, until the next call of Packet.
func (d *Detector) Samples() []int16 { return d.sound[:d.samples] }

// Packet processes a packet. A malformed packet counts as silence, as long as the packet before. If
// speech begins and ends within one packet, the end is reported. It does not keep data.
func (d *Detector) Packet(data []byte) (e Event) {
	if d.skip(data) {
		return None
	}
	d.decode(data)
	for rest := d.sound[:d.samples]; len(rest) > 0; {
		used := copy(d.window[d.filled:], rest)
		d.filled += used
		rest = rest[used:]
		if d.filled == vad.Window {
			d.filled = 0
			if w := d.addWindow(); w != None {
				e = w
			}
		}
	}
	return e
}

// decode makes a packet the last one. A malformed one is replaced by silence.
func (d *Detector) decode(data []byte) {
	n, err := d.decoder.Decode(data, d.sound[:])
	if err != nil {
		n, _ = d.decoder.Decode(nil, d.sound[:]) // never fails
	}
	d.samples = n
}

// skip reports whether a packet needs no look: nobody speaks, and the encoder found no voice. The
// model sees one window of silence instead of all of them.
func (d *Detector) skip(data []byte) bool {
	if d.speaking || d.idle < idleWindows || d.packet.Parse(data) != nil || !d.packet.IsQuiet() {
		d.skipped = false
		return false
	}
	if d.packet.IsSilent() {
		d.samples = d.decoder.Samples(d.packet.Duration())
		clear(d.sound[:d.samples])
	} else {
		d.decode(data)
	}
	if !d.skipped {
		clear(d.window[d.filled:])
		d.addWindow()
		d.filled, d.skipped = 0, true
	}
	return true
}

// addWindow processes the complete window.
func (d *Detector) addWindow() Event {
	probability := d.voice.Probability(&d.window)
	level := d.addLevel()
	d.recent <<= 1
	if probability > beginProbability {
		d.recent |= 1
	}
	d.certain <<= 1
	if probability > sureProbability {
		d.certain |= 1
		d.sure += window
	}
	if d.speaking {
		return d.continueSpeech(probability > endProbability, level)
	}
	if d.idle++; probability >= idleProbability {
		d.idle = 0
	}
	if bits.OnesCount8(d.recent) < beginWindows {
		return None
	}
	d.speaking, d.idle, d.quiet, d.level = true, 0, 0, slices.Max(d.levels[:])
	d.loudness = d.level
	d.voiced = time.Duration(bits.OnesCount8(d.recent)) * window
	d.sure = time.Duration(bits.OnesCount8(d.certain)) * window
	d.lasted = recentWindows * window
	return Began
}

// continueSpeech processes a window of speech.
func (d *Detector) continueSpeech(voice bool, level float64) Event {
	d.level = max(d.level*levelDecay, level)
	d.lasted += window
	if voice && level >= gateShare*d.level {
		d.quiet = 0
		d.voiced += window
	} else {
		d.quiet += window
	}
	if d.quiet < d.options.Silence && d.lasted < d.options.MaxSpeech {
		return None
	}
	d.speaking, d.recent = false, 0
	return Ended
}

// addLevel computes the smoothed level of the window: it rises at once and falls slowly.
func (d *Detector) addLevel() float64 {
	sum := 0.0
	for _, s := range d.window {
		sum += float64(s) * float64(s)
	}
	level := math.Sqrt(sum / vad.Window)
	level = max(level, levelSmoothing*d.levels[recentWindows-1]+(1-levelSmoothing)*level)
	copy(d.levels[:], d.levels[1:])
	d.levels[recentWindows-1] = level
	return level
}
