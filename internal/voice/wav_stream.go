package voice

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"patchbay/internal/voice/opus"
)

// wavStreamRate is the sample rate of a [WAVStream] in Hz. Browsers start playback after about 32
// KiB: that is half a minute of speech as Opus, but a third of a second of samples at this rate.
const wavStreamRate = 48000

// WAVStream writes what a board sends as a WAV file without an end, which browsers play meanwhile.
// Pauses are left out, because each would delay playback for the rest of the stream. It is not safe
// for concurrent use.
type WAVStream struct {
	w       io.Writer
	decoder *opus.Decoder
	pcm     []int16
	out     []byte
	samples int64
}

// NewWAVStream writes the header of the file. Its sizes are 0xffffffff, which means unknown.
func NewWAVStream(w io.Writer) (*WAVStream, error) {
	d, err := opus.NewDecoder(wavStreamRate)
	if err != nil {
		return nil, err
	}
	const endless = "\xff\xff\xff\xff"
	// Format tag 1 is integer PCM (RFC 2361 appendix A); one channel of 16 bits.
	head := []byte("RIFF" + endless + "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00")
	head = binary.LittleEndian.AppendUint32(head, wavStreamRate)
	head = binary.LittleEndian.AppendUint32(head, 2*wavStreamRate)
	head = append(head, "\x02\x00\x10\x00data"+endless...)
	if _, err := w.Write(head); err != nil {
		return nil, fmt.Errorf("begin a file without end: %w", err)
	}
	return &WAVStream{w: w, decoder: d, pcm: make([]int16, d.Samples(opus.MaxDuration))}, nil
}

// Packet adds a packet. A malformed packet is left out.
func (l *WAVStream) Packet(_ time.Time, packet []byte) error {
	n, err := l.decoder.Decode(packet, l.pcm)
	if err != nil {
		return nil //nolint:nilerr // the listener misses one packet
	}
	l.out = l.out[:0]
	for _, x := range l.pcm[:n] {
		l.out = binary.LittleEndian.AppendUint16(l.out, uint16(x))
	}
	l.samples += int64(n)
	_, err = l.w.Write(l.out)
	return err
}

// Flush does nothing: Packet writes at once.
func (l *WAVStream) Flush() error { return nil }

// Length is the duration of the audio so far.
func (l *WAVStream) Length() time.Duration {
	return time.Duration(l.samples) * time.Second / wavStreamRate
}

// Close does nothing: the file has no end.
func (l *WAVStream) Close() error { return nil }
