package upstream

import (
	"context"
	"errors"
	"time"

	"patchbay/internal/tool"
)

const (
	// maxWaiting limits the calls that wait for a slot. Further ones are refused.
	maxWaiting = 256
	// maxTimeouts is how many consecutive timeouts mark a server as stuck.
	maxTimeouts = 3
)

// Call executes one call; see [tool.Provider].
func (u *upstream) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if err := u.acquireSlot(ctx); err != nil {
		return nil, err
	}
	defer func() { <-u.slots }()
	for again := false; ; again = true {
		s, paramHeaders, err := u.awaitSession(ctx, c.Tool)
		if err != nil {
			return nil, err
		}
		r, err := u.callOnce(ctx, s, c, paramHeaders)
		if err == nil || ctx.Err() != nil {
			return r, err
		}
		// A restarted server refuses the first call of an old session. A call that certainly was
		// not received is sent once more.
		if _, unsent := errors.AsType[*unsentError](err); again || !unsent {
			return nil, u.callError(err)
		}
		<-s.done
	}
}

// acquireSlot waits for a call slot.
func (u *upstream) acquireSlot(ctx context.Context) error {
	select {
	case u.slots <- struct{}{}:
		return nil
	default:
	}
	if u.waiting.Add(1) > maxWaiting {
		u.waiting.Add(-1)
		return tool.Fail(tool.Busy, "Too many calls of "+u.spec.name()+" are under way. Try again in a moment.", nil)
	}
	defer u.waiting.Add(-1)
	select {
	case u.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-u.ctx.Done():
		return u.offlineError()
	}
}

// awaitSession returns the session, waiting a while for a connection if there is none.
func (u *upstream) awaitSession(ctx context.Context, name string) (*session, []paramHeader, error) {
	if !u.spec.Settings.isAllowed(name) {
		return nil, nil, tool.Fail(tool.Unknown, "There is no such tool.", nil)
	}
	var limit <-chan time.Time
	for {
		u.mu.Lock()
		s, c, changed := u.session, u.catalog, u.changed
		u.mu.Unlock()
		if s != nil && !s.isDone() {
			return s, c.paramHeaders[name], nil
		}
		if limit == nil {
			timer := time.NewTimer(u.times.callWait)
			defer timer.Stop()
			limit = timer.C
		}
		select {
		case u.connectNow <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-u.ctx.Done():
			return nil, nil, u.offlineError()
		case <-limit:
			return nil, nil, u.offlineError()
		}
	}
}

func (u *upstream) offlineError() error {
	u.mu.Lock()
	t := u.status.Err
	u.mu.Unlock()
	e := &tool.Error{Code: tool.Offline, Told: u.spec.name() + " is not connected at the moment. Try again later."}
	if t != nil {
		e.Cause = t.Error()
	}
	return e
}

// callOnce sends a call and waits for its result.
func (u *upstream) callOnce(ctx context.Context, s *session, c *tool.Call,
	paramHeaders []paramHeader) (*tool.Result, error) {
	limited, cancel := context.WithTimeout(ctx, u.spec.Settings.timeout())
	defer cancel()
	r, err := s.call(limited, c, paramHeaders)
	switch {
	case err == nil:
		u.timeouts.Store(0)
		return r, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil && errors.Is(err, limited.Err()):
		if u.timeouts.Add(1) >= maxTimeouts {
			s.fail(errUnresponsive)
		}
		return nil, tool.Fail(tool.TimedOut,
			u.spec.name()+" did not answer in time. It is not known whether the call was carried out.", nil)
	}
	if _, ok := errors.AsType[*rpcError](err); ok {
		u.timeouts.Store(0)
	}
	return nil, err
}
