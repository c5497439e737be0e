package xiaozhi

import (
	"math"
	"slices"
	"sync"
	"time"

	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/vad"
)

const (
	// ownFrame is the sound of which each level is measured, and ownKept how many levels are kept:
	// those of fitFrames, of the lag before them, and of the longest packet.
	ownFrame   = 20 * time.Millisecond
	ownSamples = int(vad.SampleRate * ownFrame / time.Second)
	ownKept    = 256
	// fitFrames are compared to find an echo, at least minOverlap of them. It comes between minLag
	// and maxLag frames after a packet was sent: a board plays from a queue and sends its sound in
	// packets. Clocks differ, so the lag may seem to be negative.
	fitFrames, minOverlap = 150, 15
	minLag, maxLag        = -3, 50
	// fitPackets is how often that is done when it is known whether there is one: it is the most
	// work of all.
	fitPackets = 4
	// echoCorrelation is the correlation of both levels from which there is an echo: 0.84 to 0.99
	// was measured with one, a third of a second after its beginning, and less on a busy network.
	// After clearFrames, somebody is heard instead if it is less than otherCorrelation.
	echoCorrelation, otherCorrelation = 0.8, 0.65
	clearFrames                       = 50
	// A board in whose microphone there was no echo of so many frames cancels it. What looks like
	// one later must last for lateOverlap.
	cancelledFrames, lateOverlap = 150, 50
	// Sound that is late makes up for that later, unless a part of it was lost: then all of
	// latePackets are late. After maxLate, the board has paused.
	latePackets, maxLate = 32, 2 * time.Second
	// lostEcho is by how many decibels the sound is below the echo that it should be, when there is
	// none any more.
	lostEcho = 10
	// Levels below the loudest by levelRange say nothing: they are noise. Those within loudRange
	// tell how loud the echo is.
	levelRange, loudRange = 35, 15
	// echoFade is by how many decibels the echo of a room fades in a frame, at least.
	echoFade, fadeFrames = 3, 7
	// A frame is not only an echo if its bands exceed that by excessMargin, together by excessSum
	// decibels, of which a single band has maxExcess at most. Of the last excessWindow frames,
	// excessFrames must do so: never more than two did in an echo alone, and five did when somebody
	// said a word of 0.3 s that was 6 dB louder than the echo, 28 times of 30.
	excessMargin, maxExcess, excessSum = 4, 10, 4
	excessWindow, excessFrames         = 24, 5
	// spokeBefore frames before the first such frame are of whoever speaks: the first sound of a
	// word may be quiet.
	spokeBefore = 5
	// The lag changes when the network or somebody else delays packets, by jumpLate or more. It is
	// known again when jumpFrames can be compared: until then, nobody is heard over the echo.
	jumpFrames, jumpLate = 20, 80 * time.Millisecond
	// tailFrames are those after the end of an echo in which there may be some of it still.
	tailFrames = 15
	// excessHold is how long somebody speaks after the last such frame.
	excessHold = 50
)

// bandCentres are the middles of the bands in which levels are measured, in Hz: people and an echo
// rarely are in the same ones at the same time.
var bandCentres = [...]float64{250, 450, 700, 1050, 1550, 2200, 3100, 4400}

const bands = len(bandCentres)

// heardSound is what a board hears.
type heardSound int

const (
	soundOfOthers heardSound = iota // people, or nobody
	soundOwn                        // only what it plays
	soundBoth                       // somebody over what it plays
	soundUnclear                    // not known yet
)

// ownSound finds out whether a board hears itself. It compares the levels of what the board plays
// with those of what it hears: an echo has the same, later and weaker. Somebody who speaks over it
// makes it louder than the echo can be.
//
// Levels are compared, not samples, because a small loudspeaker distorts, and because clocks
// differ. What was learned holds for the conversation. It is safe for concurrent use.
type ownSound struct {
	decoder *opus.Decoder // used by play only
	pcm     [vad.SampleRate * opus.MaxDuration / time.Second]int16

	mu            sync.Mutex
	born          time.Time // when frame 0 began
	played, heard soundLevels
	packets       int           // since it was found out how late they are
	late          time.Duration // the least of those
	known         bool          // there is an echo
	lag           int
	other         int // the lag before, or since a moment: it changes when packets were late
	gains, floor  [bands]float64
	without       int // frames in which there was no echo
	newest        int // frame that was heard
	ignored       int // frame after which somebody may speak
	began, spoke  int // frames in which somebody who speaks over the echo began, and last did so
}

// soundLevels are the levels of the frames of a sound, in decibels above the weakest.
type soundLevels struct {
	ends   time.Time // of the sound so far
	frames [ownKept]struct {
		number int
		levels [bands]float64
	}
	before [2]float64 // samples
	states [bands][2]float64
	sums   [bands]float64
	filled int
}

func newOwnSound() *ownSound {
	decoder, err := opus.NewDecoder(vad.SampleRate)
	if err != nil {
		panic(err) // it decodes 16 kHz
	}
	// The numbers of frames are far from 0, so that empty ones have none of them.
	return &ownSound{decoder: decoder, born: time.Now().Add(-time.Hour)}
}

// bandFilters are the coefficients b0, a1 and a2 of band-pass filters whose gain is 1 (R.
// Bristow-Johnson, Audio EQ Cookbook); b2 is -b0.
var bandFilters = func() (all [bands][3]float64) {
	const q = 2.5
	for i, f := range bandCentres {
		w := 2 * math.Pi * f / vad.SampleRate
		alpha := math.Sin(w) / (2 * q)
		all[i] = [3]float64{alpha / (1 + alpha), -2 * math.Cos(w) / (1 + alpha), (1 - alpha) / (1 + alpha)}
	}
	return all
}()

// add adds sound before a frame. It returns the number of the newest one.
func (s *soundLevels) add(samples []int16, ends int) (newest int) {
	next := ends - (s.filled+len(samples))/ownSamples
	for _, sample := range samples {
		x := float64(sample)
		in := x - s.before[1]
		s.before[1], s.before[0] = s.before[0], x
		for i := range bands {
			f, y := &bandFilters[i], &s.states[i]
			out := f[0]*in - f[1]*y[0] - f[2]*y[1]
			y[1], y[0] = y[0], out
			s.sums[i] += out * out
		}
		if s.filled++; s.filled == ownSamples {
			frame := &s.frames[next%ownKept]
			frame.number = next
			for i, sum := range s.sums {
				frame.levels[i] = 10 * math.Log10(sum/float64(ownSamples)+1)
			}
			s.sums, s.filled = [bands]float64{}, 0
			next++
		}
	}
	return next - 1
}

// number returns the number of the frame that begins at a time.
func (o *ownSound) number(at time.Time) int { return int((at.Sub(o.born) + ownFrame/2) / ownFrame) }

// at returns the levels of a frame, nil if there are none.
func (s *soundLevels) at(number int) *[bands]float64 {
	if f := &s.frames[number%ownKept]; f.number == number {
		return &f.levels
	}
	return nil
}

// play notes a packet that was sent to the board, which plays it after those before.
func (o *ownSound) play(packet []byte, now time.Time) {
	n, err := o.decoder.Decode(packet, o.pcm[:])
	if err != nil {
		return // the board cannot play it either
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.played.ends) > ownFrame { // the board has waited for it
		o.ignored = max(o.ignored, o.number(now)+o.lag+jumpFrames)
	}
	if now.After(o.played.ends) {
		o.played.ends = now
	}
	o.played.ends = o.played.ends.Add(time.Duration(n) * time.Second / vad.SampleRate)
	o.played.add(o.pcm[:n], o.number(o.played.ends))
}

// hear finds out what a sound is that the board has heard and that came now. Voiced is set when it
// certainly is a voice.
func (o *ownSound) hear(samples []int16, now time.Time, voiced bool) heardSound {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(len(samples), now)
	o.newest = o.heard.add(samples, o.number(o.heard.ends))
	if !o.isAudible(o.newest) {
		return soundOfOthers
	}
	correlation := 0.0
	if !o.known && o.without < cancelledFrames || o.packets%fitPackets == 0 {
		correlation = o.fit(o.newest)
	}
	switch {
	case o.known:
		return o.compare(o.newest)
	case voiced && o.without >= clearFrames && correlation < otherCorrelation:
		o.without = cancelledFrames
	default:
		o.without += len(samples) / ownSamples
	}
	if o.without >= cancelledFrames {
		return soundOfOthers
	}
	return soundUnclear
}

// skip notes a sound that the board has heard and that is not looked at.
func (o *ownSound) skip(length time.Duration, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(int(length*vad.SampleRate/time.Second), now)
}

// advance finds out when the next samples that were heard end. Requires mu.
func (o *ownSound) advance(samples int, now time.Time) {
	h := &o.heard
	h.ends = h.ends.Add(time.Duration(samples) * time.Second / vad.SampleRate)
	late := now.Sub(h.ends)
	if late < 0 || late > maxLate {
		h.ends, late = now, 0 // it was recorded before it came
	}
	if late > jumpLate {
		o.ignored = max(o.ignored, o.number(h.ends)+jumpFrames)
	}
	if o.late = min(o.late, late); o.packets == 0 {
		o.late = late
	}
	if o.packets++; o.packets == latePackets {
		h.ends, o.packets = h.ends.Add(o.late), 0
	}
}

// ignore has nobody speak over the echo until now: what was heard is another question.
func (o *ownSound) ignore() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ignored, o.spoke = max(o.ignored, o.newest), 0
}

// spokeFor returns how long somebody has spoken who speaks over the echo.
func (o *ownSound) spokeFor() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Duration(o.newest-o.began+1+spokeBefore) * ownFrame
}

// isAudible reports whether what was played may be heard in a frame. Requires mu.
func (o *ownSound) isAudible(frame int) bool {
	first, last := frame-maxLag, frame-minLag
	if o.known {
		first, last = frame-max(o.lag, o.other)-tailFrames, frame-min(o.lag, o.other)+1
	}
	for n := first; n <= last; n++ {
		if o.played.at(n) != nil {
			return true
		}
	}
	return false
}

// fit looks for an echo in the last frames, and returns how much the sound is like one. Requires
// mu.
func (o *ownSound) fit(newest int) float64 {
	least := minOverlap
	if o.without >= cancelledFrames {
		least = lateOverlap
	}
	lag, best := o.bestLag(newest, fitFrames, least)
	if best >= echoCorrelation {
		if !o.known {
			o.other = lag
		} else if lag != o.lag {
			o.other = o.lag
		}
		o.known, o.lag, o.without = true, lag, 0
		o.gains, o.floor, _ = o.gain(newest, lag)
		return best
	}
	if gains, _, heard := o.gain(newest, o.lag); o.known && heard {
		change := 0.0
		for b := range bands {
			change += (gains[b] - o.gains[b]) / float64(bands)
		}
		o.known = change > -lostEcho
	}
	return best
}

// bestLag returns the lag for which the last frames are most like an echo, and the correlation. At
// least so many of them are compared. Requires mu.
func (o *ownSound) bestLag(newest, frames, least int) (lag int, best float64) {
	for l := minLag; l <= maxLag; l++ {
		if c := o.correlation(newest, l, frames, least); c > best {
			best, lag = c, l
		}
	}
	return lag, best
}

// correlation returns the correlation of the last frames that were heard with what was played
// before, in all bands; 0 if fewer than least can be compared. Requires mu.
func (o *ownSound) correlation(newest, lag, frames, least int) float64 {
	var playedMax, heardMax [bands]float64
	n := 0
	for t := newest - frames + 1; t <= newest; t++ {
		played, heard := o.played.at(t-lag), o.heard.at(t)
		if played == nil || heard == nil {
			continue
		}
		n++
		for b := range bands {
			playedMax[b], heardMax[b] = max(playedMax[b], played[b]), max(heardMax[b], heard[b])
		}
	}
	if n < least {
		return 0
	}
	var x, y, xx, yy, xy [bands]float64
	for t := newest - frames + 1; t <= newest; t++ {
		played, heard := o.played.at(t-lag), o.heard.at(t)
		if played == nil || heard == nil {
			continue
		}
		for b := range bands {
			p, h := max(played[b], playedMax[b]-levelRange), max(heard[b], heardMax[b]-levelRange)
			x[b] += p
			y[b] += h
			xx[b] += p * p
			yy[b] += h * h
			xy[b] += p * h
		}
	}
	var xVariance, yVariance, covariance float64
	for b := range bands {
		xVariance += xx[b] - x[b]*x[b]/float64(n)
		yVariance += yy[b] - y[b]*y[b]/float64(n)
		covariance += xy[b] - x[b]*y[b]/float64(n)
	}
	if xVariance <= 0 || yVariance <= 0 {
		return 0
	}
	return covariance / math.Sqrt(xVariance*yVariance)
}

// gain returns how much louder than what was played the echo is in each band, and how loud it is
// when it is quiet. Requires mu.
func (o *ownSound) gain(newest, lag int) (gains, floor [bands]float64, heard bool) {
	var differences, levels []float64
	for b := range bands {
		differences, levels = differences[:0], levels[:0]
		loudest := 0.0
		for t := newest - fitFrames + 1; t <= newest; t++ {
			if played := o.played.at(t - lag); played != nil {
				loudest = max(loudest, played[b])
			}
		}
		for t := newest - fitFrames + 1; t <= newest; t++ {
			heard := o.heard.at(t)
			if heard == nil {
				continue
			}
			levels = append(levels, heard[b])
			if played := o.played.at(t - lag); played != nil && played[b] > loudest-loudRange {
				differences = append(differences, heard[b]-played[b])
			}
		}
		slices.Sort(differences)
		slices.Sort(levels)
		if len(differences) > 0 {
			gains[b] = differences[len(differences)/2]
		}
		if len(levels) > 0 {
			floor[b] = levels[len(levels)/20]
		}
		heard = heard || len(differences) > 0
	}
	return gains, floor, heard
}

// compare finds out whether somebody speaks over an echo. Requires mu.
func (o *ownSound) compare(newest int) heardSound {
	count, first := o.foreign(newest)
	if count >= excessFrames {
		if lag, c := o.bestLag(newest, jumpFrames, minOverlap); c >= echoCorrelation && lag != o.lag {
			o.other = lag
			count, first = o.foreign(newest)
		}
	}
	speaks := newest-o.spoke <= excessHold
	switch {
	case count >= excessFrames:
		if !speaks {
			o.began = first
		}
		o.spoke = newest
		return soundBoth
	case speaks:
		return soundBoth
	}
	return soundOwn
}

// foreign returns how many of the last frames are not only an echo, and the first. Requires mu.
func (o *ownSound) foreign(newest int) (count, first int) {
	for t := max(newest-excessWindow, o.ignored) + 1; t <= newest; t++ {
		if o.excess(t, o.lag) >= excessSum && (o.other == o.lag || o.excess(t, o.other) >= excessSum) {
			if count++; count == 1 {
				first = t
			}
		}
	}
	return count, first
}

// excess returns by how many decibels a frame exceeds what the echo after a lag may be. Requires
// mu.
func (o *ownSound) excess(t, lag int) (sum float64) {
	heard := o.heard.at(t)
	if heard == nil {
		return 0
	}
	for b := range bands {
		echo := o.floor[b]
		for k := -1; k <= fadeFrames; k++ {
			if played := o.played.at(t - lag - k); played != nil {
				echo = max(echo, played[b]+o.gains[b]-echoFade*float64(max(k-1, 0)))
			}
		}
		sum += min(max(heard[b]-echo-excessMargin, 0), maxExcess)
	}
	return sum
}
