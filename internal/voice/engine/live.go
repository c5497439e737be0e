package engine

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// maxSamples is MaxUtterance, in samples.
const maxSamples = int(MaxUtterance * Rate / time.Second)

// ListenLive is a [Listener] for an engine that recognises while somebody speaks. It is called in a
// goroutine of its own for each utterance, takes the sound from d and publishes transcripts there.
// It returns nil after the final one. Its error is an [*Error], or that of the context.
type ListenLive func(ctx context.Context, h Hints, d *Dictation) error

// Listen implements [Listener]. It does not wait for the engine.
func (f ListenLive) Listen(ctx context.Context, h Hints) (Utterance, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d := &Dictation{wake: make(chan struct{}, 1), news: make(chan struct{}, 1), done: make(chan struct{})}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	go func() {
		defer d.cancel(context.Canceled) // only to release the context
		defer close(d.done)
		d.err = d.outcome(f(d.ctx, h, d))
	}()
	return liveUtterance{d}, nil
}

// Dictation is an utterance as a [ListenLive] has it.
type Dictation struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wake   chan struct{} // has a token after Write and Finish
	news   chan struct{} // has a token after a transcript
	done   chan struct{} // closed when the engine has returned
	err    error         // for Next; read after done

	mu       sync.Mutex
	pending  []int16 // not taken yet; at most maxSamples
	total    int     // samples written
	finished bool    // Finish was called
	final    bool    // the final transcript was published
	// newest is the last transcript that Next has not returned. A new one replaces it, so nothing
	// queues up when nobody calls Next.
	newest *Transcript
	billed time.Duration // according to the engine; 0: it does not tell
}

// Piece waits for n samples or for the end of the speech. Only the last piece is shorter; it may be
// empty. The caller does not change the samples.
func (d *Dictation) Piece(ctx context.Context, n int) (samples []int16, last bool, err error) {
	for {
		d.mu.Lock()
		size := min(n, len(d.pending))
		last = d.finished && len(d.pending) <= n
		if size == n || last {
			samples, d.pending = d.pending[:size:size], d.pending[size:]
			d.mu.Unlock()
			return samples, last, nil
		}
		d.mu.Unlock()
		select {
		case <-d.wake:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// Publish makes a transcript the newest. An empty one that is not final is left out: nobody has
// spoken yet.
func (d *Dictation) Publish(t Transcript) error {
	if len(t.Text) > MaxTranscript {
		return Errorf(Broken, "the transcript has more than %d KiB", MaxTranscript>>10)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.billed = max(d.billed, t.Billed)
	if t.Text == "" && !t.Final {
		return nil
	}
	d.newest, d.final = &t, t.Final
	signal(d.news)
	return nil
}

// outcome returns what Next returns after the last transcript.
func (d *Dictation) outcome(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil && d.final:
		return io.EOF
	case d.ctx.Err() != nil:
		return context.Cause(d.ctx)
	case err == nil:
		return Errorf(Broken, "the engine stopped without a final transcript")
	}
	return err
}

// liveUtterance is the [Utterance] of a dictation.
type liveUtterance struct{ d *Dictation }

// Write implements [Utterance]. It never waits for the engine.
func (u liveUtterance) Write(samples []int16) error {
	d := u.d
	if err := d.failure(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.total+len(samples) > maxSamples {
		err := Errorf(Input, "the utterance is longer than %s", MaxUtterance)
		d.cancel(err)
		return err
	}
	d.total += len(samples)
	d.pending = append(d.pending, samples...)
	signal(d.wake)
	return nil
}

// Finish implements [Utterance].
func (u liveUtterance) Finish() error {
	d := u.d
	if err := d.failure(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finished = true
	signal(d.wake)
	return nil
}

// failure returns why the engine stopped before its final transcript, or nil.
func (d *Dictation) failure() error {
	select {
	case <-d.done:
		if errors.Is(d.err, io.EOF) {
			return nil
		}
		return d.err
	default:
		return context.Cause(d.ctx)
	}
}

// Next implements [Utterance].
func (u liveUtterance) Next() (Transcript, error) {
	d := u.d
	for {
		select {
		case <-d.news:
			if t, ok := d.take(); ok {
				return t, nil
			}
		case <-d.done:
			if t, ok := d.take(); ok && t.Final {
				return t, nil
			}
			return Transcript{}, d.err
		}
	}
}

func (d *Dictation) take() (Transcript, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.newest == nil {
		return Transcript{}, false
	}
	t := *d.newest
	d.newest = nil
	return t, true
}

// used implements [metered].
func (u liveUtterance) used() Use {
	d := u.d
	d.mu.Lock()
	defer d.mu.Unlock()
	return heardOf(lengthOf(d.total-len(d.pending)), d.billed)
}

// Close implements [Utterance]. It waits for the engine.
func (u liveUtterance) Close() {
	u.d.cancel(context.Canceled)
	<-u.d.done
}
