package sim

import (
	"context"
	"slices"
	"time"
)

// maxTasks bounds what waits for the loop. A server that sends faster than a board
// can read has broken it by then; what comes on top is thrown away.
const maxTasks = 1000

// schedule has the loop do something, after everything that waits. The loop is a
// goroutine only while it has something to do. The caller holds b.mu.
func (b *Board) schedule(task func(context.Context)) {
	if b.ctx.Err() != nil || len(b.tasks) >= maxTasks {
		return
	}
	b.tasks = append(b.tasks, task)
	if !b.looping {
		b.looping = true
		b.wg.Go(b.loop)
	}
}

func (b *Board) loop() {
	for sleep(b.ctx, b.opt.Latency()) {
		b.mu.Lock()
		tasks := b.tasks
		b.tasks = nil
		b.mu.Unlock()
		for _, task := range tasks {
			if b.ctx.Err() != nil {
				break
			}
			task(b.ctx)
			b.enter()
		}
		b.mu.Lock()
		if len(b.tasks) == 0 {
			b.tasks, b.looping = nil, false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
	}
}

// onLoop has the loop do something and waits for it.
func (b *Board) onLoop(ctx context.Context, task func(context.Context) error) error {
	done := make(chan error, 1)
	b.mu.Lock()
	b.schedule(func(own context.Context) {
		both, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(own, func() { cancel(ErrClosed) })
		defer stop()
		defer cancel(nil)
		done <- task(both)
	})
	b.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.ctx.Done():
		return ErrClosed
	}
}

// legal are the changes of state that firmware allows.
var legal = map[State][]State{
	Starting:   {Activating},
	Activating: {Idle, Upgrading},
	Upgrading:  {Idle, Activating},
	Idle:       {Connecting, Listening, Speaking, Activating, Upgrading},
	Connecting: {Idle, Listening},
	Listening:  {Speaking, Idle},
	Speaking:   {Listening, Idle},
}

// set changes the state, if that is allowed. What belongs to the new one is done
// by the loop, before anything else. The caller holds b.mu.
func (b *Board) set(s State) bool {
	if s == b.state {
		return true
	}
	if !slices.Contains(legal[b.state], s) {
		b.report.IllegalStates++
		return false
	}
	b.state = s
	b.entries = append(b.entries, s)
	b.event(EventState, s.String())
	return true
}

// enter does what belongs to the states that were entered.
func (b *Board) enter() {
	for {
		b.mu.Lock()
		if len(b.entries) == 0 {
			b.entries = nil
			b.mu.Unlock()
			return
		}
		s := b.entries[0]
		b.entries = b.entries[1:]
		switch s {
		case Idle:
			b.stopMic()
		case Speaking:
			if !b.staysOn() {
				b.stopMic()
			}
			if b.ch != nil {
				b.report.DroppedReset += b.ch.play.reset(time.Now())
			}
		}
		b.mu.Unlock()
		if s == Listening {
			b.enterListening(b.ctx)
		}
	}
}
