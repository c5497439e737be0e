package engine

import (
	"context"
	"io"
	"slices"
	"sync"
)

// Listen begins an utterance. Its Write and Finish never wait for an engine; Next uses the engines,
// and returns an error when the last one has failed, or the account allows no more.
func (c *Chain) Listen(ctx context.Context, h Hints) *ChainUtterance {
	u := &ChainUtterance{chain: c, hints: h, ctx: ctx, limits: c.limits()}
	if u.err = c.Refusal(ctx); u.err != nil {
		return u
	}
	u.links, u.err = c.usable(StageListen)
	return u
}

// ChainUtterance is an [Utterance] that keeps the sound for the next engine.
type ChainUtterance struct {
	chain  *Chain
	hints  Hints
	ctx    context.Context
	links  []*Link // the first one is used; only for Next
	err    *Error  // of the last failure; only for Next
	limits limits  // only for Next
	late   []ID    // engines that gave no result in time; only for Next and TimedOut

	mu       sync.Mutex
	samples  []int16
	finished bool
	current  *attempt
	closed   bool
}

// attempt is the use of one engine for an utterance.
type attempt struct {
	Utterance
	chain *Chain
	link  *Link
	ctx   context.Context
	limit *timeLimit
	once  sync.Once // of close, which the end of the utterance and a failure may call
}

func (a *attempt) close() {
	a.once.Do(func() {
		a.limit.stop()
		a.limit.cancel(nil)
		a.Utterance.Close()
		a.link.Slots.release()
		a.chain.settle(a.link, a.Utterance)
	})
}

// Write implements [Utterance].
func (u *ChainUtterance) Write(samples []int16) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.samples)+len(samples) > maxSamples {
		return Errorf(Input, "the utterance is longer than %s", MaxUtterance)
	}
	u.samples = append(u.samples, samples...)
	if u.current != nil {
		_ = u.current.Write(samples) // Next gets the error
	}
	return u.ctx.Err()
}

// Finish implements [Utterance].
func (u *ChainUtterance) Finish() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.finished = true
	if u.current != nil {
		u.current.limit.start()
		_ = u.current.Finish() // Next gets the error
	}
	return nil
}

// Next implements [Utterance].
func (u *ChainUtterance) Next() (Transcript, error) {
	for {
		a, err := u.open()
		if err != nil {
			return Transcript{}, err
		}
		t, err := a.Next()
		if err == nil && len(t.Text) > MaxTranscript {
			err = Errorf(Broken, "a transcript of %d bytes", len(t.Text))
		}
		switch {
		case u.ctx.Err() != nil:
			return Transcript{}, context.Cause(u.ctx)
		case err == io.EOF:
			return Transcript{}, io.EOF
		case err == nil:
			if t.Final {
				u.links[0].succeeded(StageListen, a.limit.stop())
			}
			return t, nil
		}
		u.drop(a, err)
	}
}

// open returns the current attempt, or begins one with the next engine.
func (u *ChainUtterance) open() (*attempt, error) {
	u.mu.Lock()
	a := u.current
	u.mu.Unlock()
	for a == nil && len(u.links) > 0 && u.ctx.Err() == nil {
		ctx, limit := newTimeLimit(u.ctx, u.limits.next(len(u.links)))
		limit.start()
		of, err := u.links[0].listen(ctx, u.hints)
		u.mu.Lock()
		if took := limit.stop(); u.finished { // while somebody speaks, nobody waits
			u.limits.waited += took
		}
		u.mu.Unlock()
		if err != nil {
			limit.cancel(nil)
			u.fail(err)
			continue
		}
		a = &attempt{Utterance: of, chain: u.chain, link: u.links[0], ctx: ctx, limit: limit}
		u.begin(a)
	}
	switch {
	case u.ctx.Err() != nil:
		return nil, context.Cause(u.ctx)
	case a == nil:
		return nil, u.err
	}
	return a, nil
}

// begin gives an engine what was said so far.
func (u *ChainUtterance) begin(a *attempt) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		a.close() // Next fails, since the context has ended
		return
	}
	u.current = a
	_ = a.Write(u.samples) // Next gets the error
	if u.finished {
		a.limit.start()
		_ = a.Finish()
	}
}

// drop ends an attempt that failed.
func (u *ChainUtterance) drop(a *attempt, err error) {
	if a.ctx.Err() != nil {
		err = context.Cause(a.ctx) // of the time limit
	}
	u.mu.Lock()
	u.current = nil
	u.mu.Unlock()
	u.limits.waited += a.limit.stop()
	a.close()
	u.fail(err)
}

// fail records the failure of the first engine and goes on to the next.
func (u *ChainUtterance) fail(err error) {
	if u.ctx.Err() != nil {
		return
	}
	if u.err = AsError(err); u.err == nil {
		u.err = Errorf(Closed, "the engine stopped by itself")
	}
	if u.err.Class == Timeout {
		u.late = append(u.late, u.links[0].id())
	}
	u.links[0].failed(StageListen, u.err)
	u.links = u.links[1:]
}

// TimedOut reports whether an engine gave no result in time. It is called after Next has failed.
func (u *ChainUtterance) TimedOut(id ID) bool { return slices.Contains(u.late, id) }

// Close implements [Utterance].
func (u *ChainUtterance) Close() {
	u.mu.Lock()
	a := u.current
	u.current, u.closed = nil, true
	u.mu.Unlock()
	if a != nil {
		a.close()
	}
}
