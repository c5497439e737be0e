package endpoint

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/vad"
)

const second = vad.SampleRate

// clip is an utterance. Its speech is between begin and end, in samples.
type clip struct {
	name       string
	pcm        []float64
	begin, end int
	loudness   float64 // root mean square of the speech
}

func newClip(name string, pcm []int16) clip {
	c := clip{name: filepath.Base(name), pcm: make([]float64, len(pcm))}
	for i, s := range pcm {
		c.pcm[i] = float64(s)
	}
	const piece = second / 50
	var loudest float64
	var levels []float64
	for first := 0; first+piece <= len(c.pcm); first += piece {
		levels = append(levels, rms(c.pcm[first:first+piece]))
		loudest = max(loudest, levels[len(levels)-1])
	}
	loud := func(l float64) bool { return l > loudest/20 }
	last := len(levels) - 1
	for !loud(levels[last]) {
		last--
	}
	c.begin, c.end = slices.IndexFunc(levels, loud)*piece, (last+1)*piece
	c.loudness = rms(c.pcm[c.begin:c.end])
	return c
}

func rms(pcm []float64) float64 {
	sum := 0.0
	for _, s := range pcm {
		sum += s * s
	}
	return math.Sqrt(sum / float64(len(pcm)))
}

// clips are the recordings of this package and of vad: people and programs, English and Chinese.
func clips(t testing.TB) (list []clip) {
	for _, name := range recordings(t) {
		list = append(list, newClip(name, decoded(t, recording(t, name))))
	}
	names, err := filepath.Glob("../vad/testdata/*.wav")
	if err != nil || len(names) != 5 {
		t.Fatalf("%d files: %v", len(names), err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pcm := make([]int16, (len(b)-44)/2)
		for i := range pcm {
			pcm[i] = int16(binary.LittleEndian.Uint16(b[44+2*i:]))
		}
		list = append(list, newClip(name, pcm))
	}
	return list
}

func decoded(t testing.TB, packets [][]byte) (pcm []int16) {
	t.Helper()
	decoder, err := opus.NewDecoder(second)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]int16, decoder.Samples(opus.MaxDuration))
	for _, p := range packets {
		n, err := decoder.Decode(p, buf)
		if err != nil {
			t.Fatal(err)
		}
		pcm = append(pcm, buf[:n]...)
	}
	return pcm
}

// background makes n samples of a noise with a root mean square of 1.
type background func(random *rand.Rand, n int, all []clip) []float64

func white(random *rand.Rand, n int, _ []clip) []float64 {
	pcm := make([]float64, n)
	for i := range pcm {
		pcm[i] = random.NormFloat64()
	}
	return pcm
}

// fan is low noise with the hum of a motor.
func fan(random *rand.Rand, n int, _ []clip) []float64 {
	pcm, x := make([]float64, n), 0.0
	for i := range pcm {
		x = 0.97*x + random.NormFloat64()
		pcm[i] = x + math.Sin(2*math.Pi*120*float64(i)/second)
	}
	return pcm
}

// babble is six voices at a time, of all clips.
func babble(random *rand.Rand, n int, all []clip) []float64 {
	pcm := make([]float64, n)
	for range 6 {
		for i := -random.IntN(2 * second); i < n; {
			c := all[random.IntN(len(all))]
			for k, s := range c.pcm[c.begin:c.end] {
				if i+k >= 0 && i+k < n {
					pcm[i+k] += s / c.loudness
				}
			}
			i += c.end - c.begin + random.IntN(second/5)
		}
	}
	return pcm
}

// music is chords of plucked strings, two in a second, with a drum.
func music(random *rand.Rand, n int, _ []clip) []float64 {
	pcm := make([]float64, n)
	chords := [][]float64{{261.6, 329.6, 392}, {220, 261.6, 329.6}, {174.6, 220, 261.6}, {196, 246.9, 293.7}}
	for first, beat := 0, 0; first < n; first, beat = first+second/2, beat+1 {
		for i := range min(second, n-first) {
			at := float64(i) / second
			s := 0.0
			for _, f := range chords[beat/4%len(chords)] {
				for h := 1.0; h <= 5; h++ {
					s += math.Sin(2*math.Pi*f*h*at) / h
				}
			}
			pcm[first+i] += s*math.Exp(-2*at) + 2*random.NormFloat64()*math.Exp(-40*at)
		}
	}
	return pcm
}

// counts are the results of a background.
type counts struct {
	utterances, missed, cut, stuck, falseStarts int
	delays                                      []time.Duration
}

// pause is what follows each utterance, in samples.
const pause = 3 * second

// listenTo says every clip twice with a background that is snr dB below it, as a board would send
// it, and compares the events with what was said.
func listenTo(t *testing.T, encoders *opus.EncoderPool, all []clip, of background, snr float64, dtx bool) (r counts) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range all {
		each := len(c.pcm) + pause
		pcm := make([]int16, pause+2*each)
		var noise []float64
		if of != nil {
			noise = of(random, len(pcm), all)
			scale := c.loudness / rms(noise) * math.Pow(10, -snr/20)
			for i := range noise {
				noise[i] *= scale
			}
		}
		for i := range pcm {
			v := 0.0
			if k := i - pause; k >= 0 && k%each < len(c.pcm) {
				v = c.pcm[k%each]
			}
			if noise != nil {
				v += noise[i]
			}
			pcm[i] = int16(max(math.MinInt16, min(math.MaxInt16, v)))
		}
		d := New(Options{})
		heard := listen(d, encode(t, encoders, pcm, dtx))
		for k := range 2 {
			first := pause + k*each
			r.compare(heard, at(first+c.begin), at(first+c.end), at(first+each))
		}
		for _, m := range heard {
			if m.event == Began && m.at < at(pause+c.begin) {
				r.falseStarts++
			}
		}
	}
	return r
}

func at(sample int) time.Duration { return time.Duration(sample) * time.Second / second }

// compare looks for one utterance in the events.
func (r *counts) compare(heard []moment, begin, end, next time.Duration) {
	r.utterances++
	speaking, began, ended := false, false, false
	for _, m := range heard {
		if m.at >= next {
			break
		}
		switch m.event {
		case Began:
			speaking = true
			began = began || m.at >= begin && m.at < end+300*time.Millisecond
			if m.at > end+time.Second {
				r.falseStarts++
			}
		case Ended:
			began = began || speaking && m.at > begin // somebody in the background had begun
			speaking = false
			switch {
			case m.at > begin && m.at < end:
				r.cut++
			case m.at >= end && !ended:
				ended = true
				r.delays = append(r.delays, m.at-end)
			}
		}
	}
	began = began || speaking
	if !began {
		r.missed++
	}
	if began && !ended {
		r.stuck++
	}
}

func encode(t *testing.T, encoders *opus.EncoderPool, pcm []int16, dtx bool) (packets [][]byte) {
	t.Helper()
	e := opus.Encoding{SampleRate: second, Frame: frame, DTX: dtx}
	encoder, err := encoders.Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()
	for n := e.Samples(); len(pcm) >= n; pcm = pcm[n:] {
		p, err := encoder.Encode(pcm[:n], nil)
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, p)
	}
	return packets
}

// TestTable says all clips with backgrounds of all kinds, and limits how often an utterance is
// missed, has no end, or is invented. With CHECK_ALL it uses all clips and backgrounds.
func TestTable(t *testing.T) {
	all := clips(t)
	some, variants := all[10:], []bool{true}
	full := os.Getenv("CHECK_ALL") != ""
	if full {
		some, variants = all, []bool{true, false}
	}
	encoders := opus.NewEncoderPool(1)
	t.Cleanup(func() {
		if err := encoders.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		name        string
		of          background
		snr         float64
		stuck       int // of 30 utterances
		missed      int
		falseStarts int
		always      bool
	}{
		{name: "quiet", always: true},
		{name: "white", of: white, snr: 10, missed: 1},
		{name: "fan", of: fan, snr: 10},
		{name: "fan", of: fan, snr: 5, missed: 1},
		{name: "babble", of: babble, snr: 15, stuck: 1, falseStarts: 99},
		{name: "babble", of: babble, snr: 8, stuck: 8, falseStarts: 99},
		{name: "music", of: music, snr: 20},
		{name: "music", of: music, snr: 10, always: true},
	} {
		if !c.always && !full {
			continue
		}
		for _, dtx := range variants {
			r := listenTo(t, encoders, some, c.of, c.snr, dtx)
			slices.Sort(r.delays)
			var p50, p95 time.Duration
			if n := len(r.delays); n > 0 {
				p50, p95 = r.delays[n/2], r.delays[n*95/100]
			}
			name := fmt.Sprintf("%s %g dB, DTX %t", c.name, c.snr, dtx)
			t.Logf("%-26s missed %d/%d  cut %d  stuck %d  false starts %d  end delay p50 %.2f s, p95 %.2f s", name,
				r.missed, r.utterances, r.cut, r.stuck, r.falseStarts, p50.Seconds(), p95.Seconds())
			// Only "no" may be missed, and only in loud noise.
			if r.missed > c.missed || r.stuck > c.stuck || r.falseStarts > c.falseStarts || p50 > 920*time.Millisecond {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}
