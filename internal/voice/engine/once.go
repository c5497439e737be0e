package engine

import (
	"context"
	"io"
	"sync/atomic"
	"time"
)

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
	done       bool         // Next has returned the transcript
	heard      atomic.Int64 // that the engine got, or bills, in nanoseconds
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
	got := lengthOf(len(u.samples))
	u.heard.Store(int64(got))
	t, err := u.transcribe(u.ctx, u.samples, u.hints)
	if mayBill(err) {
		u.heard.Store(int64(heardOf(got, t.Billed).Heard))
	} else {
		u.heard.Store(0)
	}
	t.Final = true
	return t, err
}

// used implements [metered].
func (u *wholeUtterance) used() Use { return Use{Heard: time.Duration(u.heard.Load())} }

func (u *wholeUtterance) Close() { u.cancel() }

// SpeakOnce is a [Speaker] for an engine that takes whole sentences. The text of the clip may be
// left empty.
type SpeakOnce func(ctx context.Context, text string, m Manner) (Clip, error)

// Speak implements [Speaker]. It requests a sentence when Next has returned the one before.
func (f SpeakOnce) Speak(ctx context.Context, m Manner) (Speech, error) {
	return SpeakLive(f.narrate).Speak(ctx, m)
}

// narrate is a [SpeakLive] that speaks one sentence after the other.
func (f SpeakOnce) narrate(ctx context.Context, m Manner, n *Narration) error {
	for {
		text, err := n.Text(ctx)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = f.one(ctx, text, m, n)
		}
		if err != nil {
			return err
		}
	}
}

// one speaks a sentence.
func (f SpeakOnce) one(ctx context.Context, text string, m Manner, n *Narration) error {
	clip, err := f(ctx, text, m)
	if mayBill(err) {
		n.Saying(text)
	}
	if err != nil {
		return err
	}
	defer clip.Sound.Close()
	n.Begin(text, clip.Format, clip.Rate)
	chunk := make([]byte, 8<<10)
	for {
		size, err := clip.Sound.Read(chunk)
		unwanted, full := n.add(chunk[:size])
		switch {
		case full != nil:
			return full
		case unwanted, err == io.EOF:
			n.End()
			return nil
		case err != nil:
			return err
		}
	}
}
