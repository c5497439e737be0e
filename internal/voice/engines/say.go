package engines

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"patchbay/internal/voice"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/ogg"
	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/pcm"
)

// maxSaid limits what [Say] and [Samples] return: two minutes.
const maxSaid = 2 * time.Minute

// errSilent means that an engine sent no sound, or none that can be decoded.
var errSilent = errors.New("no sound came that can be decoded")

// Said is a spoken text.
type Said struct {
	Samples []int16
	First   time.Duration // until the first sound
}

// Say has an engine speak a text, and returns its samples at a rate.
func Say(ctx context.Context, e engine.Engine, text string, rate int) (said Said, err error) {
	speech, err := e.Speaker.Speak(ctx, engine.Manner{})
	if err != nil {
		return said, err
	}
	defer speech.Close()
	began := time.Now()
	if err := errors.Join(speech.Write(text), speech.Finish()); err != nil {
		return said, err
	}
	for {
		clip, err := speech.Next()
		switch {
		case errors.Is(err, io.EOF) && len(said.Samples) == 0:
			return said, engine.Errorf(engine.Broken, "%w", errSilent)
		case errors.Is(err, io.EOF):
			return said, nil
		case err != nil:
			return said, err
		}
		if said.First == 0 {
			said.First = time.Since(began)
		}
		samples, err := samplesOf(clip, rate)
		clip.Sound.Close()
		if err != nil {
			return said, err
		}
		if said.Samples = append(said.Samples, samples...); tooLong(said.Samples, rate) {
			return said, engine.Errorf(engine.Broken, "more than %s of sound for a sentence", maxSaid)
		}
	}
}

func tooLong(samples []int16, rate int) bool {
	return len(samples) > int(maxSaid/time.Second)*rate
}

// Samples decodes a sound, which is Ogg Opus or WAV, to samples at a rate. It reads two minutes at
// most.
func Samples(r io.Reader, rate int) ([]int16, error) {
	in := bufio.NewReader(r)
	clip := engine.Clip{Format: engine.WAV, Sound: io.NopCloser(in)}
	if head, _ := in.Peek(4); string(head) == "OggS" { // what cannot be read fails below
		clip.Format = engine.OggOpus
	}
	return samplesOf(clip, rate)
}

// samplesOf decodes a clip.
func samplesOf(c engine.Clip, rate int) (out []int16, err error) {
	if c.Format == engine.OggOpus {
		return oggSamples(c.Sound, rate)
	}
	var in *pcm.SampleReader
	switch c.Format {
	case engine.PCM:
		in, err = pcm.NewRaw(c.Sound, pcm.Format{Rate: c.Rate, Channels: 1, Bits: 16}, rate)
	case engine.MP3:
		in, err = voice.MP3Samples(c.Sound, rate)
	default:
		in, err = pcm.NewWAV(c.Sound, rate)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSilent, err)
	}
	room := make([]int16, 4096)
	for !tooLong(out, rate) {
		n, err := in.Read(room)
		out = append(out, room[:n]...)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
	}
	return out, nil
}

func oggSamples(r io.Reader, rate int) (out []int16, err error) {
	in := ogg.NewReader(r)
	decoder, err := opus.NewDecoder(rate)
	if err != nil {
		return nil, err
	}
	room := make([]int16, decoder.Samples(opus.MaxDuration))
	for !tooLong(out, rate) {
		packet, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errSilent, err)
		}
		n, err := decoder.Decode(packet.Data, room)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errSilent, err)
		}
		out = append(out, room[:n]...)
	}
	return out, nil
}
