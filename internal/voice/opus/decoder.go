package opus

import (
	"fmt"
	"time"

	pion "github.com/pion/opus"
)

// Decoder decodes the packets of one stream into mono samples. It is not safe for concurrent use.
type Decoder struct {
	rate   int
	inner  pion.Decoder
	parsed Packet
	last   int // samples of the packet before
}

// NewDecoder returns a decoder whose output has rate samples per second: 8000, 12000, 16000, 24000
// or 48000. Each of these can decode streams of any rate.
func NewDecoder(rate int) (*Decoder, error) {
	inner, err := pion.NewDecoderWithOutput(rate, 1)
	if err != nil {
		return nil, fmt.Errorf("opus decoder at %d Hz: %w", rate, err)
	}
	return &Decoder{rate: rate, inner: inner}, nil
}

// Samples returns the number of samples that the given duration has at the decoder's rate.
func (d *Decoder) Samples(of time.Duration) int {
	return int(of * time.Duration(d.rate) / time.Second)
}

// Decode writes the samples of a packet to pcm and returns their number; room for [MaxDuration] is
// always enough. A nil packet stands for a lost one: it yields silence as long as the packet
// before. A malformed packet changes nothing.
func (d *Decoder) Decode(packet []byte, pcm []int16) (n int, err error) {
	if packet == nil {
		n = min(d.last, len(pcm))
		clear(pcm[:n])
		return n, nil
	}
	if err := d.parsed.Parse(packet); err != nil {
		return 0, err
	}
	if n = d.Samples(d.parsed.Duration()); n > len(pcm) {
		return 0, fmt.Errorf("opus decoder: %d samples of room for %d", len(pcm), n)
	}
	defer func() {
		// The packets come from untrusted sources, and the decoder is young. A packet that makes it
		// panic must not end the program; the stream goes on with a fresh state.
		if r := recover(); r != nil {
			n, err = 0, fmt.Errorf("%w: the decoder gave up: %v", ErrMalformed, r)
			_ = d.inner.Init(d.rate, 1) // NewDecoder used the same arguments
		}
	}()
	if n, err = d.inner.DecodeToInt16(packet, pcm[:n]); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	d.last = n
	return n, nil
}
