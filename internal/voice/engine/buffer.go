package engine

import (
	"context"
	"io"
	"sync"
)

// buffer holds a sound while it is received, so that the engine need not wait until it was played.
// One goroutine fills it and one reads it.
type buffer struct {
	ctx    context.Context
	mu     sync.Mutex
	data   []byte
	total  int
	err    error // after data
	closed bool
	added  chan struct{} // has a token after a change
}

var errTooLong = Errorf(Broken, "the sound of a sentence has more than %d MiB", MaxClip>>20)

func newBuffer(ctx context.Context) *buffer { return &buffer{ctx: ctx, added: make(chan struct{}, 1)} }

// add adds data, and reports whether nobody reads them. The error follows them.
func (b *buffer) add(data []byte, err error) (unwanted bool, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer signal(b.added)
	if b.total += len(data); b.total > MaxClip {
		b.data, b.err = nil, errTooLong
		return false, errTooLong
	}
	if !b.closed {
		b.data = append(b.data, data...)
	}
	b.err = err
	return b.closed, nil
}

// discard drops what was not read. The next read returns the error.
func (b *buffer) discard(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data, b.err = nil, err
	signal(b.added)
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
			if !b.isReady() { // the context may have ended because of what was added
				return 0, context.Cause(b.ctx)
			}
		}
	}
}

// isReady reports whether Read need not wait.
func (b *buffer) isReady() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.data) > 0 || b.err != nil || b.closed
}

// Close implements [io.Closer]. The rest of the sound is not received.
func (b *buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.data = true, nil
	return nil
}
