package realtime

import (
	"encoding/binary"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/pcm"
)

// Upsampler converts the sound of boards, at [engine.Rate], to what a service takes.
type Upsampler struct {
	rate      int
	resampler *pcm.Resampler // nil: nothing to do
	floats    []float32
	out       []int16
}

// NewUpsampler returns an upsampler for a service.
func NewUpsampler(s Spelling) *Upsampler {
	u := &Upsampler{rate: s.InputRate()}
	u.Reset()
	return u
}

// Reset begins another sound.
func (u *Upsampler) Reset() {
	if u.rate == engine.Rate {
		return
	}
	r, err := pcm.NewResampler(engine.Rate, u.rate)
	if err != nil {
		panic(err) // both rates are constants
	}
	u.resampler = r
}

// Convert returns converted samples, which are valid until the next call. With last, it returns
// those that were held back too, and begins another sound.
func (u *Upsampler) Convert(samples []int16, last bool) []int16 {
	if u.resampler == nil {
		return samples
	}
	u.floats = u.floats[:0]
	for _, s := range samples {
		u.floats = append(u.floats, float32(s)/(1<<15))
	}
	u.resampler.Push(u.floats)
	if last {
		u.resampler.Flush()
		defer u.Reset()
	}
	u.out = u.out[:cap(u.out)]
	for n := 0; ; {
		if n == len(u.out) {
			u.out = append(u.out, make([]int16, 1024+len(u.out))...)
		}
		pulled := u.resampler.Pull(u.out[n:])
		if n += pulled; pulled == 0 {
			return u.out[:n]
		}
	}
}

// Samples returns PCM as samples.
func Samples(sound []byte) []int16 {
	samples := make([]int16, len(sound)/2)
	for i := range samples {
		samples[i] = int16(binary.LittleEndian.Uint16(sound[2*i:]))
	}
	return samples
}
