package sim

import (
	"context"
	"slices"
	"time"

	"patchbay/internal/netx"
)

// maxTasks limits the tasks that wait for the loop; more are dropped. A server that sends faster
// than a board can read has failed by then.
const maxTasks = 1000

// schedule appends a task for the loop. The loop runs in a goroutine only while it has tasks, which
// keeps idle boards small. Requires b.mu.
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
	for netx.Wait(b.ctx, b.opt.Latency()) == nil {
		b.mu.Lock()
		tasks := b.tasks
		b.tasks = nil
		b.mu.Unlock()
		for _, task := range tasks {
			if b.ctx.Err() != nil {
				break
			}
			task(b.ctx)
			b.enterStates()
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

// onLoop runs a task in the loop and waits for its result.
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

// transitions are the state changes that firmware allows (xiaozhi-esp32
// main/device_state_machine.cc, DeviceStateMachine::IsValidTransition).
var transitions = map[State][]State{
	Starting:   {Activating},
	Activating: {Idle, Upgrading},
	Upgrading:  {Idle, Activating},
	Idle:       {Connecting, Listening, Speaking, Activating, Upgrading},
	Connecting: {Idle, Listening},
	Listening:  {Speaking, Idle},
	Speaking:   {Listening, Idle},
}

// setState changes the state if the transition is allowed, and returns false if not. The loop
// carries out the entry actions before any other task. Requires b.mu.
func (b *Board) setState(s State) bool {
	if s == b.state {
		return true
	}
	if !slices.Contains(transitions[b.state], s) {
		b.report.IllegalStates++
		return false
	}
	b.state = s
	b.entries = append(b.entries, s)
	b.event(EventState, s.String())
	return true
}

// enterStates carries out the entry actions of new states.
func (b *Board) enterStates() {
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
			if !b.micStaysOn() {
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
