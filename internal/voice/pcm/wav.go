package pcm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrMalformed is found by errors.Is in every error about bytes that are not a supported WAV file.
var ErrMalformed = errors.New("malformed WAV")

const (
	maxChannels = 8       // speech has fewer
	maxSkipped  = 1 << 20 // bytes of other chunks before the audio: pictures, texts
	block       = 4 << 10 // bytes per read
)

// Format is the encoding of samples.
type Format struct {
	Rate     int  // Hz
	Channels int  // 1 to 8, mixed to one
	Bits     int  // 8 (unsigned), 16, 24 or 32; 32 or 64 if Float
	Float    bool // values from -1 to 1
}

func (f Format) check() error {
	ok := f.Bits == 8 || f.Bits == 16 || f.Bits == 24 || f.Bits == 32
	if f.Float {
		ok = f.Bits == 32 || f.Bits == 64
	}
	if !ok || f.Channels < 1 || f.Channels > maxChannels || f.Rate < MinRate || f.Rate > MaxRate {
		return fmt.Errorf("%w: %d channels of %d bits (floating point: %t) at %d Hz", ErrMalformed, f.Channels, f.Bits,
			f.Float, f.Rate)
	}
	return nil
}

// SampleReader reads samples as one channel at a given rate. It is not safe for concurrent use.
type SampleReader struct {
	r         io.Reader
	format    Format
	resampler *Resampler
	raw       []byte
	pending   int // bytes of an incomplete sample in raw
	mono      []float32
	err       error // error of r, returned after the rest
}

// NewWAV reads the header of a WAV file and returns its samples at rate. A data size of 0 or
// 0xffffffff, which streamed files have, means "to the end".
func NewWAV(r io.Reader, rate int) (*SampleReader, error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, asMalformed(err)
	}
	if string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return nil, fmt.Errorf("%w: it begins with %q", ErrMalformed, head)
	}
	var f Format
	for skipped := 0; ; {
		if _, err := io.ReadFull(r, head[:8]); err != nil {
			return nil, asMalformed(err)
		}
		id, size := string(head[:4]), binary.LittleEndian.Uint32(head[4:])
		if id == "data" {
			if f.Rate == 0 {
				return nil, fmt.Errorf("%w: sound before its format", ErrMalformed)
			}
			if size != 0 && size != math.MaxUint32 {
				r = io.LimitReader(r, int64(size))
			}
			return NewRaw(r, f, rate)
		}
		if skipped += int(size) + 8; skipped > maxSkipped {
			return nil, fmt.Errorf("%w: more than %d bytes before the sound", ErrMalformed, maxSkipped)
		}
		chunk := make([]byte, size+size&1) // chunks are padded to an even length
		if _, err := io.ReadFull(r, chunk); err != nil {
			return nil, asMalformed(err)
		}
		if id == "fmt " {
			var err error
			if f, err = parseFormat(chunk[:size]); err != nil {
				return nil, err
			}
		}
	}
}

// NewRaw returns samples without a header at rate.
func NewRaw(r io.Reader, f Format, rate int) (*SampleReader, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	resampler, err := NewResampler(f.Rate, rate)
	if err != nil {
		return nil, err
	}
	return &SampleReader{r: r, format: f, resampler: resampler, raw: make([]byte, block)}, nil
}

// asMalformed turns an unexpected end of the file into [ErrMalformed].
func asMalformed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it is cut off", ErrMalformed)
	}
	return err
}

func parseFormat(b []byte) (Format, error) {
	// Format tags: RFC 2361 appendix A, and WAVE_FORMAT_EXTENSIBLE of mmreg.h, whose SubFormat GUID
	// begins with the tag at offset 24.
	const integer, float, extensible = 1, 3, 0xfffe
	if len(b) < 16 {
		return Format{}, fmt.Errorf("%w: a format of %d bytes", ErrMalformed, len(b))
	}
	kind := binary.LittleEndian.Uint16(b)
	f := Format{
		Channels: int(binary.LittleEndian.Uint16(b[2:])),
		Rate:     int(binary.LittleEndian.Uint32(b[4:])),
		Bits:     int(binary.LittleEndian.Uint16(b[14:])),
	}
	if kind == extensible && len(b) >= 26 {
		kind = binary.LittleEndian.Uint16(b[24:])
	}
	if kind != integer && kind != float {
		return Format{}, fmt.Errorf("%w: encoding %#x, only plain samples can be read", ErrMalformed, kind)
	}
	f.Float = kind == float
	return f, f.check()
}

// Read writes the available samples to pcm, at least one. At the end it returns io.EOF; an
// incomplete sample there is left out. Errors of the underlying reader are returned as they are.
func (s *SampleReader) Read(pcm []int16) (int, error) {
	if len(pcm) == 0 {
		return 0, nil
	}
	for {
		if n := s.resampler.Pull(pcm); n > 0 {
			return n, nil
		}
		if s.err != nil {
			return 0, s.err
		}
		n, err := s.r.Read(s.raw[s.pending:])
		s.push(s.raw[:s.pending+n])
		if err != nil {
			s.resampler.Flush()
			s.err = err
		}
	}
}

// push mixes the whole samples of b to one channel and keeps the rest.
func (s *SampleReader) push(b []byte) {
	width := s.format.Bits / 8
	frame := width * s.format.Channels
	n := len(b) / frame
	s.mono = s.mono[:0]
	for i := range n {
		var sum float32
		for c := range s.format.Channels {
			sum += s.sample(b[i*frame+c*width:])
		}
		s.mono = append(s.mono, sum/float32(s.format.Channels))
	}
	s.pending = copy(s.raw, b[n*frame:])
	s.resampler.Push(s.mono)
}

// sample returns the first sample in b, from -1 to 1.
func (s *SampleReader) sample(b []byte) float32 {
	switch {
	case s.format.Float && s.format.Bits == 32:
		return clampSample(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	case s.format.Float:
		return clampSample(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case s.format.Bits == 8:
		return float32(int(b[0])-128) / (1 << 7)
	case s.format.Bits == 16:
		return float32(int16(binary.LittleEndian.Uint16(b))) / (1 << 15)
	case s.format.Bits == 24:
		return float32(int32(b[0])<<8|int32(b[1])<<16|int32(b[2])<<24) / (1 << 31)
	}
	return float32(int32(binary.LittleEndian.Uint32(b))) / (1 << 31)
}

// clampSample bounds a value and turns NaN into 0: other values would distort the neighbouring
// samples in the filter.
func clampSample(v float64) float32 {
	if math.IsNaN(v) {
		return 0
	}
	return float32(min(max(v, -1), 1))
}

// WriteWAV writes one channel of 16-bit samples as a WAV file, with one call of Write.
func WriteWAV(w io.Writer, rate int, samples []int16) error {
	size := 2 * len(samples)
	if size > math.MaxInt32 {
		return fmt.Errorf("write WAV: %d samples are too many", len(samples))
	}
	var b bytes.Buffer
	b.WriteString("RIFF")
	head := []any{
		uint32(36 + size), []byte("WAVEfmt "), uint32(16), uint16(1), uint16(1), uint32(rate), uint32(2 * rate),
		uint16(2), uint16(16),
		[]byte("data"), uint32(size), samples,
	}
	for _, v := range head {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			return fmt.Errorf("write WAV: %w", err)
		}
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write WAV: %w", err)
	}
	return nil
}
