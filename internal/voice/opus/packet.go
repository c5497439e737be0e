// Package opus parses, repacketizes, decodes and encodes Opus packets (RFC 6716).
//
// A packet is one byte of configuration (the TOC, §3.1) and 1 to 48 frames of equal duration,
// together at most 120 ms (§3.2). Voice boards send 60 ms of SILK per packet, and packets of a
// single byte during silence; speech services send packets of 20 ms in any mode.
//
// The decoder is github.com/pion/opus. The encoder is libopus, compiled to WebAssembly (folder
// libopus) and run by github.com/tetratelabs/wazero, so that the program stays one static binary.
package opus

import (
	"errors"
	"fmt"
	"time"
)

// Limits of the format (RFC 6716 §3.2.1, §3.2.5, §3.4).
const (
	MaxFrames   = 48                     // frames in a packet
	MaxFrame    = 1275                   // bytes in a frame
	MaxDuration = 120 * time.Millisecond // of a packet
)

// MaxPacket is the maximum size of a packet that [Packet.Parse] accepts, in bytes: 48 frames with
// two bytes of length each, and the two bytes before them. It bounds buffers for packets; only
// padding could make a packet longer.
const MaxPacket = MaxFrames*(MaxFrame+2) + 2

// ErrMalformed is found by errors.Is in every error about a packet that violates the framing rules
// (RFC 6716 §3.4).
var ErrMalformed = errors.New("malformed Opus packet")

// Mode is the codec of a frame.
type Mode uint8

// The modes: SILK for speech, CELT for everything, or both at once (RFC 6716 §2).
const (
	SILK Mode = iota
	Hybrid
	CELT
)

func (m Mode) String() string { return [...]string{"SILK", "hybrid", "CELT"}[m] }

// TOC is the first byte of a packet (RFC 6716 §3.1).
type TOC byte

// Config is the number of mode, bandwidth and frame duration, 0 to 31.
func (t TOC) Config() int { return int(t >> 3) }

// Code is the layout of the frames: 0 one frame, 1 two of equal length, 2 two of different lengths,
// 3 any number.
func (t TOC) Code() int { return int(t & 3) }

// Mode is the codec of the frames.
func (t TOC) Mode() Mode {
	switch {
	case t.Config() < 12:
		return SILK
	case t.Config() < 16:
		return Hybrid
	}
	return CELT
}

// FrameDuration is the duration of each frame: 2.5, 5, 10, 20, 40 or 60 ms.
func (t TOC) FrameDuration() time.Duration {
	const ms = time.Millisecond
	switch c := t.Config(); {
	case c < 12:
		return [...]time.Duration{10 * ms, 20 * ms, 40 * ms, 60 * ms}[c%4]
	case c < 16:
		return [...]time.Duration{10 * ms, 20 * ms}[c%2]
	default:
		return [...]time.Duration{2500 * time.Microsecond, 5 * ms, 10 * ms, 20 * ms}[c%4]
	}
}

// withoutCode is the TOC without its code. Frames can share a packet if it is equal.
func (t TOC) withoutCode() TOC { return t &^ 3 }

// Packet is a parsed packet. Its frames point into the bytes it was parsed from. It is large; keep
// one and parse into it repeatedly.
type Packet struct {
	TOC     TOC
	Padding int // bytes of padding
	n       int
	frames  [MaxFrames][]byte
}

// Parse parses data and validates the framing rules. It keeps data, does not change it, and
// allocates only if it fails.
func (p *Packet) Parse(data []byte) error {
	p.n, p.Padding = 0, 0
	if len(data) == 0 {
		return fmt.Errorf("%w: it is empty", ErrMalformed)
	}
	if len(data) > MaxPacket {
		return fmt.Errorf("%w: %d bytes", ErrMalformed, len(data))
	}
	p.TOC = TOC(data[0])
	body := data[1:]
	switch p.TOC.Code() {
	case 0:
		return p.equal(body, 1)
	case 1:
		return p.equal(body, 2)
	case 2:
		size, rest, ok := frameSize(body)
		if !ok || size > len(rest) {
			return fmt.Errorf("%w: the first frame is longer than the packet", ErrMalformed)
		}
		p.frames[0], p.frames[1], p.n = rest[:size], rest[size:], 2
		return p.lengths()
	}
	return p.counted(body)
}

// counted parses a packet of code 3 (RFC 6716 §3.2.5).
func (p *Packet) counted(body []byte) error {
	if len(body) == 0 {
		return fmt.Errorf("%w: the number of frames is missing", ErrMalformed)
	}
	head, body := body[0], body[1:]
	n := int(head & 0x3f)
	if n == 0 || time.Duration(n)*p.TOC.FrameDuration() > MaxDuration {
		return fmt.Errorf("%w: %d frames of %s", ErrMalformed, n, p.TOC.FrameDuration())
	}
	if head&0x40 != 0 {
		var ok bool
		if body, ok = p.unpad(body); !ok {
			return fmt.Errorf("%w: more padding than packet", ErrMalformed)
		}
	}
	if head&0x80 == 0 {
		return p.equal(body, n)
	}
	sum := 0
	var sizes [MaxFrames]int
	for i := range n - 1 {
		size, rest, ok := frameSize(body)
		if !ok {
			return fmt.Errorf("%w: a length is missing", ErrMalformed)
		}
		sizes[i], body = size, rest
		sum += size
	}
	if sum > len(body) {
		return fmt.Errorf("%w: the frames are longer than the packet", ErrMalformed)
	}
	sizes[n-1] = len(body) - sum
	for i := range n {
		p.frames[i], body = body[:sizes[i]:sizes[i]], body[sizes[i]:]
	}
	p.n = n
	return p.lengths()
}

// unpad removes the padding at the end of body. A length byte of 255 means 254 bytes of padding and
// another length byte (RFC 6716 §3.2.5).
func (p *Packet) unpad(body []byte) ([]byte, bool) {
	for {
		if len(body) == 0 {
			return nil, false
		}
		b := int(body[0])
		body = body[1:]
		p.Padding += min(b, 254)
		if b < 255 {
			break
		}
	}
	if p.Padding > len(body) {
		return nil, false
	}
	return body[:len(body)-p.Padding], true
}

// equal splits body into n frames of equal length.
func (p *Packet) equal(body []byte, n int) error {
	if len(body)%n != 0 {
		return fmt.Errorf("%w: %d bytes are not %d equal frames", ErrMalformed, len(body), n)
	}
	size := len(body) / n
	for i := range n {
		p.frames[i] = body[i*size : (i+1)*size : (i+1)*size]
	}
	p.n = n
	return p.lengths()
}

// lengths checks that no frame exceeds MaxFrame (RFC 6716 §3.4, R2).
func (p *Packet) lengths() error {
	for i, f := range p.frames[:p.n] {
		if len(f) > MaxFrame {
			p.n = 0
			return fmt.Errorf("%w: frame %d has %d bytes", ErrMalformed, i, len(f))
		}
	}
	return nil
}

// frameSize parses a frame length of one or two bytes (RFC 6716 §3.2.1).
func frameSize(b []byte) (size int, rest []byte, ok bool) {
	switch {
	case len(b) == 0:
	case b[0] < 252:
		return int(b[0]), b[1:], true
	case len(b) > 1:
		return int(b[1])*4 + int(b[0]), b[2:], true
	}
	return 0, nil, false
}

// Count is the number of frames, 1 to 48, or 0 if [Packet.Parse] failed.
func (p *Packet) Count() int { return p.n }

// Frame is the i-th frame. An empty frame was not sent (DTX or loss); the decoder conceals it,
// usually with silence.
func (p *Packet) Frame(i int) []byte { return p.frames[:p.n][i] }

// Duration is the duration of the packet, at most 120 ms.
func (p *Packet) Duration() time.Duration { return time.Duration(p.n) * p.TOC.FrameDuration() }

// IsSilent reports whether all frames are empty. Encoders with discontinuous transmission (DTX)
// make such packets, of one byte, during silence.
func (p *Packet) IsSilent() bool {
	for _, f := range p.frames[:p.n] {
		if len(f) > 0 {
			return false
		}
	}
	return true
}

// IsQuiet reports whether the encoder has found no voice in the packet: all frames are empty, or
// none of their flags is set (RFC 6716 §4.2.3). It takes much for a voice that is none, such as
// music. Only mono packets with SILK have the flags; others are never quiet.
func (p *Packet) IsQuiet() bool {
	const stereo = 4 // RFC 6716 §3.1
	for _, f := range p.frames[:p.n] {
		if len(f) == 0 {
			continue
		}
		if p.TOC.Mode() == CELT || p.TOC&stereo != 0 {
			return false
		}
		flags := max(1, p.TOC.FrameDuration()/(20*time.Millisecond)) // one for each SILK frame
		if f[0]>>(8-flags) != 0 {
			return false
		}
	}
	return true
}

// Duration returns the duration of a packet that is not parsed any further. It is 0 for a packet
// that cannot be valid.
func Duration(packet []byte) time.Duration {
	if len(packet) == 0 {
		return 0
	}
	t, n := TOC(packet[0]), 1
	switch {
	case t.Code() == 3 && len(packet) < 2:
		return 0
	case t.Code() == 3:
		n = int(packet[1] & 0x3f)
	case t.Code() > 0:
		n = 2
	}
	if d := time.Duration(n) * t.FrameDuration(); d <= MaxDuration {
		return d
	}
	return 0
}
