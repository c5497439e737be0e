package voice

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"patchbay/internal/voice/opus"
)

// wavStreamRate is the rate of what a [Live] writes. Browsers begin to play when some 32 KiB
// have come: of Opus that is half a minute of speech, of samples at this rate a third of
// a second.
const wavStreamRate = 48000

// WAVStream writes what a board sends as a WAV file that has no end, for browsers that play it
// meanwhile. Pauses are left out: a player would be late by them from then on. It is for
// one goroutine.
type WAVStream struct {
	w       io.Writer
	decoder *opus.Decoder
	pcm     []int16
	out     []byte
	samples int64
}

// NewWAVStream writes the head of the file.
func NewWAVStream(w io.Writer) (*WAVStream, error) {
	d, err := opus.NewDecoder(wavStreamRate)
	if err != nil {
		return nil, err
	}
	const endless = "\xff\xff\xff\xff"
	head := []byte("RIFF" + endless + "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00") // samples, one channel
	head = binary.LittleEndian.AppendUint32(head, wavStreamRate)
	head = binary.LittleEndian.AppendUint32(head, 2*wavStreamRate)
	head = append(head, "\x02\x00\x10\x00data"+endless...) // of 16 bits
	if _, err := w.Write(head); err != nil {
		return nil, fmt.Errorf("begin a file without end: %w", err)
	}
	return &WAVStream{w: w, decoder: d, pcm: make([]int16, d.Samples(opus.MaxDuration))}, nil
}

// Packet adds a packet. One that is malformed is left out.
func (l *WAVStream) Packet(_ time.Time, packet []byte) error {
	n, err := l.decoder.Decode(packet, l.pcm)
	if err != nil {
		return nil //nolint:nilerr // who listens misses a moment
	}
	l.out = l.out[:0]
	for _, x := range l.pcm[:n] {
		l.out = binary.LittleEndian.AppendUint16(l.out, uint16(x))
	}
	l.samples += int64(n)
	_, err = l.w.Write(l.out)
	return err
}

// Flush does nothing: what has come is written.
func (l *WAVStream) Flush() error { return nil }

// Length is how much has come.
func (l *WAVStream) Length() time.Duration {
	return time.Duration(l.samples) * time.Second / wavStreamRate
}

// Close does nothing: a file without end has none.
func (l *WAVStream) Close() error { return nil }
