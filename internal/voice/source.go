// Package voice brings sound to voice boards and keeps what they say: it makes the
// packets that a board wants out of whatever a speech service gives, and records the
// packets that a board sends.
//
// Opus is passed through where it can be: that costs nothing and loses nothing. The
// packages below do the parts: opus knows packets, decodes and encodes; ogg reads and
// writes files; pcm reads plain samples; pace sends everything in time.
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

// ErrNoEncoder says that a sound would have to be encoded, and nobody can.
var ErrNoEncoder = errors.New("this sound has to be encoded, and there is no encoder")

// Output is what a board wants.
type Output struct {
	// Encoding is of what has to be encoded; its Frame is the length of all packets.
	Encoding opus.Encoding
	// Encoders encode. Without, only Opus can be played, and only if its frames fit.
	Encoders *opus.EncoderPool
}

// Packets is a sound that is there already, such as a greeting: packets that each
// last for one frame of the board. They are not changed.
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

// WAV plays a WAV file while it comes. About r see [OggOpus].
func WAV(r io.Reader, o Output) pace.Source {
	return encode(r, o, func() (samples, error) { return pcm.NewWAV(r, o.Encoding.SampleRate) })
}

// PCM plays bare samples while they come. About r see [OggOpus].
func PCM(r io.Reader, f pcm.Format, o Output) pace.Source {
	return encode(r, o, func() (samples, error) { return pcm.NewRaw(r, f, o.Encoding.SampleRate) })
}

// OggOpus plays Opus in Ogg while it comes. Packets are put together or taken apart
// to last for one frame of the board; only where that cannot be, as with frames of 40
// ms for a board that wants 60, the rest is decoded and encoded again. What the file
// says about gain is not heeded, and neither are pre-skip and the end within the last
// packet: together a few hundredths of a second of silence.
//
// If r is an io.Closer it is closed together with the source, and already when the
// context of Next ends, because that is how a read that waits for the network is
// ended. A reader that is none has to end such reads by itself.
func OggOpus(r io.Reader, o Output) pace.Source {
	return &passthrough{stream: stream{r: r}, out: o, file: ogg.NewReader(r), framer: opus.NewFramer(o.Encoding.Frame)}
}

// stream is a reader that ends with a context.
type stream struct {
	r       io.Reader
	ctx     context.Context // only to see that it is still the same
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

// readError is the error of a read, or why it was ended.
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

// passthrough is Opus that is passed through.
type passthrough struct {
	stream
	out       Output
	file      *ogg.Reader
	framer    *opus.Framer
	buf       []byte
	ended     bool
	reencoder *encodedSource // takes over where frames do not fit
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

// push takes the next packet of the file.
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
		_ = p.reencoder.Close() // only gives its encoder back
	}
	return p.close()
}

// decodedSamples is the sound of an Ogg file.
type decodedSamples struct {
	file    *ogg.Reader
	decoder *opus.Decoder
	pcm     []int16
	rest    []int16 // of pcm
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

// samples are read like bytes: some are there, or there is an error.
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
	tail    int // samples of silence that push out what the encoder still holds
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

// longestPause is how much silence a [Recorder] writes at a time. It protects the
// disk from boards whose clock, or ours, jumps, and recordings from being mostly
// nothing.
const longestPause = time.Minute

// Recorder writes what a board sends, with its pauses. It is for one goroutine.
type Recorder struct {
	w       *ogg.Writer
	start   time.Time
	skipped time.Duration // of pauses that were too long
}

// NewRecorder begins a recording.
func NewRecorder(w io.Writer, r ogg.WriterOptions) (*Recorder, error) {
	f, err := ogg.NewWriter(w, r)
	if err != nil {
		return nil, fmt.Errorf("begin recording: %w", err)
	}
	return &Recorder{w: f}, nil
}

// Packet adds a packet that came at a time. If the recording is three packets or more
// behind, silence comes first; packets that come in a burst follow each other.
func (r *Recorder) Packet(at time.Time, packet []byte) error {
	d := opus.Duration(packet)
	if d == 0 {
		return r.w.Write(packet) // says what is wrong
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

// Flush writes what waits, so that whoever reads while it is recorded has all of it.
func (r *Recorder) Flush() error { return r.w.Flush() }

// Length is how long the recording is.
func (r *Recorder) Length() time.Duration { return r.w.Length() }

// Close writes the rest. A recording that was not closed lacks its last second.
func (r *Recorder) Close() error { return r.w.Close() }
