// Package pace sends audio packets to voice boards on time, and measures the packets they send.
//
// A board plays packets from a short queue. Packets that arrive too early are dropped
// (xiaozhi-esp32 main/audio/audio_service.cc), and a burst crashes small boards
// (xiaozhi-esp32-server issue 3349); packets that arrive too late cause a gap. So every packet has
// a due time. If the board begins to play packet 0 at t0, it begins packet i at t0 + i·frame, and
// the packet is sent a few frames earlier:
//
//	send(i) = t0 + (i − ahead)·frame
//
// All times derive from t0 and none from the packet before, so errors do not accumulate. t0 changes
// only if the source is so slow that the board runs out of packets: it moves to the time of the
// next packet. After a shorter delay the player catches up, which never makes more than ahead
// frames wait at the board.
package pace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Defaults of [Options]. The reference server of the boards' author is two frames ahead as well
// (xiaozhi-esp32 issue 545).
const (
	DefaultFrame = 60 * time.Millisecond
	DefaultAhead = 2
	DefaultTail  = 150 * time.Millisecond
)

// lateThreshold is the delay from which a packet counts as late.
const lateThreshold = 20 * time.Millisecond

var (
	// ErrAborted is the error of playback that [Player.Abort] stopped.
	ErrAborted = errors.New("playing was aborted")
	// ErrBusy is the error of Play while the same player plays.
	ErrBusy = errors.New("something is playing already")
)

// Source returns the packets of a sound, each of which lasts for one frame.
//
// Next waits for the next packet; at the end its error is io.EOF. It returns soon after ctx ends.
// The packet is valid until the next call. The player closes a Source that is an io.Closer.
type Source interface {
	Next(ctx context.Context) (packet []byte, err error)
}

// TextSource is a [Source] that has the text of its sound.
type TextSource interface {
	// Text returns the text that begins with the packet that Next returned last.
	Text() (text string, ok bool)
}

// Hooks send packets and text. They are called by the goroutine that called Play, one at a time,
// and never after Play has returned. An error of a hook ends the playback.
type Hooks struct {
	// Send sends a packet. at is its position in the sound, without pauses. Send must not keep
	// packet, and needs a deadline of its own: the player waits for it.
	Send func(packet []byte, at time.Duration) error
	// Text shows the text that begins with the next packet. It may be nil.
	Text func(text string) error
	// NotBefore is the earliest time of the first packet, or zero. Boards drop packets that arrive
	// before they have changed to the speaking state (xiaozhi-esp32 main/application.cc,
	// OnIncomingAudio).
	NotBefore time.Time
}

// Options configure a [Player]. Zero values mean the defaults.
type Options struct {
	Frame time.Duration // duration of each packet
	Ahead int           // number of frames sent before they are due at the board; negative for none
	Tail  time.Duration // wait after the sound, before Play returns; negative for none
}

// Player plays to one board, one sound at a time. It is safe for concurrent use.
type Player struct {
	frame, lead, tail time.Duration

	mu         sync.Mutex
	generation uint64
	stop       context.CancelCauseFunc // cancels the current playback, or nil
}

// NewPlayer returns a player.
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

// Generation returns a number for [Player.Play]. A caller that prepares an answer gets it at the
// beginning; if Abort is called before the answer is ready, Play rejects the answer.
func (p *Player) Generation() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.generation
}

// Abort stops the current playback and invalidates all earlier generations. It does not wait: a
// packet that is being sent may still be sent, but none after Play has returned. It reports whether
// something was playing.
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

// Play sends the packets of src. It returns when the board has played all of them and Options.Tail
// has passed, so that the caller can end the board's speaking state. After an abort, or when ctx
// ends, it returns at once with the cause. If src fails, Play returns the error after the board has
// played what was sent.
func (p *Player) Play(ctx context.Context, generation uint64, src Source, h Hooks) (Stats, error) {
	if c, ok := src.(io.Closer); ok {
		defer c.Close() // read-only: the error does not matter
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
		return r.interrupted(), context.Cause(ctx)
	}
	var hook hookError
	if r.stats.Frames > 0 && !errors.As(err, &hook) {
		if r.wait(ctx, r.ends.Add(p.tail)); ctx.Err() != nil {
			return r.interrupted(), context.Cause(ctx)
		}
	}
	return r.stats, err
}

// hookError is an error of a hook. There is no reason to wait for the board after it.
type hookError struct{ error }

func (e hookError) Unwrap() error { return e.error }

// playback is the state of one call of Play.
type playback struct {
	frame, lead time.Duration
	hooks       Hooks
	texts       TextSource
	timer       *time.Timer
	base        time.Time // when the board began to play, or began again after a gap
	ends        time.Time // when the board will have played all sent packets
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
			return nil // the caller checks ctx
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

// interrupted returns the measurements of a playback that was stopped.
func (r *playback) interrupted() Stats {
	r.stats.Waiting = max(time.Until(r.ends), 0)
	return r.stats
}

// text calls the Text hook if a text begins with the current packet.
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

// due returns the time at which the current packet is to be sent.
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
	if due.Before(r.base) { // the first frames are sent at once
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
