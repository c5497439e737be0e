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
	ctx = context.WithoutCancel(ctx)
	if s.isFirstRefusal(ctx, c, name) {
		if name != "" {
			if _, err := s.Hub.Store.People.ByName(ctx, name); err != nil {
				name = "?"
			}
		}
		s.RecordAdminEvent(ctx, c, EventSignInRefused, name)
	}
}

// RefusedAtProvider records, as [Service.Refused] does, that a sign-in at the OpenID provider had
// no effect here, and why.
func (s *Service) RefusedAtProvider(ctx context.Context, c Caller, why string) {
	ctx = context.WithoutCancel(ctx)
	if s.isFirstRefusal(ctx, c, "at the provider: "+why) {
		s.RecordAdminEvent(ctx, c, EventProviderRefused, why)
	}
}

// isFirstRefusal reports whether a refusal gets a record of its own.
func (s *Service) isFirstRefusal(ctx context.Context, c Caller, about string) bool {
	return s.refusals.first([3]string{c.Person, c.Address, about}, time.Now(), func(more int) {
		s.RecordAdminEvent(ctx, Caller{Program: c.Program}, EventSignInRefused, fmt.Sprintf("+%d", more))
	})
}
