// Package endpointtest says recorded sentences to a detector of speech, with noises behind them,
// and counts what it hears: the table by which package endpoint was made.
package endpointtest

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/vad"
)

const second = vad.SampleRate

// Clip is an utterance. Its speech is between Begin and End.
type Clip struct {
	Name       string
	Packets    [][]byte // as a board has sent them; nil: it is not from a board
	Begin, End time.Duration

	pcm        []float64
	begin, end int     // in samples
	loudness   float64 // root mean square of the speech
}

func newClip(name string, pcm []int16) Clip {
	c := Clip{Name: filepath.Base(name), pcm: make([]float64, len(pcm))}
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
	c.Begin, c.End = at(c.begin), at(c.end)
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

func at(sample int) time.Duration { return time.Duration(sample) * time.Second / second }

// Clips returns the recordings of the packages endpoint and vad: people and programs, English and
// Chinese. folder is that of package voice.
func Clips(folder string) (list []Clip, err error) {
	boards, err := filepath.Glob(filepath.Join(folder, "endpoint/testdata/*.opk"))
	if err != nil {
		return nil, err
	}
	for _, name := range boards {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		packets := unpack(b)
		pcm, err := decode(packets)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c := newClip(name, pcm)
		c.Packets = packets
		list = append(list, c)
	}
	files, err := filepath.Glob(filepath.Join(folder, "vad/testdata/*.wav"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		pcm := make([]int16, (len(b)-44)/2)
		for i := range pcm {
			pcm[i] = int16(binary.LittleEndian.Uint16(b[44+2*i:]))
		}
		list = append(list, newClip(name, pcm))
	}
	if len(boards) != 10 || len(files) != 5 {
		return nil, fmt.Errorf("%d and %d recordings in %s", len(boards), len(files), folder)
	}
	return list, nil
}

// unpack returns packets that have their length before them, in two bytes.
func unpack(b []byte) (packets [][]byte) {
	for len(b) >= 2 {
		n := int(binary.BigEndian.Uint16(b))
		packets, b = append(packets, b[2:2+n]), b[2+n:]
	}
	return packets
}

func decode(packets [][]byte) (pcm []int16, err error) {
	decoder, err := opus.NewDecoder(second)
	if err != nil {
		return nil, err
	}
	buf := make([]int16, decoder.Samples(opus.MaxDuration))
	for _, p := range packets {
		n, err := decoder.Decode(p, buf)
		if err != nil {
			return nil, err
		}
		pcm = append(pcm, buf[:n]...)
	}
	return pcm, nil
}

// Speech returns the speech without the sound around it, at 16 kHz, with a loudness as a share of
// the loudest possible.
func (c *Clip) Speech(loudness float64) []float64 {
	speech := slices.Clone(c.pcm[c.begin:c.end])
	for i := range speech {
		speech[i] *= loudness * math.MaxInt16 / c.loudness
	}
	return speech
}
