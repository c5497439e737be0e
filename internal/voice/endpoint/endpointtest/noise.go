package endpointtest

import (
	"math"
	"math/rand/v2"
)

// background makes n samples of a noise with a root mean square of 1.
type background func(random *rand.Rand, n int, all []Clip) []float64

func white(random *rand.Rand, n int, _ []Clip) []float64 {
	pcm := make([]float64, n)
	for i := range pcm {
		pcm[i] = random.NormFloat64()
	}
	return pcm
}

// fan is low noise with the hum of a motor.
func fan(random *rand.Rand, n int, _ []Clip) []float64 {
	pcm, x := make([]float64, n), 0.0
	for i := range pcm {
		x = 0.97*x + random.NormFloat64()
		pcm[i] = x + math.Sin(2*math.Pi*120*float64(i)/second)
	}
	return pcm
}

// babble is six voices at a time, of all clips.
func babble(random *rand.Rand, n int, all []Clip) []float64 {
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
func music(random *rand.Rand, n int, _ []Clip) []float64 {
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
