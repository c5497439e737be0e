package upstream

import (
	"context"
	"errors"
	"time"

	"patchbay/internal/tool"
)

const (
	// maxWaiting is how many calls wait for their turn. When so many do, further
	// ones are refused.
	maxWaiting = 256
	// maxTimeouts in a row without a result are taken for a server that is stuck.
	maxTimeouts = 3
)

// Call carries out one call; see [tool.Provider].
func (u *upstream) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if err := u.enter(ctx); err != nil {
		return nil, err
	}
	defer func() { <-u.turns }()
	for again := false; ; again = true {
		s, heads, err := u.await(ctx, c.Tool)
		if err != nil {
			return nil, err
		}
		r, err := u.once(ctx, s, c, heads)
		if err == nil || ctx.Err() != nil {
			return r, err
		}
		// A server that was restarted says so to the first who calls. What it surely
		// did not take in is sent once more.
		if _, unsent := errors.AsType[*unsentError](err); again || !unsent {
			return nil, u.told(err)
		}
		<-s.dead
	}
}

// enter waits for a turn.
func (u *upstream) enter(ctx context.Context) error {
	select {
	case u.turns <- struct{}{}:
		return nil
	default:
	}
	if u.waiting.Add(1) > maxWaiting {
		u.waiting.Add(-1)
		return tool.Fail(tool.Busy, "Too many calls of "+u.spec.name()+" are under way. Try again in a moment.", nil)
	}
	defer u.waiting.Add(-1)
	select {
	case u.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-u.ctx.Done():
		return u.offline()
	}
}

// await returns the session, waiting a while for it if there is none.
func (u *upstream) await(ctx context.Context, name string) (*session, []paramHead, error) {
	if !u.spec.Settings.allowed(name) {
		return nil, nil, tool.Fail(tool.Unknown, "There is no such tool.", nil)
	}
	var limit <-chan time.Time
	for {
		u.mu.Lock()
		s, c, changed := u.session, u.catalog, u.changed
		u.mu.Unlock()
		if s != nil && !s.ended() {
			return s, c.heads[name], nil
		}
		if limit == nil {
			timer := time.NewTimer(u.times.patience)
			defer timer.Stop()
			limit = timer.C
		}
		select {
		case u.wanted <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-u.ctx.Done():
			return nil, nil, u.offline()
		case <-limit:
			return nil, nil, u.offline()
		}
	}
}

func (u *upstream) offline() error {
	u.mu.Lock()
	t := u.status.Err
	u.mu.Unlock()
	e := &tool.Error{Code: tool.Offline, Told: u.spec.name() + " is not connected at the moment. Try again later."}
	if t != nil {
		e.Cause = t.Error()
	}
	return e
}

// once sends a call and waits for what comes of it.
func (u *upstream) once(ctx context.Context, s *session, c *tool.Call, heads []paramHead) (*tool.Result, error) {
	limited, cancel := context.WithTimeout(ctx, u.spec.Settings.timeout())
	defer cancel()
	r, err := s.call(limited, c, heads)
	switch {
	case err == nil:
		u.timeouts.Store(0)
		return r, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil && errors.Is(err, limited.Err()):
		if u.timeouts.Add(1) >= maxTimeouts {
			s.fail(errStuck)
		}
		return nil, tool.Fail(tool.TimedOut, u.spec.name()+" did not answer in time. It is not known whether the call was carried out.", nil)
	}
	if _, ok := errors.AsType[*rpcError](err); ok {
		u.timeouts.Store(0)
	}
	return nil, err
}
