package engine

import (
	"context"
	"io"
	"sync"
)

// maxWritten is how many sentences wait for a speaker before Write waits too.
const maxWritten = 4

// ListenOnce is a [Listener] for an engine that takes whole utterances.
type ListenOnce func(ctx context.Context, samples []int16, h Hints) (Transcript, error)

// Listen implements [Listener].
func (f ListenOnce) Listen(ctx context.Context, h Hints) (Utterance, error) {
	ctx, cancel := context.WithCancel(ctx)
	return &wholeUtterance{transcribe: f, hints: h, ctx: ctx, cancel: cancel, finished: make(chan struct{})}, nil
}

// wholeUtterance collects an utterance.
type wholeUtterance struct {
	transcribe ListenOnce
	hints      Hints
	ctx        context.Context
	cancel     context.CancelFunc
	samples    []int16
	finished   chan struct{}
	done       bool // Next has returned the transcript
}

func (u *wholeUtterance) Write(samples []int16) error {
	if len(u.samples)+len(samples) > maxSamples {
		return Errorf(Input, "the utterance is longer than %s", MaxUtterance)
	}
	u.samples = append(u.samples, samples...)
	return u.ctx.Err()
}

func (u *wholeUtterance) Finish() error {
	close(u.finished)
	return nil
}

func (u *wholeUtterance) Next() (Transcript, error) {
	if u.done {
		return Transcript{}, io.EOF
	}
	select {
	case <-u.finished:
	case <-u.ctx.Done():
		return Transcript{}, context.Cause(u.ctx)
	}
	u.done = true
	t, err := u.transcribe(u.ctx, u.samples, u.hints)
	t.Final = true
	return t, err
}

func (u *wholeUtterance) Close() { u.cancel() }

// SpeakOnce is a [Speaker] for an engine that takes whole sentences. The text of the clip may be
// left empty.
type SpeakOnce func(ctx context.Context, text string, m Manner) (Clip, error)

// Speak implements [Speaker].
func (f SpeakOnce) Speak(ctx context.Context, m Manner) (Speech, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &sentences{speak: f, manner: m, ctx: ctx, cancel: cancel, written: make(chan string, maxWritten),
		clips: make(chan Clip), done: make(chan struct{})}
	go s.run()
	return s, nil
}

// sentences speaks one sentence after the other, two sentences ahead of the listener at most: what
// nobody will hear costs money too.
type sentences struct {
	speak   SpeakOnce
	manner  Manner
	ctx     context.Context
	cancel  context.CancelFunc
	written chan string
	clips   chan Clip
	done    chan struct{} // closed when run has returned
	err     error         // of run; read after done
}

func (s *sentences) Write(text string) error {
	select {
	case s.written <- text:
		return nil
	case <-s.done:
		if s.err == io.EOF {
			return context.Canceled // Close was called
		}
		return s.err
	}
}

func (s *sentences) Finish() error {
	close(s.written)
	return nil
}

func (s *sentences) Next() (Clip, error) {
	select {
	case c := <-s.clips:
		return c, nil
	case <-s.done:
		return Clip{}, s.err
	}
}

func (s *sentences) Close() {
	s.cancel()
	<-s.done
}

func (s *sentences) run() {
	defer close(s.done)
	for {
		select {
		case text, ok := <-s.written:
			if !ok {
				s.err = io.EOF
				return
			}
			if s.err = s.one(text); s.err != nil {
				return
			}
		case <-s.ctx.Done():
			s.err = context.Cause(s.ctx)
			return
		}
	}
}

// one speaks a sentence and receives all of its sound.
func (s *sentences) one(text string) error {
	clip, err := s.speak(s.ctx, text, s.manner)
	if err != nil {
		return err
	}
	defer clip.Sound.Close()
	b := newBuffer(s.ctx)
	sound := clip.Sound
	clip.Text, clip.Sound = text, b
	delivered := make(chan error, 1)
	go func() {
		select {
		case s.clips <- clip:
			delivered <- nil
		case <-s.ctx.Done():
			delivered <- context.Cause(s.ctx)
		}
	}()
	b.fill(sound)
	return <-delivered
}

// buffer holds a sound while it is received, so that the engine need not wait until it was played.
// One goroutine fills it and one reads it.
type buffer struct {
	ctx    context.Context
	mu     sync.Mutex
	data   []byte
	err    error // after data
	closed bool
	added  chan struct{} // has a token after a change
}

var errTooLong = Errorf(Broken, "the sound of a sentence has more than %d MiB", MaxClip>>20)

func newBuffer(ctx context.Context) *buffer { return &buffer{ctx: ctx, added: make(chan struct{}, 1)} }

// fill reads all of r, whose error is that of the sound.
func (b *buffer) fill(r io.Reader) {
	chunk := make([]byte, 8<<10)
	for total := 0; ; {
		n, err := r.Read(chunk)
		if total += n; total > MaxClip {
			n, err = 0, errTooLong
		}
		if b.add(chunk[:n], err) {
			return
		}
	}
}

// add adds data and reports whether it was the last.
func (b *buffer) add(data []byte, err error) (last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data, b.err = append(b.data, data...), err
	select {
	case b.added <- struct{}{}:
	default: // there is a token already
	}
	return err != nil || b.closed
}

// Read implements [io.Reader].
func (b *buffer) Read(p []byte) (int, error) {
	for {
		b.mu.Lock()
		n, err := copy(p, b.data), b.err
		b.data = b.data[n:]
		closed := b.closed
		b.mu.Unlock()
		switch {
		case closed:
			return 0, io.ErrClosedPipe
		case n > 0:
			return n, nil
		case err != nil:
			return 0, err
		}
		select {
		case <-b.added:
		case <-b.ctx.Done():
			return 0, context.Cause(b.ctx)
		}
	}
}

// Close implements [io.Closer]. The rest of the sound is not received.
func (b *buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.data = true, nil
	return nil
}
