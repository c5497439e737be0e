package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// runKey identifies a conversation.
type runKey struct {
	bot                   int64
	channel, person, name string
}

// runKeyOf returns the conversation of a turn. Turns without a person have nothing in common but
// their request.
func runKeyOf(t *talk.Turn) (key runKey, ok bool) {
	key = runKey{t.Bot, t.Channel, t.Person, t.Conversation}
	if t.Person == "" {
		key.name = t.Request
	}
	return key, t.Person != "" || t.Request != ""
}

// errNotAsked ends a run that left the queue before the bot was asked, because its asker had
// disconnected. Askers that joined it meanwhile start a new run.
var errNotAsked = fmt.Errorf("%w before the bot was asked", talk.ErrDisconnected)

// startOrJoin returns the run that a turn repeats, or a new one. Only the newest run of a
// conversation can be repeated.
func (h *Hub) startOrJoin(ctx context.Context, turn *talk.Turn, d talk.Delivery, c turnContext,
	l *listener) (r *run, mine bool, err error) {
	key, keyed := runKeyOf(turn)
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.runs[key]; r != nil && r.repeatedBy(d) {
		return r, false, nil
	}
	if h.draining {
		return nil, false, talk.Fail(talk.Stopping, "", ErrStopping)
	}
	select {
	case h.turnSlots <- struct{}{}:
	default:
		return nil, false, talk.Fail(talk.Busy, "", fmt.Errorf("%d turns at a time", cap(h.turnSlots)))
	}
	r = newRun(ctx, h, turn, c, l)
	r.delivery = d
	if keyed {
		h.runs[key] = r
	}
	over := h.allRuns.begin(r)
	h.work.Go(func() {
		r.work()
		over()
		<-h.turnSlots
		time.AfterFunc(joinWindow, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.runs[key] == r {
				delete(h.runs, key)
			}
		})
	})
	return r, true, nil
}

// repeatedBy reports whether a delivery repeats the run's own request. If the connection of its
// asker broke, the same content is a repetition: that asker has not received the answer.
func (r *run) repeatedBy(d talk.Delivery) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case d.Content != r.delivery.Content || r.notAsked:
		return false
	case !r.disconnectedAt.IsZero() && d.At.Sub(r.disconnectedAt) < joinWindow:
		return r.resumable()
	case r.state == abandoned:
		return false
	case r.state == over && d.At.Sub(r.endedAt) >= joinWindow:
		return false
	}
	return d.Repeats(r.delivery)
}

// resumable reports whether there is still an answer for an asker who comes back: not if they
// cancelled or timed out, nor if the bot was stopped or failed. Requires mu.
func (r *run) resumable() bool {
	switch r.state {
	case abandoned:
		return !r.disconnectedAt.IsZero() && r.common.OnDisconnect != "cancel" && r.ctx.Err() == nil
	case over:
		return r.failure == nil
	}
	return true
}

// join gives a listener the events so far, and the following ones. It returns false if the run has
// been abandoned meanwhile.
func (r *run) join(l *listener) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == abandoned && !r.resumable() {
		return false
	}
	for _, e := range r.active.events() {
		if l.emit(e) != nil {
			close(l.gone)
			return true // listen notices it at once
		}
	}
	if r.state != over {
		r.listeners = append(r.listeners, l)
	}
	r.keep(runningChange{Told: true})
	return true
}

// markDelivered records that an answer that was kept for later has been delivered.
func (r *run) markDelivered() {
	r.mu.Lock()
	unheard := r.undelivered
	r.undelivered = false
	r.mu.Unlock()
	if unheard {
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		r.hub.markDelivered(ctx, []store.Exchange{{Turn: r.turn.ID}})
	}
}

// detachAsker removes a listener (nil: removed already) whose asker disconnected or cancelled, and
// returns the asker's error. The bot does not stop while others listen. Whoever stopped the answer
// waits a moment until the bot has ended, so that their next question comes after it in history.
func (r *run) detachAsker(ctx context.Context, l *listener) error {
	if r.uncertain() {
		r.cancel(talk.ErrRevised)
		<-r.ended
		return talk.ErrRevised
	}
	if !errors.Is(context.Cause(ctx), talk.ErrStopped) {
		r.detach(l, outcomeDisconnected, "", "")
		return talk.ErrDisconnected
	}
	r.detach(l, outcomeDisconnected, "", talk.ErrStopped.Error())
	r.mu.Lock()
	alone := r.state != running && len(r.listeners) == 0
	r.mu.Unlock()
	if alone {
		r.cancel(talk.ErrStopped)
		netx.WaitUnless(context.WithoutCancel(ctx), r.ended, stopTimeout)
	}
	return talk.ErrDisconnected
}

// detach removes a listener (nil: removed already). If it was the last one of a running turn, the
// turn is abandoned, and its trace is stored with the outcome.
func (r *run) detach(l *listener, outcome string, code talk.Code, cause string) {
	r.mu.Lock()
	for i, other := range r.listeners {
		if other == l {
			r.listeners = append(r.listeners[:i], r.listeners[i+1:]...)
			break
		}
	}
	if len(r.listeners) == 0 && r.state != over {
		r.disconnectedAt = time.Time{}
		if outcome == outcomeDisconnected && cause == "" {
			r.disconnectedAt = r.hub.Now()
		}
	}
	if r.state != running || len(r.listeners) > 0 {
		r.mu.Unlock()
		return
	}
	r.state = abandoned
	close(r.disconnected)
	tr := r.trace(outcome, code, cause)
	heard := r.late[:r.lateSent]
	r.mu.Unlock()

	patience := time.AfterFunc(r.hub.LateTimeout, func() { r.cancel(errTooLate) })
	context.AfterFunc(r.ctx, func() { patience.Stop() })
	defer close(r.detached)
	r.hub.finish(tr, nil, heard) //nolint:errcheck // the asker gets another error, or has disconnected
}
