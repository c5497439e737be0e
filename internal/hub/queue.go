package hub

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/talk"
	"patchbay/internal/tracing"
)

// target answers turns: a bot connected to this instance, or one connected to another.
//
// The caller closes disconnected when the asker has disconnected; the target decides
// whether the bot continues. When ctx ends, the turn ends. answer returns how long the
// turn waited for the bot.
type target interface {
	answer(ctx context.Context, disconnected <-chan struct{}, turn *talk.Turn, emit talk.Emit) (waited time.Duration,
		err error)
}

// slot is a bot with a queue of waiting turns.
type slot struct {
	bot    talk.Bot
	tracer *tracing.Tracer
	limits Limits
	// stopOnDisconnect stops an answer that nobody waits for, instead of finishing it.
	stopOnDisconnect bool
	// idleTimeout is how long a bot may be silent before the next waiting turn starts, so
	// that a bot that hangs does not block the queue. If it resumes, its answer is still
	// accepted.
	idleTimeout time.Duration

	mu      sync.Mutex
	running int
	waiters []*waiter
}

type waiter struct{ ready chan struct{} }

func (s *slot) answer(ctx context.Context, disconnected <-chan struct{}, turn *talk.Turn,
	emit talk.Emit) (waited time.Duration, err error) {
	arrived := time.Now()
	if err := s.acquire(ctx, disconnected, turn, emit); err != nil {
		return time.Since(arrived), err
	}
	waited = time.Since(arrived)
	leave := sync.OnceFunc(s.release)
	defer leave()
	ctx, span := traceBot(ctx, s.tracer, turn)
	defer func() { endBotSpan(span, err) }()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if s.limits.Concurrent == 0 && !s.stopOnDisconnect {
		return waited, s.bot.Answer(ctx, turn, emit) // nothing to watch over
	}
	var heard atomic.Int64
	heard.Store(time.Now().UnixNano())
	watched := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(&heard, disconnected, over, leave, cancel)
	}()
	err = s.bot.Answer(ctx, turn, func(e talk.Event) error {
		if e.Kind == talk.KindStalled {
			leave()
			return nil
		}
		heard.Store(time.Now().UnixNano())
		return emit(e)
	})
	close(over)
	<-watched
	return waited, err
}

// watch releases the slot when the bot has been silent for idleTimeout, and cancels the
// bot when its asker has disconnected and stopOnDisconnect is set.
func (s *slot) watch(heard *atomic.Int64, disconnected, over <-chan struct{}, leave func(),
	cancel context.CancelCauseFunc) {
	timer := time.NewTimer(s.idleTimeout)
	defer timer.Stop()
	if !s.stopOnDisconnect {
		disconnected = nil
	}
	for {
		select {
		case <-over:
			return
		case <-disconnected:
			cancel(talk.ErrDisconnected)
			disconnected = nil
		case <-timer.C:
			silent := time.Since(time.Unix(0, heard.Load()))
			if silent >= s.idleTimeout {
				leave()
				if disconnected == nil {
					return
				}
				continue
			}
			timer.Reset(s.idleTimeout - silent)
		}
	}
}

// acquire waits until the turn may start, and sends the asker a note if it must wait. It
// fails with talk.Busy if the queue is full.
func (s *slot) acquire(ctx context.Context, disconnected <-chan struct{}, turn *talk.Turn, emit talk.Emit) error {
	s.mu.Lock()
	if s.limits.Concurrent == 0 || s.running < s.limits.Concurrent {
		s.running++
		s.mu.Unlock()
		return nil
	}
	if len(s.waiters) >= s.limits.Waiting {
		s.mu.Unlock()
		return talk.Fail(talk.Busy, "", nil)
	}
	t := &waiter{make(chan struct{})}
	s.waiters = append(s.waiters, t)
	before := s.running + len(s.waiters) - 1
	s.mu.Unlock()

	say := talk.MsgWaiting.In(turn.Lang, before)
	if before == 1 {
		say = talk.MsgWaitingOne.In(turn.Lang)
	}
	if err := emit(talk.Waiting(say)); err != nil {
		s.abandon(t)
		return err
	}
	select {
	case <-t.ready:
		return nil
	case <-disconnected: // nobody waits, and the bot was not asked yet
		s.abandon(t)
		return talk.ErrDisconnected
	case <-ctx.Done():
		s.abandon(t)
		return context.Cause(ctx)
	}
}

// abandon removes t from the queue, or releases the slot if t got it at the same moment.
func (s *slot) abandon(t *waiter) {
	s.mu.Lock()
	for i, other := range s.waiters {
		if other == t {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			s.mu.Unlock()
			return
		}
	}
	s.mu.Unlock()
	s.release()
}

func (s *slot) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiters) > 0 {
		next := s.waiters[0]
		s.waiters = s.waiters[1:]
		close(next.ready) // running is unchanged: one turn ended, one starts
		return
	}
	s.running--
}
