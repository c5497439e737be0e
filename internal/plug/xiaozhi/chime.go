package xiaozhi

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice"
	"patchbay/internal/voice/pace"
)

// chimeRate is the sample rate of the chime, in Hz.
const chimeRate = 24000

// chime is the sound with which timers ring, in samples of 16 bits: two pairs of falling notes,
// each of which fades.
var chime = func() []byte {
	const note = chimeRate * 3 / 10
	var out []byte
	for _, hz := range []float64{1046.5, 784, 1046.5, 784, 0} {
		for i := range note {
			t := float64(i) / chimeRate
			fade := math.Min(t*200, 1) * math.Exp(-6*t)
			sample := 0.4 * fade * (math.Sin(2*math.Pi*hz*t) + 0.3*math.Sin(4*math.Pi*hz*t))
			out = binary.LittleEndian.AppendUint16(out, uint16(int16(sample*math.MaxInt16)))
		}
	}
	return out
}()

// ringSource returns the chime, with a text that is shown, and then the text aloud if there is an
// engine.
func (b *Board) ringSource(ctx context.Context, text string, out wire.Audio) pace.Source {
	o := voice.Output{Encoding: b.boards.encoding(out), Encoders: b.boards.Encoders}
	s := &sequence{sources: []pace.Source{
		&captioned{Source: voice.PCM(bytes.NewReader(chime), chimeRate, o), text: text}}}
	b.mu.Lock()
	d := b.device
	b.mu.Unlock()
	if chain := b.boards.engines(ctx, d); chain != nil {
		if speech, err := b.speech(ctx, chain, toolArgs{Text: text}, out); err == nil {
			s.sources = append(s.sources, speech)
		}
	}
	return s
}

// sequence plays sources one after the other, and leaves out what cannot be played: the first one
// shows the text.
type sequence struct{ sources []pace.Source }

// Next implements [pace.Source].
func (s *sequence) Next(ctx context.Context) ([]byte, error) {
	for len(s.sources) > 0 {
		packet, err := s.sources[0].Next(ctx)
		if err == nil || ctx.Err() != nil {
			return packet, err
		}
		closeSource(s.sources[0])
		s.sources = s.sources[1:]
	}
	return nil, io.EOF
}

// Text implements [pace.TextSource].
func (s *sequence) Text() (string, bool) {
	if texts, ok := s.sources[0].(pace.TextSource); ok {
		return texts.Text()
	}
	return "", false
}

// Close implements io.Closer.
func (s *sequence) Close() error {
	for _, source := range s.sources {
		closeSource(source)
	}
	return nil
}
