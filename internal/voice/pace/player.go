// Package pace sends sound to voice boards in time, and counts what comes from them.
//
// A board plays one packet after the other, out of a queue that is short: what comes
// too early is dropped, and on small boards a burst is their end; what comes too late
// is a gap. So every packet has its time. If the board begins to play packet 0 at t0,
// then it begins packet i at t0 + i·frame, and the packet is sent two frames earlier:
//
//	send(i) = t0 + (i − ahead)·frame
//
// All times are counted from t0 and none from the packet before, so errors do not add
// up. Only when the source was so slow that the board ran dry does t0 move: to the
// moment when sound is there again. A source that is late by less is caught up with,
// which never makes more than ahead frames wait at the board.
package pace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// What is usual.
const (
	DefaultFrame = 60 * time.Millisecond
	DefaultAhead = 2
	DefaultTail  = 150 * time.Millisecond
)

// lateThreshold is from when a packet counts as late: half of what boards bear.
const lateThreshold = 20 * time.Millisecond

var (
	// ErrAborted is the error of what was stopped by [Player.Abort].
	ErrAborted = errors.New("playing was aborted")
	// ErrBusy is the error of playing while the same player plays.
	ErrBusy = errors.New("something is playing already")
)

// Source gives the packets of some sound, each lasting for one frame.
//
// Next waits for the next packet; at the end its error is io.EOF. When ctx ends it
// has to return soon. The packet is valid until the next call. A Source that is an
// io.Closer is closed by whoever was told to play it.
type Source interface {
	Next(ctx context.Context) (packet []byte, err error)
}

// TextSource is a [Source] that knows the words.
type TextSource interface {
	// Text is what begins to be said with the packet that Next returned last.
	Text() (text string, ok bool)
}

// Hooks do the sending. They are called by the goroutine that called Play, one at a
// time, and never after Play has returned. An error of theirs ends the playing.
type Hooks struct {
	// Send sends a packet. at is where it is in the sound, pauses not counted. It must
	// not keep packet, and has to have a deadline of its own: while it waits, nothing
	// else happens.
	Send func(packet []byte, at time.Duration) error
	// Text shows the words that the packet sent next begins. It may be nil.
	Text func(text string) error
	// NotBefore is when the first packet may be sent, or zero: boards drop sound that
	// comes before they have understood that they are to speak.
	NotBefore time.Time
}

// Options are how a board wants its packets. What is zero is the default.
type Options struct {
	Frame time.Duration // how long each packet lasts
	Ahead int           // frames that are sent before they are needed; negative for none
	Tail  time.Duration // after the sound, before Play returns; negative for none
}

// Player plays to one board, one thing at a time. It is safe for concurrent use.
type Player struct {
	frame, lead, tail time.Duration

	mu         sync.Mutex
	generation uint64
	stop       context.CancelCauseFunc // of what plays, or nil
}

// NewPlayer makes a player.
func NewPlayer(o Options) *Player {
	if o.Frame <= 0 {
		o.Frame = DefaultFrame
	}
	if o.Ahead == 0 {
		o.Ahead = DefaultAhead
	}
	if o.Tail == 0 {
		o.Tail = DefaultTail
	}
	return &Player{frame: o.Frame, lead: time.Duration(max(o.Ahead, 0)) * o.Frame, tail: max(o.Tail, 0)}
}

// Generation is a number for [Player.Play]. Who prepares an answer takes it at the
// beginning; if Abort is called before the answer is ready, it will not be played.
func (p *Player) Generation() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.generation
}

// Abort stops what plays, and everything that was prepared before now. It does not
// wait: at most a packet that is being sent is still sent, and when Play has returned
// nothing is. It reports whether something played.
func (p *Player) Abort() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation++
	if p.stop == nil {
		return false
	}
	p.stop(ErrAborted)
	return true
}

// Play sends the sound of src and returns when the board has played all of it, and a
// moment has passed; then the board can be told that it is over. If it was aborted or
// ctx ended, it returns at once, with the cause. If src failed, the board still plays
// what was sent before Play returns the error.
func (p *Player) Play(ctx context.Context, generation uint64, src Source, h Hooks) (Stats, error) {
	if c, ok := src.(io.Closer); ok {
		defer c.Close() // it was only read from
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p.mu.Lock()
	switch {
	case generation != p.generation:
		p.mu.Unlock()
		return Stats{}, ErrAborted
	case p.stop != nil:
		p.mu.Unlock()
		return Stats{}, ErrBusy
	}
	p.stop = stop
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.stop = nil
		p.mu.Unlock()
	}()
	r := playback{frame: p.frame, lead: p.lead, hooks: h, timer: time.NewTimer(time.Hour)}
	defer r.timer.Stop()
	r.texts, _ = src.(TextSource)
	err := r.play(ctx, src)
	if ctx.Err() != nil {
		return r.stats, context.Cause(ctx)
	}
	var hook hookError
	if r.stats.Frames > 0 && !errors.As(err, &hook) {
		if r.wait(ctx, r.ends.Add(p.tail)); ctx.Err() != nil {
			return r.stats, context.Cause(ctx)
		}
	}
	return r.stats, err
}

// hookError is an error of sending, after which waiting makes no sense.
type hookError struct{ error }

func (e hookError) Unwrap() error { return e.error }

// playback is what one call of Play keeps in mind.
type playback struct {
	frame, lead time.Duration
	hooks       Hooks
	texts       TextSource
	timer       *time.Timer
	base        time.Time // when the sound began, or began again
	ends        time.Time // when the board will have played what it has
	stats       Stats
}

func (r *playback) play(ctx context.Context, src Source) error {
	for {
		packet, err := src.Next(ctx)
		if err != nil || ctx.Err() != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		due := r.due(time.Now())
		r.wait(ctx, due)
		if ctx.Err() != nil {
			return nil // the caller knows
		}
		if err := r.text(); err != nil {
			return err
		}
		r.stats.recordSent(time.Since(due))
		at := time.Duration(r.stats.Frames) * r.frame
		r.stats.Frames++
		r.ends = r.ends.Add(r.frame)
		if err := r.hooks.Send(packet, at); err != nil {
			return hookError{fmt.Errorf("send sound: %w", err)}
		}
	}
}

// text shows the words that begin with the packet at hand.
func (r *playback) text() error {
	if r.texts == nil {
		return nil
	}
	text, ok := r.texts.Text()
	if !ok {
		return nil
	}
	r.stats.Texts++
	if r.hooks.Text == nil {
		return nil
	}
	if err := r.hooks.Text(text); err != nil {
		return hookError{fmt.Errorf("send words: %w", err)}
	}
	return nil
}

// due is when the packet that is there now is to be sent.
func (r *playback) due(now time.Time) time.Time {
	if r.stats.Frames == 0 {
		if now.Before(r.hooks.NotBefore) {
			now = r.hooks.NotBefore
		}
		r.base, r.ends = now, now
		return now
	}
	if dry := now.Sub(r.ends); dry > 0 {
		r.stats.Gaps++
		r.stats.Silence += dry
		r.base, r.ends = now, now
		return now
	}
	due := r.ends.Add(-r.lead)
	if due.Before(r.base) { // the frames ahead are sent at once
		due = r.base
	}
	if now.Sub(due) >= r.frame {
		r.stats.Stalls++
	}
	return due
}

// wait waits until t, or until ctx ends.
func (r *playback) wait(ctx context.Context, t time.Time) {
	d := time.Until(t)
	if d <= 0 {
		return
	}
	r.timer.Reset(d)
	select {
	case <-r.timer.C:
	case <-ctx.Done():
	}
}
