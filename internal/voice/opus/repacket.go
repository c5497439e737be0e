package opus

import (
	"errors"
	"fmt"
	"time"
)

// ErrFrameDuration means that the frames of a stream do not add up to the wanted duration. The
// stream has to be decoded and encoded again.
var ErrFrameDuration = errors.New("the frames do not add up to the wanted duration")

// Append appends a packet that holds frames to dst. The mode, the bandwidth and the frame duration
// are those of toc, whose code is ignored. It chooses the shortest layout.
func Append(dst []byte, toc TOC, frames ...[]byte) ([]byte, error) {
	n := len(frames)
	if n == 0 || n > MaxFrames || time.Duration(n)*toc.FrameDuration() > MaxDuration {
		return dst, fmt.Errorf("%w: %d frames of %s", ErrMalformed, n, toc.FrameDuration())
	}
	equal := true
	for _, f := range frames {
		if len(f) > MaxFrame {
			return dst, fmt.Errorf("%w: a frame of %d bytes", ErrMalformed, len(f))
		}
		equal = equal && len(f) == len(frames[0])
	}
	toc = toc.withoutCode()
	switch {
	case n == 1:
		dst = append(dst, byte(toc))
	case n == 2 && equal:
		dst = append(dst, byte(toc|1))
	case n == 2:
		dst = appendSize(append(dst, byte(toc|2)), len(frames[0]))
	case equal:
		dst = append(dst, byte(toc|3), byte(n))
	default:
		dst = append(dst, byte(toc|3), 0x80|byte(n))
		for _, f := range frames[:n-1] {
			dst = appendSize(dst, len(f))
		}
	}
	for _, f := range frames {
		dst = append(dst, f...)
	}
	return dst, nil
}

func appendSize(dst []byte, n int) []byte {
	if n < 252 {
		return append(dst, byte(n))
	}
	first := 252 + n&3
	return append(dst, byte(first), byte((n-first)/4))
}

// Framer turns a stream of packets into packets of one duration without decoding: three of 20 ms
// become one of 60 ms, and the other way round.
//
// Frames share a packet only if mode, bandwidth and channels are the same. Where a stream changes
// them within a packet, the packet is completed with empty frames, which the decoder conceals: at
// most one packet's length of audio.
//
// A Framer is not safe for concurrent use. After its first packets it allocates nothing.
type Framer struct {
	want   time.Duration
	parsed Packet
	groups []frameGroup // of equal TOC, oldest first
	bytes  []byte       // the frames of groups, one after the other
	sizes  []int
	frames [MaxFrames][]byte
}

// frameGroup is a number of waiting frames with the same TOC.
type frameGroup struct {
	toc TOC
	n   int
	end bool // no frames will be added
}

// NewFramer returns a Framer whose packets last for d: 2.5 to 120 ms.
func NewFramer(d time.Duration) *Framer { return &Framer{want: d} }

// Push adds the frames of a packet. The bytes are copied. Its error is [ErrMalformed], or
// [ErrFrameDuration] if the frames do not fit; then nothing was added. The caller calls
// [Framer.Pop] until it has no more packets, so that at most one packet and one packet's length are
// buffered.
func (f *Framer) Push(packet []byte) error {
	if err := f.parsed.Parse(packet); err != nil {
		return err
	}
	toc := f.parsed.TOC.withoutCode()
	if d := toc.FrameDuration(); d > f.want || f.want%d != 0 || f.want > MaxDuration {
		return fmt.Errorf("%w: %s out of %s", ErrFrameDuration, f.want, d)
	}
	last := len(f.groups) - 1
	if last < 0 || f.groups[last].toc != toc || f.groups[last].end {
		f.Flush()
		f.groups = append(f.groups, frameGroup{toc: toc})
		last++
	}
	for i := range f.parsed.Count() {
		b := f.parsed.Frame(i)
		f.bytes, f.sizes = append(f.bytes, b...), append(f.sizes, len(b))
	}
	f.groups[last].n += f.parsed.Count()
	return nil
}

// Flush ends the current group of frames: Pop returns the buffered frames, completed to a packet.
func (f *Framer) Flush() {
	if n := len(f.groups); n > 0 {
		f.groups[n-1].end = true
	}
}

// Pop appends the next packet to dst. ok is false if more frames are needed first.
func (f *Framer) Pop(dst []byte) (packet []byte, ok bool) {
	if len(f.groups) == 0 {
		return dst, false
	}
	g := &f.groups[0]
	need := int(f.want / g.toc.FrameDuration())
	if g.n < need && !g.end {
		return dst, false
	}
	have, at := min(need, g.n), 0
	for i := range need {
		f.frames[i] = nil
		if i < have {
			f.frames[i] = f.bytes[at : at+f.sizes[i]]
			at += f.sizes[i]
		}
	}
	packet, err := Append(dst, g.toc, f.frames[:need]...)
	if err != nil { // impossible: the frames are valid, and their number was checked
		panic(err)
	}
	f.bytes = append(f.bytes[:0], f.bytes[at:]...)
	f.sizes = append(f.sizes[:0], f.sizes[have:]...)
	if g.n -= have; g.n == 0 {
		f.groups = append(f.groups[:0], f.groups[1:]...)
	}
	return packet, true
}
