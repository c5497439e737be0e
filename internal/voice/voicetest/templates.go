package voicetest

import (
	"math"
	"sync"
)

// The features are mel-frequency cepstral coefficients, as in Davis and Mermelstein, "Comparison of
// parametric representations for monosyllabic word recognition" (1980), and utterances are compared
// by dynamic time warping, as in Sakoe and Chiba, "Dynamic programming algorithm optimization for
// spoken word recognition" (1978).
const (
	window, hop = Rate * 25 / 1000, Rate * 10 / 1000
	fftSize     = 512
	melFilters  = 26
	cepstra     = 13
	melLow      = 80.0
	melHigh     = 7000.0
	// trimShare is the share of the loudest frame's energy below which frames at the ends are
	// silence.
	trimShare = 1e-3
	// maxDistance is the greatest distance at which a phrase counts as recognised. Those of the
	// test have 1.62 at most, at another speed and after a board's encoder, and other phrases 2.36
	// at least.
	maxDistance = 2.1
)

// Templates recognises phrases by comparing them with recordings. It is safe for concurrent use
// once all are added.
type Templates struct {
	names    []string
	features [][][cepstra]float64
}

// Add adds a phrase.
func (t *Templates) Add(name string, samples []int16) {
	t.names, t.features = append(t.names, name), append(t.features, features(samples))
}

// Recognise returns the phrase that sounds most like the samples, or "" if none does.
func (t *Templates) Recognise(samples []int16) string {
	best, name := maxDistance, ""
	f := features(samples)
	for i, other := range t.features {
		if d := distance(f, other); d < best {
			best, name = d, t.names[i]
		}
	}
	return name
}

// features returns the normalised coefficients of each 10 ms, without silence at the ends.
func features(samples []int16) (out [][cepstra]float64) {
	var energies []float64
	loudest := 0.0
	for at := 0; at+window <= len(samples); at += hop {
		frame, energy := analyse(samples[at : at+window])
		out, energies, loudest = append(out, frame), append(energies, energy), max(loudest, energy)
	}
	first, last := 0, len(out)
	for first < last && energies[first] < trimShare*loudest {
		first++
	}
	for last > first && energies[last-1] < trimShare*loudest {
		last--
	}
	out = out[first:last]
	for c := range cepstra {
		var sum, square float64
		for i := range out {
			sum, square = sum+out[i][c], square+out[i][c]*out[i][c]
		}
		mean := sum / float64(len(out))
		deviation := math.Sqrt(max(square/float64(len(out))-mean*mean, 1e-9))
		for i := range out {
			out[i][c] = (out[i][c] - mean) / deviation
		}
	}
	return out
}

// filters returns the weights of the mel filters.
var filters = sync.OnceValue(func() (f [melFilters][fftSize / 2]float64) {
	mel := func(hz float64) float64 { return 2595 * math.Log10(1+hz/700) }
	step := (mel(melHigh) - mel(melLow)) / (melFilters + 1)
	for m := range melFilters {
		middle := mel(melLow) + step*float64(m+1)
		for k := range fftSize / 2 {
			f[m][k] = max(0, 1-math.Abs(mel(float64(k)*Rate/fftSize)-middle)/step)
		}
	}
	return f
})

// analyse returns the coefficients of a window, and its energy.
func analyse(samples []int16) (out [cepstra]float64, energy float64) {
	var re, im [fftSize]float64
	for i, s := range samples {
		v := float64(s) / 32768
		energy += v * v
		re[i] = v * (0.54 - 0.46*math.Cos(2*math.Pi*float64(i)/(window-1)))
	}
	transform(re[:], im[:])
	var logs [melFilters]float64
	for m, weights := range filters() {
		sum := 1e-10
		for k, w := range weights {
			if w > 0 {
				sum += w * (re[k]*re[k] + im[k]*im[k])
			}
		}
		logs[m] = math.Log(sum)
	}
	for c := range cepstra { // the first one is the loudness, and left out
		for m, l := range logs {
			out[c] += l * math.Cos(math.Pi*float64(c+1)*(float64(m)+0.5)/melFilters)
		}
	}
	return out, energy
}

// transform is a fast Fourier transform in place, of a power of two.
func transform(re, im []float64) {
	n := len(re)
	for i, j := 1, 0; i < n; i++ {
		bit := n >> 1
		for ; j&bit != 0; bit >>= 1 {
			j ^= bit
		}
		if j ^= bit; i < j {
			re[i], re[j], im[i], im[j] = re[j], re[i], im[j], im[i]
		}
	}
	for size := 2; size <= n; size <<= 1 {
		for k := range size / 2 {
			sin, cos := math.Sincos(-2 * math.Pi * float64(k) / float64(size))
			for at := k; at < n; at += size {
				a, b := at, at+size/2
				x, y := re[b]*cos-im[b]*sin, re[b]*sin+im[b]*cos
				re[b], im[b] = re[a]-x, im[a]-y
				re[a], im[a] = re[a]+x, im[a]+y
			}
		}
	}
}

// distance compares two utterances, for each step of their best alignment.
func distance(a, b [][cepstra]float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return math.Inf(1)
	}
	row := make([]float64, len(b)+1)
	for j := range row {
		row[j] = math.Inf(1)
	}
	row[0] = 0
	for i := range a {
		diagonal := row[0]
		row[0] = math.Inf(1)
		for j := range b {
			d := 0.0
			for c := range cepstra {
				d += (a[i][c] - b[j][c]) * (a[i][c] - b[j][c])
			}
			best := min(diagonal+2*math.Sqrt(d), row[j]+math.Sqrt(d), row[j+1]+math.Sqrt(d))
			diagonal, row[j+1] = row[j+1], best
		}
	}
	return row[len(b)] / float64(len(a)+len(b))
}
