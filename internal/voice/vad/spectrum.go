package vad

import (
	"math"
	"math/bits"
	"math/cmplx"
)

const (
	// frameSize is the length of a Fourier transform, in samples, and hop the distance of two.
	frameSize, hop = 256, 128
	// bins is the number of frequencies of a transform.
	bins = frameSize/2 + 1
)

// hann is a periodic Hann window. The model's own table of sines, windowed, differs from an exact
// one by 8e-8 at most, so a fast transform replaces it.
var hann = func() (w [frameSize]float64) {
	for n := range w {
		w[n] = 0.5 - 0.5*math.Cos(2*math.Pi*float64(n)/frameSize)
	}
	return w
}()

// twiddles are the roots of unity of a transform.
var twiddles = func() (w [frameSize / 2]complex128) {
	for k := range w {
		w[k] = cmplx.Rect(1, -2*math.Pi*float64(k)/frameSize)
	}
	return w
}()

// transform replaces x by its discrete Fourier transform (Cooley and Tukey, radix 2).
func transform(x *[frameSize]complex128) {
	for i := range x {
		if j := int(bits.Reverse8(uint8(i))); i < j {
			x[i], x[j] = x[j], x[i]
		}
	}
	for size := 2; size <= frameSize; size *= 2 {
		half, step := size/2, frameSize/size
		for first := 0; first < frameSize; first += size {
			for k := range half {
				a, b := x[first+k], x[first+k+half]*twiddles[k*step]
				x[first+k], x[first+k+half] = a+b, a-b
			}
		}
	}
}

// magnitudes writes the absolute spectra of two frames, which one complex transform yields at once:
// the first frame is its real and the second its imaginary input.
func magnitudes(first, second *[frameSize]float32, spectrum *[2][bins]float32) {
	var x [frameSize]complex128
	for n := range x {
		x[n] = complex(float64(first[n])*hann[n], float64(second[n])*hann[n])
	}
	transform(&x)
	for k := range bins {
		a, b := x[k], x[(frameSize-k)%frameSize]
		// Of real input, the spectrum at -k is the conjugate of that at k.
		re1, im1 := real(a)+real(b), imag(a)-imag(b)
		re2, im2 := imag(a)+imag(b), real(b)-real(a)
		spectrum[0][k] = float32(math.Sqrt(re1*re1+im1*im1) / 2)
		spectrum[1][k] = float32(math.Sqrt(re2*re2+im2*im2) / 2)
	}
}
