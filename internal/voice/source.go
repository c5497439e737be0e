// Package voice converts audio for voice boards: it makes the Opus packets that a board plays from
// Ogg Opus or WAV, and it records the packets that a board sends.
//
// Opus is passed through without decoding where possible, which costs no processor time and no
// quality. Subpackages do the parts: opus parses, decodes and encodes packets; ogg reads and writes
// files; pcm reads samples; pace sends packets on time; vad tells voice from
// other sound, and endpoint where speech begins and ends.
package voice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"patchbay/internal/voice/ogg"
	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/pace"
	"patchbay/internal/voice/pcm"
)

// ErrNoEncoder means that a sound needs encoding and [Output] has no encoders.
var ErrNoEncoder = errors.New("this sound has to be encoded, and there is no encoder")

// Output describes the packets that a board plays.
type Output struct {
	// Encoding configures the encoder. Its Frame is the duration of all packets.
	Encoding opus.Encoding
	// Encoders is optional. Without it only Opus can be played, and only if its frames fit.
	Encoders *opus.EncoderPool
}

// Packets returns a source of existing packets, such as a stored greeting. Each lasts for one frame
// of the board. The packets are not changed.
func Packets(packets [][]byte) pace.Source { return &packetSource{packets} }

type packetSource struct{ rest [][]byte }

func (r *packetSource) Next(context.Context) ([]byte, error) {
	if len(r.rest) == 0 {
		return nil, io.EOF
	}
	p := r.rest[0]
	r.rest = r.rest[1:]
	return p, nil
}

// WAV returns a source that plays a WAV file while it is received. For r see [OggOpus].
func WAV(r io.Reader, o Output) pace.Source {
	return encode(r, o, func() (samples, error) { return pcm.NewWAV(r, o.Encoding.SampleRate) })
}

// PCM returns a source that plays samples of 16 bits, little endian, of one channel, while they are
// received. For r see [OggOpus].
func PCM(r io.Reader, rate int, o Output) pace.Source {
	return encode(r, o, func() (samples, error) {
		return pcm.NewRaw(r, pcm.Format{Rate: rate, Channels: 1, Bits: 16}, o.Encoding.SampleRate)
	})
}

// OggOpus returns a source that plays Ogg Opus while it is received. Packets are merged or split to
// last for one frame of the board. Where that is impossible, as with frames of 40 ms for a board
// that needs 60 ms, the rest of the stream is decoded and encoded again. The output gain, the
// pre-skip and the end trimming of the file (RFC 7845 §5.1, §4.2, §4.4) are ignored; the latter two
// are a few hundredths of a second of silence.
//
// If r is an io.Closer, it is closed together with the source. It is also closed when the context
// of Next ends, because that is the only way to interrupt a blocked read from the network. A reader
// that is no io.Closer has to end such reads by itself.
func OggOpus(r io.Reader, o Output) pace.Source {
	return &passthrough{stream: stream{r: r}, out: o, file: ogg.NewReader(r), framer: opus.NewFramer(o.Encoding.Frame)}
}

// stream is a reader whose reads end with a context.
type stream struct {
	r       io.Reader
	ctx     context.Context // only to detect a change
	release func() bool
}

// watch closes the reader when ctx ends.
func (s *stream) watch(ctx context.Context) {
	c, ok := s.r.(io.Closer)
	if !ok || s.ctx == ctx {
		return
	}
	if s.release != nil {
		s.release()
	}
	s.ctx, s.release = ctx, context.AfterFunc(ctx, func() { _ = c.Close() })
}

// readError returns the cause of ctx if it has ended, and err otherwise.
func (s *stream) readError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *stream) close() error {
	if s.release != nil {
		s.release()
	}
	if c, ok := s.r.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// passthrough is a source that forwards Opus frames without decoding them.
type passthrough struct {
	stream
	out       Output
	file      *ogg.Reader
	framer    *opus.Framer
	buf       []byte
	ended     bool
	reencoder *encodedSource // set once frames do not fit
}

func (p *passthrough) Next(ctx context.Context) ([]byte, error) {
	p.watch(ctx)
	for {
		if packet, ok := p.framer.Pop(p.buf[:0]); ok {
			p.buf = packet
			return packet, nil
		}
		switch {
		case p.reencoder != nil:
			return p.reencoder.Next(ctx)
		case p.ended:
			return nil, io.EOF
		}
		if err := p.push(); err != nil {
			return nil, p.readError(ctx, err)
		}
	}
}

// push reads the next packet of the file into the framer.
func (p *passthrough) push() error {
	packet, err := p.file.Next()
	if errors.Is(err, io.EOF) {
		p.framer.Flush()
		p.ended = true
		return nil
	}
	if err != nil {
		return err
	}
	err = p.framer.Push(packet.Data)
	if errors.Is(err, opus.ErrFrameDuration) {
		return p.startReencoding(packet.Data)
	}
	return err
}

// startReencoding decodes and encodes everything from this packet on.
func (p *passthrough) startReencoding(packet []byte) error {
	p.framer.Flush()
	d, err := opus.NewDecoder(p.out.Encoding.SampleRate)
	if err != nil {
		return err
	}
	from := &decodedSamples{file: p.file, decoder: d, pcm: make([]int16, d.Samples(opus.MaxDuration))}
	if err := from.decode(packet); err != nil {
		return err
	}
	p.reencoder = encode(nil, p.out, func() (samples, error) { return from, nil })
	return nil
}

func (p *passthrough) Close() error {
	if p.reencoder != nil {
		_ = p.reencoder.Close() // only returns its encoder to the pool
	}
	return p.close()
}

// decodedSamples decodes the packets of an Ogg file.
type decodedSamples struct {
	file    *ogg.Reader
	decoder *opus.Decoder
	pcm     []int16
	rest    []int16 // the unread part of pcm
}

func (d *decodedSamples) Read(out []int16) (int, error) {
	for len(d.rest) == 0 {
		packet, err := d.file.Next()
		if err != nil {
			return 0, err
		}
		if err := d.decode(packet.Data); err != nil {
			return 0, err
		}
	}
	n := copy(out, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (d *decodedSamples) decode(packet []byte) error {
	n, err := d.decoder.Decode(packet, d.pcm)
	d.rest = d.pcm[:n]
	return err
}

// samples is a stream of samples. Read returns at least one sample or an error.
type samples interface {
	Read(pcm []int16) (int, error)
}

// encodedSource encodes samples.
type encodedSource struct {
	stream
	out     Output
	open    func() (samples, error)
	from    samples
	encoder *opus.Encoder
	pcm     []int16
	buf     []byte
	ended   bool
	tail    int // samples of silence to append, which flush the encoder's lookahead
}

func encode(r io.Reader, o Output, open func() (samples, error)) *encodedSource {
	return &encodedSource{stream: stream{r: r}, out: o, open: open}
}

func (e *encodedSource) Next(ctx context.Context) ([]byte, error) {
	e.watch(ctx)
	if e.encoder == nil {
		if err := e.begin(ctx); err != nil {
			return nil, e.readError(ctx, err)
		}
	}
	n := 0
	for n < len(e.pcm) && !e.ended {
		k, err := e.from.Read(e.pcm[n:])
		n += k
		switch {
		case errors.Is(err, io.EOF):
			e.ended = true
		case err != nil:
			return nil, e.readError(ctx, err)
		}
		if k > 0 {
			e.tail = e.encoder.Lookahead()
		}
	}
	if n == 0 && e.tail == 0 {
		return nil, io.EOF
	}
	clear(e.pcm[n:])
	e.tail = max(0, e.tail-(len(e.pcm)-n))
	var err error
	e.buf, err = e.encoder.Encode(e.pcm, e.buf[:0])
	return e.buf, err
}

func (e *encodedSource) begin(ctx context.Context) (err error) {
	if e.out.Encoders == nil {
		return ErrNoEncoder
	}
	if e.from == nil {
		if e.from, err = e.open(); err != nil {
			return err
		}
	}
	if e.encoder, err = e.out.Encoders.Open(ctx, e.out.Encoding); err != nil {
		return err
	}
	e.pcm = make([]int16, e.out.Encoding.Samples())
	return nil
}

func (e *encodedSource) Close() error {
	if e.encoder != nil {
		e.encoder.Close()
	}
	e.ended, e.tail, e.pcm = true, 0, nil
	return e.close()
}

// longestPause is the maximum silence that a [Recorder] inserts at a time. It protects the disk
// when the clock of the board or of the server jumps, and keeps recordings from being mostly
// silence.
const longestPause = time.Minute

// Recorder writes the packets that a board sends to an Ogg file, with the pauses between them. It
// is not safe for concurrent use.
type Recorder struct {
	w       *ogg.Writer
	start   time.Time
	skipped time.Duration // the part of pauses beyond longestPause
}

// NewRecorder starts a recording.
func NewRecorder(w io.Writer, r ogg.WriterOptions) (*Recorder, error) {
	f, err := ogg.NewWriter(w, r)
	if err != nil {
		return nil, fmt.Errorf("begin recording: %w", err)
	}
	return &Recorder{w: f}, nil
}

// Packet adds a packet that was received at the given time. If the recording is three packets or
// more behind, silence is inserted first. Packets of a burst are written one after the other.
func (r *Recorder) Packet(at time.Time, packet []byte) error {
	d := opus.Duration(packet)
	if d == 0 {
		return r.w.Write(packet) // returns the error
	}
	if r.start.IsZero() {
		r.start = at
	}
	if behind := at.Sub(r.start) - r.skipped - r.w.Length(); behind >= 3*d {
		silence := min(behind, longestPause)
		r.skipped += behind - silence
		if err := r.w.Skip(silence); err != nil {
			return err
		}
	}
	return r.w.Write(packet)
}

// Flush writes buffered packets, so that a concurrent reader of the file gets them.
func (r *Recorder) Flush() error { return r.w.Flush() }

// Length is the duration of the recording.
func (r *Recorder) Length() time.Duration { return r.w.Length() }

// Close writes the rest. A recording that is not closed lacks up to its last second.
func (r *Recorder) Close() error { return r.w.Close() }
