package upstream

import (
	"context"
	"encoding/json"
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
	if !u.spec.Settings.isAllowed(c.Tool) {
		return nil, tool.Fail(tool.Unknown, "There is no such tool.", nil)
	}
	if u.holds(c.Tool) {
		return nil, tool.Fail(tool.Held, u.spec.name()+" has changed this tool. "+
			"It can be called when its owner has approved the change.", nil)
	}
	ask := func(s *session, k *catalog) query {
		q := query{method: "tools/call", name: c.Tool}
		if s.modern {
			q.headers = paramHeaderValues(k.paramHeaders[c.Tool], c.Args)
		}
		return q
	}
	ctx, span := u.trace(ctx, "tools/call", c.Tool)
	span.Text("gen_ai.tool.name", c.Tool)
	var res *tool.Result
	need, err := u.query(ctx, c, ask, func(s *session, raw json.RawMessage) (err error) {
		res, err = s.readResult(raw)
		return err
	})
	if res != nil && res.IsError {
		span.Fail("tool_error")
	}
	endSpan(ctx, span, err)
	switch {
	case err != nil:
		return nil, err
	case need != nil:
		return &tool.Result{InputRequired: need}, nil
	}
	return res, nil
}

// query sends a query of a caller, or continues one that is parked. It passes the result to read,
// unless the caller has to answer a request of the server first.
func (u *upstream) query(ctx context.Context, c *tool.Call, ask func(*session, *catalog) query,
	read func(*session, json.RawMessage) error) (*tool.InputRequired, error) {
	if err := u.acquireSlot(ctx); err != nil {
		return nil, err
	}
	defer func() { <-u.slots }()
	if isTaskState(c.State) {
		need, err := u.resumeTask(ctx, c, read)
		if err != nil && ctx.Err() == nil {
			err = u.callError(err)
		}
		return need, err
	}
	for again := isParkedState(c.State); ; again = true {
		f, need, err := u.startQuery(ctx, c, ask)
		if err == nil && need == nil {
			need, err = u.complete(ctx, f, c, read)
		}
		if err == nil || ctx.Err() != nil {
			return need, err
		}
		// A restarted server refuses the first call of an old session. A call that certainly was
		// not received is sent once more.
		if _, unsent := errors.AsType[*unsentError](err); again || !unsent {
			return nil, u.callError(err)
		}
		<-f.s.done
	}
}

// startQuery sends a query, or continues one.
func (u *upstream) startQuery(ctx context.Context, c *tool.Call, ask func(*session, *catalog) query) (*inFlight,
	*tool.InputRequired, error) {
	if isParkedState(c.State) {
		return u.resume(ctx, c)
	}
	s, k, err := u.awaitSession(ctx)
	if err != nil {
		return nil, nil, err
	}
	f, err := s.begin(ctx, ask(s, k), c)
	if err != nil {
		return &inFlight{s: s}, nil, err
	}
	return f, nil, nil
}

// acquireSlot waits for a call slot.
func (u *upstream) acquireSlot(ctx context.Context) error {
	u.use()
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

// awaitSession returns the session and its catalog, waiting a while for a connection if there is
// none.
func (u *upstream) awaitSession(ctx context.Context) (*session, *catalog, error) {
	var limit <-chan time.Time
	for {
		u.mu.Lock()
		s, c, changed := u.session, u.catalog, u.changed
		u.mu.Unlock()
		if s != nil && !s.isDone() {
			return s, c, nil
		}
		if limit == nil {
			timer := time.NewTimer(u.times.callWait)
			defer timer.Stop()
			limit = timer.C
		}
		if u.needsSignIn() {
			return nil, nil, u.offlineError()
		}
		signal(u.connectNow)
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

// needsSignIn reports whether a connection has to wait for the owner to sign in.
func (u *upstream) needsSignIn() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status.Err != nil && u.status.Err.SignIn != nil && u.status.State == Failed
}

func (u *upstream) offlineError() error {
	u.mu.Lock()
	t := u.status.Err
	u.mu.Unlock()
	if t != nil && t.SignIn != nil {
		return u.callError(t.SignIn)
	}
	if t == errNoSeat {
		return tool.Fail(tool.Busy, "Too many people use "+u.spec.name()+" and the like at the moment. Try again in a moment.",
			nil)
	}
	e := &tool.Error{Code: tool.Offline, Told: u.spec.name() + " is not connected at the moment. Try again later."}
	if t != nil {
		e.Cause = t.Error()
	}
	return e
}

// complete waits for the result of a query.
func (u *upstream) complete(ctx context.Context, f *inFlight, c *tool.Call,
	read func(*session, json.RawMessage) error) (*tool.InputRequired, error) {
	limited, cancel := context.WithTimeout(ctx, u.spec.Settings.timeout())
	defer cancel()
	raw, q, err := f.s.finish(limited, f, c)
	for err == nil && q != nil {
		if need := u.park(f, q, callerID(&c.Caller)); need != nil {
			return need, nil
		}
		f.s.queueReply(q.refusal())
		raw, q, err = f.s.finish(limited, f, c)
	}
	if err == nil && f.takesTask {
		if t, wrong := readTask(raw); t != nil || wrong != nil {
			u.timeouts.Store(0)
			if wrong != nil {
				return nil, wrong
			}
			need, err := u.awaitTask(limited, f.s, c, t, nil, read)
			return need, u.taskError(ctx, err)
		}
	}
	if err == nil {
		err = read(f.s, raw)
	}
	switch {
	case err == nil:
		u.timeouts.Store(0)
		return nil, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil && errors.Is(err, limited.Err()):
		if u.timeouts.Add(1) >= maxTimeouts {
			f.s.fail(errUnresponsive)
		}
		return nil, tool.Fail(tool.TimedOut,
			u.spec.name()+" did not answer in time. It is not known whether the call was carried out.", nil)
	}
	if _, ok := errors.AsType[*rpcError](err); ok {
		u.timeouts.Store(0)
	}
	return nil, err
}
