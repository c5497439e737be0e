package control

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// maxRefusals bounds the rows that wrong passwords leave in a minute, whoever types them
// and from wherever. What is more is one row with its number.
const maxRefusals = 30

// refusals keeps who guesses passwords from filling the journal.
type refusals struct {
	mu     sync.Mutex
	minute time.Time
	seen   map[[3]string]bool // person, address, and name that was typed
	more   int                // in that minute, without a row of their own
	end    *time.Timer
}

// first reports whether a refusal is to be written down: the first of its account and address
// in a minute. Flush is called for the others when the minute is over.
func (r *refusals) first(of [3]string, now time.Time, flush func(more int)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.minute) >= time.Minute || r.seen == nil {
		r.minute, r.seen = now, map[[3]string]bool{}
	}
	if !r.seen[of] && len(r.seen) < maxRefusals {
		r.seen[of] = true
		return true
	}
	r.more++
	if r.end == nil {
		r.end = time.AfterFunc(time.Minute, func() {
			r.mu.Lock()
			more := r.more
			r.more, r.end = 0, nil
			r.mu.Unlock()
			flush(more)
		})
	}
	return false
}

// Refused keeps in the journal that a password was wrong, or was not looked at any more. Of
// one account and address it is one row a minute, and one more with the number of the
// others. Name is what was typed; it is written down if an account is called so, as it may be
// a password otherwise.
func (s *Service) Refused(ctx context.Context, c Caller, name string) {
	of := [3]string{c.Person, c.Address, name}
	ctx = context.WithoutCancel(ctx)
	if s.refusals.first(of, time.Now(), func(more int) {
		s.RecordAdminEvent(ctx, Caller{Program: c.Program}, EventSignInRefused, fmt.Sprintf("+%d", more))
	}) {
		if name != "" {
			if _, err := s.Hub.Store.People.ByName(ctx, name); err != nil {
				name = "?"
			}
		}
		s.RecordAdminEvent(ctx, c, EventSignInRefused, name)
	}
}
