package control

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// maxRefusals limits the records of wrong passwords per minute, over all accounts and addresses.
// Further ones are one record with their number.
const maxRefusals = 30

// refusals limits the admin events about wrong passwords.
type refusals struct {
	mu     sync.Mutex
	minute time.Time
	seen   map[[3]string]bool // account, address, and typed name
	more   int                // in that minute, without a record of their own
	end    *time.Timer
}

// first reports whether a refusal is recorded: the first of its account and address in a minute.
// Flush is called for the others when the minute is over.
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

// Refused records that a password was wrong, or was not checked any more. For one account and
// address there is one record per minute, and one with the number of the others. Name is what was
// typed; it is recorded only if an account has that name, because it may be a mistyped password.
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
