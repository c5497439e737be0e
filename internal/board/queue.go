package board

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/talk"
)

// A target is where a turn goes: a bot plugged in here, or one that another
// instance holds.
//
// Closing hungUp says that the asker is gone; what follows from that is the
// target's decision. The end of ctx is final. It returns how long the turn
// waited for the bot.
type target interface {
	answer(ctx context.Context, hungUp <-chan struct{}, turn *talk.Turn, emit talk.Emit) (waited time.Duration, err error)
}

// A seat is a bot with a queue before it.
type seat struct {
	bot    talk.Bot
	limits Limits
	// stop: an answer nobody waits for is stopped, not finished.
	stop bool
	// idle is how long a bot may be silent before the next in line is let in. A
	// bot that hangs must not block the others; should it come back to life, its
	// answer is still taken.
	idle time.Duration

	mu      sync.Mutex
	running int
	line    []*ticket
}

type ticket struct{ ready chan struct{} }

func (s *seat) answer(ctx context.Context, hungUp <-chan struct{}, turn *talk.Turn, emit talk.Emit) (time.Duration, error) {
	arrived := time.Now()
	if err := s.enter(ctx, hungUp, turn, emit); err != nil {
		return time.Since(arrived), err
	}
	waited := time.Since(arrived)
	leave := sync.OnceFunc(s.leave)
	defer leave()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if s.limits.Concurrent == 0 && !s.stop {
		return waited, s.bot.Answer(ctx, turn, emit) // nothing to watch over
	}
	var heard atomic.Int64
	heard.Store(time.Now().UnixNano())
	watched := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(&heard, hungUp, over, leave, cancel)
	}()
	err := s.bot.Answer(ctx, turn, func(e talk.Event) error {
		heard.Store(time.Now().UnixNano())
		return emit(e)
	})
	close(over)
	<-watched
	return waited, err
}

// watch gives the seat to the next when the bot has been silent for too long,
// and stops the bot when its asker has gone and it is not to finish.
func (s *seat) watch(heard *atomic.Int64, hungUp, over <-chan struct{}, leave func(), cancel context.CancelCauseFunc) {
	timer := time.NewTimer(s.idle)
	defer timer.Stop()
	if !s.stop {
		hungUp = nil
	}
	for {
		select {
		case <-over:
			return
		case <-hungUp:
			cancel(talk.ErrHungUp)
			hungUp = nil
		case <-timer.C:
			silent := time.Since(time.Unix(0, heard.Load()))
			if silent >= s.idle {
				leave()
				if hungUp == nil {
					return
				}
				continue
			}
			timer.Reset(s.idle - silent)
		}
	}
}

// enter waits for the turn's place, and tells the person that it waits.
func (s *seat) enter(ctx context.Context, hungUp <-chan struct{}, turn *talk.Turn, emit talk.Emit) error {
	s.mu.Lock()
	if s.limits.Concurrent == 0 || s.running < s.limits.Concurrent {
		s.running++
		s.mu.Unlock()
		return nil
	}
	if len(s.line) >= s.limits.Waiting {
		s.mu.Unlock()
		return talk.Fail(talk.Busy, "", nil)
	}
	t := &ticket{make(chan struct{})}
	s.line = append(s.line, t)
	before := s.running + len(s.line) - 1
	s.mu.Unlock()

	say := talk.SayWaiting.In(turn.Lang, before)
	if before == 1 {
		say = talk.SayWaitingOne.In(turn.Lang)
	}
	if err := emit(talk.Note(say)); err != nil {
		s.abandon(t)
		return err
	}
	select {
	case <-t.ready:
		return nil
	case <-hungUp: // the bot was not asked yet, and nobody waits: let it be
		s.abandon(t)
		return talk.ErrHungUp
	case <-ctx.Done():
		s.abandon(t)
		return context.Cause(ctx)
	}
}

// abandon leaves the line, or the seat if it was given in the same moment.
func (s *seat) abandon(t *ticket) {
	s.mu.Lock()
	for i, other := range s.line {
		if other == t {
			s.line = append(s.line[:i], s.line[i+1:]...)
			s.mu.Unlock()
			return
		}
	}
	s.mu.Unlock()
	s.leave()
}

func (s *seat) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.line) > 0 {
		next := s.line[0]
		s.line = s.line[1:]
		close(next.ready) // running stays: one left, one came
		return
	}
	s.running--
}
