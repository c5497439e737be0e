package sockettest

import (
	"bytes"
	"encoding/binary"

	"patchbay/internal/voice/ogg"
	"patchbay/internal/voice/pcm"
)

// soundRate is the rate of the samples that stand-ins are given, in Hz.
const soundRate = 16000

// PCM returns samples at 16 kHz as PCM with 16 bits, little endian, at another rate.
func PCM(samples []int16, rate int) []byte {
	if rate != soundRate {
		r, err := pcm.NewResampler(soundRate, rate)
		if err != nil {
			panic(err) // the caller gives a usual rate
		}
		in := make([]float32, len(samples))
		for i, s := range samples {
			in[i] = float32(s) / (1 << 15)
		}
		r.Push(in)
		r.Flush()
		samples = make([]int16, len(samples)*rate/soundRate)
		samples = samples[:r.Pull(samples)]
	}
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, samples) // into memory
	return b.Bytes()
}

// Samples returns the samples of PCM with 16 bits, little endian.
func Samples(data []byte) []int16 {
	samples := make([]int16, len(data)/2)
	for i := range samples {
		samples[i] = int16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	return samples
}

// silence is a packet of 20 ms without sound (CELT, mono).
var silence = []byte{0xf8, 0xff, 0xfe}

// Ogg returns silence that is as long as samples at 16 kHz, as an Ogg file with Opus.
func Ogg(samples []int16) []byte {
	var b bytes.Buffer
	w, err := ogg.NewWriter(&b, ogg.WriterOptions{Channels: 1, InputRate: soundRate})
	for n := 0; err == nil && n < len(samples); n += soundRate / 50 {
		err = w.Write(silence)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // the packets are valid
	}
	return b.Bytes()
}
