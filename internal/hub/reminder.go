package hub

import (
	"time"

	"patchbay/internal/talk"
)

// remind has the asker told again, from time to time, that they wait, or ends that. Requires mu.
func (r *run) remind(waiting bool) {
	if r.reminder != nil {
		r.reminder.Stop()
		r.reminder = nil
	}
	if !waiting {
		return
	}
	interval := r.hub.ReminderInterval
	var timer *time.Timer
	timer = time.AfterFunc(interval, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.reminder == timer { // nothing has come meanwhile
			r.deliver(talk.Note(talk.MsgStillWaiting.In(r.turn.Lang)))
			timer.Reset(interval)
		}
	})
	r.reminder = timer
}
