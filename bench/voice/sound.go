package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice/endpoint"
	"patchbay/internal/voice/ogg"
	"patchbay/internal/voice/opus"
)

const (
	// frame is the duration of the packets in which services send Opus.
	frame = 20 * time.Millisecond
	// pcmRate is the rate of samples that they send instead.
	pcmRate = 24000
	// maxSound is the longest sound of a text.
	maxSound = 10 * time.Second
)

// speech returns recorded speech without pauses that begins after the delay of a microphone, and
// lasts for about a time. Its last packet has voice, for the server.
func speech(length time.Duration) (packets [][]byte) {
	recorded := sim.GoodMorning()
	loud := func(p []byte) bool { return len(p) > 40 }
	first := slices.IndexFunc(recorded, loud)
	packets = slices.Clone(recorded[:first])
	for n := int(length / wire.UplinkFrame); len(packets) < n; {
		packets = append(packets, slices.DeleteFunc(slices.Clone(recorded), func(p []byte) bool { return !loud(p) })...)
	}
	packets = packets[:int(length/wire.UplinkFrame)]
	// The endpoint finds the voice, as the server does.
	d := endpoint.New(endpoint.Options{})
	last, voiced := 0, time.Duration(0)
	for i, p := range packets {
		if d.Packet(p); d.VoicedDuration() > voiced {
			last, voiced = i, d.VoicedDuration()
		}
	}
	return packets[:last+1]
}

// voice is the sound of a speaker.
type voice struct {
	packets [][]byte // of frame each
	samples []byte   // at pcmRate
}

func newVoice(ctx context.Context) (*voice, error) {
	pool := opus.NewEncoderPool(1)
	defer pool.Close(ctx) //nolint:errcheck // the process ends
	v := &voice{}
	encoder, err := pool.Open(ctx, opus.Encoding{SampleRate: pcmRate, Frame: frame, Bitrate: 32000})
	if err != nil {
		return nil, err
	}
	defer encoder.Close()
	decoder, err := opus.NewDecoder(pcmRate)
	if err != nil {
		return nil, err
	}
	var pcm []int16
	buf := make([]int16, decoder.Samples(opus.MaxDuration))
	for _, p := range speech(maxSound + time.Second)[5:] {
		n, err := decoder.Decode(p, buf)
		if err != nil {
			return nil, err
		}
		pcm = append(pcm, buf[:n]...)
	}
	for n := int(pcmRate * frame / time.Second); len(pcm) >= n; pcm = pcm[n:] {
		p, err := encoder.Encode(pcm[:n], nil)
		if err != nil {
			return nil, err
		}
		v.packets = append(v.packets, p)
		for _, s := range pcm[:n] {
			v.samples = binary.LittleEndian.AppendUint16(v.samples, uint16(s))
		}
	}
	return v, nil
}

// say returns a sound of a length.
func (v *voice) say(format string, length time.Duration) []byte {
	n := min(len(v.packets), int(length/frame)+1)
	if format == "pcm" {
		return v.samples[:n*len(v.samples)/len(v.packets)]
	}
	var file bytes.Buffer
	w, err := ogg.NewWriter(&file, ogg.WriterOptions{Channels: 1, InputRate: pcmRate, Vendor: "bench"})
	for _, p := range v.packets[:n] {
		if err == nil {
			err = w.Write(p)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // a buffer takes everything
	}
	return file.Bytes()
}
