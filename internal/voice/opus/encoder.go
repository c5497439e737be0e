package opus

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

//go:embed libopus/encoder.wasm
var libopus []byte

// maxIdle is the number of idle encoders that are kept for reuse. Each holds 256 KiB; starting
// another takes less than a millisecond.
const maxIdle = 16

// ErrClosed is the error of encoders whose [EncoderPool] is closed.
var ErrClosed = errors.New("opus encoders are closed")

// Encoding configures an encoder. Only SampleRate and Frame are required.
type Encoding struct {
	SampleRate int           // Hz: 8000, 12000, 16000, 24000 or 48000; mono
	Frame      time.Duration // 10, 20, 40 or 60 ms
	// Complexity is 0 to 10: more is better and slower.
	Complexity int
	// Bitrate is in bits per second, 6000 to 128000; 0 lets the encoder choose.
	Bitrate int
	// Music optimizes for music instead of speech.
	Music bool
	// DTX makes packets of a single byte during silence (discontinuous transmission).
	DTX bool
	// FEC repeats speech at a lower quality in the next packet (forward error correction), for
	// transports that lose packets. Loss is the expected percentage of lost packets.
	FEC  bool
	Loss int
}

// Samples is the number of samples of a frame.
func (e Encoding) Samples() int { return int(e.Frame * time.Duration(e.SampleRate) / time.Second) }

func (e Encoding) check() error {
	switch e.SampleRate {
	case 8000, 12000, 16000, 24000, 48000:
	default:
		return fmt.Errorf("opus encoder: %d samples per second", e.SampleRate)
	}
	switch e.Frame.Milliseconds() {
	case 10, 20, 40, 60:
	default:
		return fmt.Errorf("opus encoder: frames of %s", e.Frame)
	}
	if e.Complexity < 0 || e.Complexity > 10 || e.Loss < 0 || e.Loss > 100 {
		return fmt.Errorf("opus encoder: complexity %d, loss %d", e.Complexity, e.Loss)
	}
	if e.Bitrate != 0 && (e.Bitrate < 6000 || e.Bitrate > 128000) {
		return fmt.Errorf("opus encoder: %d bits per second", e.Bitrate)
	}
	return nil
}

// EncoderPool opens at most a given number of encoders at a time, so that many streams wait instead
// of overloading the processor. It compiles libopus once, when the first encoder is opened; that
// takes about 0.1 s. On processors other than amd64 and arm64 libopus is interpreted, which is
// slower. An EncoderPool is safe for concurrent use. A program needs one.
type EncoderPool struct {
	slots chan struct{} // holds one element per open encoder
	done  chan struct{} // closed by Close

	once    sync.Once // of compile
	runtime wazero.Runtime
	code    wazero.CompiledModule
	err     error

	mu     sync.Mutex
	idle   []*instance
	closed bool
}

// NewEncoderPool returns a pool of at most the given number of open encoders.
func NewEncoderPool(most int) *EncoderPool {
	return &EncoderPool{slots: make(chan struct{}, max(1, most)), done: make(chan struct{})}
}

// Open starts a stream. It waits while too many others are open, until ctx ends. The encoder has to
// be closed.
func (s *EncoderPool) Open(ctx context.Context, e Encoding) (*Encoder, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	select {
	case s.slots <- struct{}{}:
	case <-s.done:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for an opus encoder: %w", context.Cause(ctx))
	}
	in, err := s.acquire()
	if err == nil {
		err = in.begin(e)
		if err != nil {
			in.discard()
		}
	}
	if err != nil {
		<-s.slots
		return nil, err
	}
	return &Encoder{from: s, in: in, encoding: e}, nil
}

// acquire returns an idle instance or starts one.
func (s *EncoderPool) acquire() (*instance, error) {
	s.once.Do(s.compile)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := len(s.idle); {
	case s.err != nil:
		return nil, s.err
	case s.closed:
		return nil, ErrClosed
	case n > 0:
		in := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return in, nil
	}
	return newInstance(s.runtime, s.code)
}

// compile compiles the module. It uses no caller's context, because all later callers need its
// result.
func (s *EncoderPool) compile() {
	ctx := context.Background()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	// 16 pages are 1 MiB: four times what the module needs.
	s.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(16))
	if s.code, s.err = s.runtime.CompileModule(ctx, libopus); s.err != nil {
		s.err = fmt.Errorf("translate libopus: %w", s.err)
	}
}

// release keeps or discards an instance, and frees its slot.
func (s *EncoderPool) release(in *instance) {
	s.mu.Lock()
	keep := !s.closed && in.broken == nil && len(s.idle) < maxIdle
	if keep {
		s.idle = append(s.idle, in)
	}
	s.mu.Unlock()
	if !keep {
		in.discard()
	}
	<-s.slots
}

// Close rejects new encoders, waits for the open ones until ctx ends, and frees everything. If ctx
// ends first, its error is returned, and open encoders stay usable.
func (s *EncoderPool) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.done)
	s.mu.Unlock()
	for range cap(s.slots) {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("close opus encoders: %w", context.Cause(ctx))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = nil
	if s.runtime == nil {
		return nil
	}
	return s.runtime.Close(context.WithoutCancel(ctx))
}

// Encoder makes the packets of one stream. It is not safe for concurrent use.
type Encoder struct {
	from     *EncoderPool
	in       *instance
	encoding Encoding
}

// Lookahead is the delay of the encoder: the number of samples that precede the first input sample
// in the decoded stream. It is 0 after Close.
func (e *Encoder) Lookahead() int {
	if e.in == nil {
		return 0
	}
	return e.in.lookahead
}

// Encode appends the packet for one frame of samples to out, which may be nil. pcm holds exactly
// [Encoding.Samples]. The encoder cannot be used after an error.
func (e *Encoder) Encode(pcm []int16, out []byte) ([]byte, error) {
	if e.in == nil {
		return out, ErrClosed
	}
	if want := e.encoding.Samples(); len(pcm) != want {
		return out, fmt.Errorf("opus encoder: %d samples, a frame has %d", len(pcm), want)
	}
	return e.in.encode(pcm, out)
}

// Close returns the encoder to its pool. It may be called more than once.
func (e *Encoder) Close() {
	if in := e.in; in != nil {
		e.in = nil
		e.from.release(in)
	}
}

// instance is a running WebAssembly module with memory of its own.
type instance struct {
	module      api.Module
	memory      api.Memory
	fn          struct{ start, encode, lookahead api.Function }
	pcm, packet uint32    // addresses of the samples and of the packet
	stack       [8]uint64 // arguments and results of calls
	broken      error     // set by a trap

	lookahead int // of the current stream
}

func newInstance(r wazero.Runtime, code wazero.CompiledModule) (*instance, error) {
	// Without a name: instances of one name exclude each other.
	m, err := r.InstantiateModule(context.Background(), code, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return nil, fmt.Errorf("start libopus: %w", err)
	}
	in := &instance{module: m, memory: m.Memory()}
	in.fn.start, in.fn.encode, in.fn.lookahead = m.ExportedFunction("start"), m.ExportedFunction("encode"),
		m.ExportedFunction("lookahead")
	pcm, err := in.call(m.ExportedFunction("pcm"))
	packet, err2 := in.call(m.ExportedFunction("packet"))
	if err := errors.Join(err, err2); err != nil {
		in.discard()
		return nil, err
	}
	in.pcm, in.packet = uint32(pcm), uint32(packet)
	return in, nil
}

// call runs a function without allocating. After a trap the instance cannot be used.
func (in *instance) call(f api.Function, args ...uint64) (int32, error) {
	if in.broken != nil {
		return 0, in.broken
	}
	copy(in.stack[:], args)
	if err := f.CallWithStack(context.Background(), in.stack[:]); err != nil {
		in.broken = fmt.Errorf("run libopus: %w", err)
		return 0, in.broken
	}
	return int32(in.stack[0]), nil
}

func (in *instance) begin(e Encoding) error {
	code, err := in.call(in.fn.start, uint64(e.SampleRate), uint64(e.Bitrate), uint64(e.Complexity), flag(e.Music),
		flag(e.DTX), flag(e.FEC), uint64(e.Loss))
	if err == nil && code != 0 {
		err = fmt.Errorf("start opus encoder: libopus error %d", code)
	}
	if err != nil {
		return err
	}
	n, err := in.call(in.fn.lookahead)
	in.lookahead = int(n)
	return err
}

func (in *instance) encode(pcm []int16, out []byte) ([]byte, error) {
	room, ok := in.memory.Read(in.pcm, uint32(2*len(pcm)))
	if !ok {
		return out, ErrClosed
	}
	for i, s := range pcm {
		binary.LittleEndian.PutUint16(room[2*i:], uint16(s))
	}
	n, err := in.call(in.fn.encode, uint64(len(pcm)), MaxPacket)
	if err == nil && n < 1 {
		err = fmt.Errorf("encode: libopus error %d", n)
	}
	if err != nil {
		return out, err
	}
	packet, ok := in.memory.Read(in.packet, uint32(n))
	if !ok {
		return out, ErrClosed
	}
	return append(out, packet...), nil
}

func (in *instance) discard() { _ = in.module.Close(context.Background()) }

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
