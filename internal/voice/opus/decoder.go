package opus

import (
	"fmt"
	"time"

	pion "github.com/pion/opus"
)

// Decoder turns the packets of one stream into mono sound. It is for one goroutine.
type Decoder struct {
	rate   int
	inner  pion.Decoder
	parsed Packet
	last   int // samples of the packet before
}

// NewDecoder makes a decoder whose samples come at rate per second: 8000, 12000,
// 16000, 24000 or 48000. Streams of any rate can be decoded at any of these.
func NewDecoder(rate int) (*Decoder, error) {
	inner, err := pion.NewDecoderWithOutput(rate, 1)
	if err != nil {
		return nil, fmt.Errorf("opus decoder at %d Hz: %w", rate, err)
	}
	return &Decoder{rate: rate, inner: inner}, nil
}

// Samples is how many samples d of sound are at the decoder's rate.
func (d *Decoder) Samples(of time.Duration) int {
	return int(of * time.Duration(d.rate) / time.Second)
}

// Decode writes the sound of a packet to pcm and says how many samples that is; room
// for [MaxDuration] is always enough. A packet that was lost is said as nil: it
// sounds as long as the one before, silent. A malformed packet changes nothing.
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
		// Strangers write these bytes, and the decoder is young. One bad packet must
		// not end the program; the stream goes on with a fresh state.
		if r := recover(); r != nil {
			n, err = 0, fmt.Errorf("%w: the decoder gave up: %v", ErrMalformed, r)
			_ = d.inner.Init(d.rate, 1) // the same arguments were good before
		}
	}()
	if n, err = d.inner.DecodeToInt16(packet, pcm[:n]); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	d.last = n
	return n, nil
}
