package hub

import (
	"context"

	"patchbay/internal/talk"
)

// A voice board asks its bot before the person has finished, see [talk.Turn.Commit]. Until it is
// certain what they say the turn is not listed, and nothing of it has an effect. If they said
// something else, it leaves no trace.

// decide waits until it is certain that the person asks this, and lists the turn then.
func (r *run) decide() {
	defer close(r.decided)
	if r.turn.Commit != nil {
		if r.revised = r.turn.Commit(r.ctx); r.revised != nil {
			r.cancel(talk.ErrRevised)
			return
		}
		r.beginRunning()
	}
	r.hub.activeTurns.add(r.active)
}

// certain waits for the decision. The error means that the person did not ask this.
func (r *run) certain() error {
	<-r.decided
	return r.revised
}

// uncertain reports whether the person has not asked this, or not yet.
func (r *run) uncertain() bool {
	if r.turn.Commit == nil {
		return false
	}
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	return r.turn.Commit(ctx) != nil
}

// heard returns the answer as history keeps it: if it is played (wait), as far as the person heard
// it.
func (r *run) heard(wait bool) string {
	if wait && r.turn.Heard != nil && r.revised == nil {
		if text, whole := r.turn.Heard(); !whole {
			if text == "" {
				return ""
			}
			return text + talk.MsgCut.In(r.turn.Lang)
		}
	}
	return r.active.text()
}
