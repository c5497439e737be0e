package board

import (
	"context"
	"errors"
	"fmt"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// conversationKey tells conversations apart.
type conversationKey struct {
	bot                int64
	door, person, name string
}

// conversationOf is the conversation of a turn. The turns of nobody in particular have
// nothing in common but their request.
func conversationOf(t *talk.Turn) (key conversationKey, ok bool) {
	key = conversationKey{t.Bot, t.Door, t.Person, t.Conversation}
	if t.Person == "" {
		key.name = t.Request
	}
	return key, t.Person != "" || t.Request != ""
}

// errNotAsked ends a run that left the queue, since its asker had gone, before the bot was
// asked. Whoever joined it meanwhile begins anew.
var errNotAsked = fmt.Errorf("%w before the bot was asked", talk.ErrHungUp)

// enter finds the run that a turn repeats, or begins a new one, which is the
// listener's own. Only the newest run of a conversation can be repeated.
func (b *Board) enter(turn *talk.Turn, d talk.Delivery, c circumstances, l *listener) (r *run, mine bool, err error) {
	key, keyed := conversationOf(turn)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.runs[key]; r != nil && r.repeatedBy(d) {
		return r, false, nil
	}
	if b.draining {
		return nil, false, talk.Fail(talk.Stopping, "", ErrStopping)
	}
	select {
	case b.places <- struct{}{}:
	default:
		return nil, false, talk.Fail(talk.Busy, "", fmt.Errorf("%d turns at a time", cap(b.places)))
	}
	r = newRun(b, turn, c, l)
	r.delivery = d
	if keyed {
		b.runs[key] = r
	}
	over := b.turns.begin(r)
	b.work.Go(func() {
		r.work()
		over()
		<-b.places
		time.AfterFunc(joinWindow, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.runs[key] == r {
				delete(b.runs, key)
			}
		})
	})
	return r, true, nil
}

// repeatedBy reports whether a delivery is the run's own request once more. If the
// connection of its asker broke, the same content is: that asker has not had the answer.
func (r *run) repeatedBy(d talk.Delivery) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case d.Content != r.delivery.Content || r.notAsked:
		return false
	case !r.brokenAt.IsZero() && d.At.Sub(r.brokenAt) < joinWindow:
		return r.resumable()
	case r.state == abandoned:
		return false
	case r.state == over && d.At.Sub(r.endedAt) >= joinWindow:
		return false
	}
	return d.Repeats(r.delivery)
}

// resumable reports whether there is still an answer for an asker who comes back: not if
// they wanted no more of it or were told that it took too long, nor if the bot was stopped
// or has failed. With mu held.
func (r *run) resumable() bool {
	switch r.state {
	case abandoned:
		return !r.brokenAt.IsZero() && r.common.Hangup != "cancel" && r.ctx.Err() == nil
	case over:
		return r.failure == nil
	}
	return true
}

// join hands a listener the events so far, and those to come. It is false if the
// run has been abandoned for good in the meantime.
func (r *run) join(l *listener) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == abandoned && !r.resumable() {
		return false
	}
	for _, e := range r.log.events() {
		if l.emit(e) != nil {
			close(l.gone)
			return true // listen sees it at once
		}
	}
	if r.state != over {
		r.listeners = append(r.listeners, l)
	}
	return true
}

// heardAfterAll notes that an answer that was kept for later has been heard.
func (r *run) heardAfterAll() {
	r.mu.Lock()
	unheard := r.unheard
	r.unheard = false
	r.mu.Unlock()
	if unheard {
		ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
		defer cancel()
		r.board.heard(ctx, []store.Exchange{{Turn: r.turn.ID}})
	}
}

// leave takes a listener away (nil: it is gone already) whose asker went away, or wants
// the bot to stop. The bot does not stop while others listen.
func (r *run) leave(ctx context.Context, l *listener) {
	if !errors.Is(context.Cause(ctx), ErrStopped) {
		r.part(l, outcomeHungUp, "", "")
		return
	}
	r.part(l, outcomeHungUp, "", ErrStopped.Error())
	r.mu.Lock()
	alone := r.state == abandoned && len(r.listeners) == 0
	r.mu.Unlock()
	if alone {
		r.cancel(ErrStopped)
	}
}

// part takes a listener away (nil: it is gone already). When it was the last of
// a running turn, the turn is abandoned, and its trace is written with how.
func (r *run) part(l *listener, outcome string, code talk.Code, cause string) {
	r.mu.Lock()
	for i, other := range r.listeners {
		if other == l {
			r.listeners = append(r.listeners[:i], r.listeners[i+1:]...)
			break
		}
	}
	if len(r.listeners) == 0 && r.state != over {
		r.brokenAt = time.Time{}
		if outcome == outcomeHungUp && cause == "" {
			r.brokenAt = r.board.Now()
		}
	}
	if r.state != running || len(r.listeners) > 0 {
		r.mu.Unlock()
		return
	}
	r.state = abandoned
	close(r.hungUp)
	tr := r.trace(outcome, code, cause)
	heard := r.late[:r.told]
	r.mu.Unlock()

	patience := time.AfterFunc(r.board.Late, func() { r.cancel(errTooLate) })
	context.AfterFunc(r.ctx, func() { patience.Stop() })
	defer close(r.parted)
	r.board.finish(tr, nil, heard) //nolint:errcheck // the asker is told something else, or gone
}
