package sim

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"math"
)

// flag is a flag of stripes of equal width, with or without a disc in its middle.
type flag struct {
	upright bool
	stripes []color.RGBA
	disc    *color.RGBA
}

// png draws the flag.
func (f flag) png() ([]byte, error) {
	const w, h, radius = 240, 160, 48
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			at := y * len(f.stripes) / h
			if f.upright {
				at = x * len(f.stripes) / w
			}
			c := f.stripes[at]
			if dx, dy := x-w/2, y-h/2; f.disc != nil && dx*dx+dy*dy < radius*radius {
				c = *f.disc
			}
			m.SetRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	err := png.Encode(&b, m)
	return b.Bytes(), err
}

// Sounds are short, and of telephone quality: an interval is still heard, and the package is small.
const (
	soundRate    = 8000 // samples a second
	noteSamples  = soundRate * 6 / 10
	lowestPitch  = 261.63 // middle C, in Hz
	bytesOfNotes = 2 * 2 * noteSamples
)

// interval returns a WAV file with two notes, one after the other, so many semitones apart.
func interval(semitones int) ([]byte, error) {
	var b bytes.Buffer
	header := struct { // RIFF, https://www.mmsp.ece.mcgill.ca/Documents/AudioFormats/WAVE/WAVE.html
		Riff       [4]byte
		Size       uint32
		Wave, Fmt  [4]byte
		FmtSize    uint32
		PCM, Mono  uint16
		Rate       uint32
		ByteRate   uint32
		Block      uint16
		Bits       uint16
		Data       [4]byte
		DataLength uint32
	}{[4]byte{'R', 'I', 'F', 'F'}, 36 + bytesOfNotes, [4]byte{'W', 'A', 'V', 'E'}, [4]byte{'f', 'm', 't', ' '}, 16,
		1, 1, soundRate, 2 * soundRate, 2, 16, [4]byte{'d', 'a', 't', 'a'}, bytesOfNotes}
	if err := binary.Write(&b, binary.LittleEndian, header); err != nil {
		return nil, err
	}
	for _, up := range []int{0, semitones} {
		pitch := lowestPitch * math.Pow(2, float64(up)/12)
		for i := range noteSamples {
			t := float64(i) / soundRate
			loud := 9000 * math.Exp(-3*t) * math.Min(1, 50*t)
			if err := binary.Write(&b, binary.LittleEndian, int16(loud*(math.Sin(2*math.Pi*pitch*t)+
				0.4*math.Sin(4*math.Pi*pitch*t)))); err != nil {
				return nil, err
			}
		}
	}
	return b.Bytes(), nil
}
