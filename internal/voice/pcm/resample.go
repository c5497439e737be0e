// Package pcm reads PCM audio from WAV files of any rate and number of channels, and converts it to
// one channel at a given rate. It also writes WAV.
package pcm

import (
	"fmt"
	"math"
)

// Limits of sample rates in Hz. They bound the table of a resampler: at most 512 filters of 4600
// taps, 9 MB; for usual rates less than 0.5 MB.
const (
	MinRate = 4000
	MaxRate = 192000
)

const (
	// zeros is the number of zero crossings of the sinc function on each side. With a Kaiser window
	// for 80 dB, the filter falls from 0 to −80 dB within 5 % of the lower rate: at 16 kHz,
	// everything below 7.2 kHz is kept.
	zeros  = 48
	kaiser = 7.857
	// exact is the maximum number of phases for which each has its own filter. Other ratios
	// interpolate between the filters of coarse phases.
	exact  = 1024
	coarse = 512
)

// Resampler changes the sample rate of one channel without delay: the first sample stays the first.
// It is not safe for concurrent use.
type Resampler struct {
	in, out int
	step    int // in/out reduced: one output sample advances the input by step/unit samples
	unit    int
	phases  int
	half    int // taps on each side
	table   [][]float32

	buf     []float32 // input around the current position; starts half before the next sample
	phase   int       // of the next sample, in 1/unit
	flushed bool
}

// NewResampler returns a resampler from in to out, both in Hz.
func NewResampler(in, out int) (*Resampler, error) {
	if min(in, out) < MinRate || max(in, out) > MaxRate {
		return nil, fmt.Errorf("resample from %d Hz to %d Hz: rates are %d to %d", in, out, MinRate, MaxRate)
	}
	g := gcd(in, out)
	r := &Resampler{in: in, out: out, step: in / g, unit: out / g}
	if in == out {
		return r, nil
	}
	r.phases = r.unit
	if r.phases > exact {
		r.phases = coarse
	}
	// When downsampling, the filter is wider by the ratio, so that it cuts at the lower rate.
	low := float64(min(in, out)) / float64(in)
	r.half = int(math.Ceil(zeros / low))
	r.table = make([][]float32, r.phases+1)
	for p := range r.table {
		r.table[p] = taps(float64(p)/float64(r.phases), low, r.half)
	}
	r.buf = make([]float32, r.half, 4*r.half) // silence before the sound
	return r, nil
}

// taps returns the filter for an output sample that lies shift after an input sample. Its sum is 1,
// so that a constant signal is preserved.
func taps(shift, low float64, half int) []float32 {
	const pass = 0.474 // the middle of the slope, as a fraction of the lower rate
	h := make([]float64, 2*half)
	var sum float64
	for i := range h {
		x := float64(i-half+1) - shift // distance of this sample from the output sample
		s := 1.0
		if a := 2 * math.Pi * pass * low * x; a != 0 {
			s = math.Sin(a) / a
		}
		w := x / float64(half)
		if w = 1 - w*w; w < 0 {
			w = 0
		}
		h[i] = s * bessel(kaiser*math.Sqrt(w))
		sum += h[i]
	}
	t := make([]float32, len(h))
	for i := range h {
		t[i] = float32(h[i] / sum)
	}
	return t
}

// bessel is the modified Bessel function of the first kind of order zero.
func bessel(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > 1e-10*sum; k++ {
		term *= x * x / (4 * k * k)
		sum += term
	}
	return sum
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Push adds samples from -1 to 1. The buffer grows without bound if nothing is pulled.
func (r *Resampler) Push(samples []float32) { r.buf = append(r.buf, samples...) }

// Flush marks the end of the sound. The buffered rest can then be pulled.
func (r *Resampler) Flush() {
	if !r.flushed {
		r.flushed = true
		r.buf = append(r.buf, make([]float32, r.half)...)
	}
}

// Pull writes the samples that are ready and returns their number.
func (r *Resampler) Pull(pcm []int16) (n int) {
	if r.in == r.out {
		n = min(len(pcm), len(r.buf))
		for i, v := range r.buf[:n] {
			pcm[i] = quantize(v)
		}
		r.buf = append(r.buf[:0], r.buf[n:]...)
		return n
	}
	at := 0 // position of the window in buf
	// The window begins half-1 samples before the output sample; buf begins half samples before it.
	for ; n < len(pcm) && at+2*r.half < len(r.buf); n++ {
		pcm[n] = quantize(r.filter(r.buf[at+1 : at+1+2*r.half]))
		r.phase += r.step
		at += r.phase / r.unit
		r.phase %= r.unit
	}
	r.buf = append(r.buf[:0], r.buf[at:]...)
	return n
}

// filter returns the output sample at the current phase.
func (r *Resampler) filter(window []float32) float32 {
	if r.phases == r.unit {
		return dot(r.table[r.phase], window)
	}
	p := float64(r.phase) / float64(r.unit) * coarse
	i := int(p)
	f := float32(p - float64(i))
	return (1-f)*dot(r.table[i], window) + f*dot(r.table[i+1], window)
}

// dot is the dot product. Four sums avoid waiting for each addition.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for len(a) >= 4 && len(b) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i := range a {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}

// quantize rounds to 16 bits, and clips.
func quantize(v float32) int16 {
	switch v *= 32768; {
	case v >= 32767:
		return 32767
	case v <= -32768:
		return -32768
	case v >= 0:
		return int16(v + 0.5)
	}
	return int16(v - 0.5)
}
