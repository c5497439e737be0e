package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/plug/openclaw/wire"
)

// maxPending bounds the commands that one node carries out at a time. One more is
// refused.
const maxPending = 2048

// pending are the commands that run on a node, by the ids that were made for them.
type pending struct {
	mu    sync.Mutex
	calls map[string]chan<- outcome
	ended bool
}

// outcome is what came of a command, or that the node has gone.
type outcome struct {
	result wire.InvokeResult
	gone   bool
}

// begin waits for the result of a command. Others says whether more commands run on
// the node.
func (p *pending) begin(id, command string, out chan<- outcome) (others bool, e *wire.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended:
		return false, wire.Disconnected(command)
	case len(p.calls) >= maxPending:
		return false, nodeBusy
	case p.calls == nil:
		p.calls = map[string]chan<- outcome{}
	}
	p.calls[id] = out
	return len(p.calls) > 1, nil
}

// forget waits no longer.
func (p *pending) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, id)
}

// result hands a result to whoever waits for it; false: nobody does.
func (p *pending) result(r wire.InvokeResult) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, ok := p.calls[r.ID]
	if ok {
		delete(p.calls, r.ID)
		out <- outcome{result: r} // it has room for one
	}
	return ok
}

// any reports whether somebody waits for the node.
func (p *pending) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls) > 0
}

// end tells everybody who waits that the node has gone.
func (p *pending) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for id, out := range p.calls {
		delete(p.calls, id)
		out <- outcome{gone: true}
	}
}

// newCallID makes the id of a dispatch. It is not secret: a node's results are taken
// from its own connection only.
func newCallID() string {
	var id uuid.UUID
	for i, v := range []uint64{rand.Uint64(), rand.Uint64()} {
		for j := range 8 {
			id[i*8+j] = byte(v >> (8 * j))
		}
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// command is a command that a node is to carry out.
type command struct {
	Name    string          `json:"-"`
	Params  json.RawMessage `json:"params,omitempty"` // nil: none
	Timeout time.Duration   `json:"timeout"`          // 0: as long as it takes
	Key     string          `json:"key,omitempty"`    // idempotency key
	Session string          `json:"session,omitempty"`
}

// notReady are the pauses before a command is given again to a node that was not
// ready for it and has done nothing.
var notReady = [...]time.Duration{100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second}

// do has the node carry out a command, which may take until its timeout, or ctx,
// ends. The error is what an operator is told.
func (n *node) do(ctx context.Context, c *command) (wire.InvokeResult, *wire.Error) {
	began := time.Now()
	defer func() { n.g.metrics.seconds.Observe(time.Since(began).Seconds()) }()
	limit := c.Timeout
	if limit <= 0 || limit > maxInvoke {
		limit = maxInvoke
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	out := make(chan outcome, 1)
	req := wire.InvokeRequest{NodeID: n.id, Command: c.Name, Params: c.Params, IdempotencyKey: c.Key, SessionKey: c.Session}
	for tries := 0; ; tries++ {
		req.ID = newCallID()
		if c.Timeout > 0 {
			req.Timeout = max(limit-time.Since(began), time.Millisecond)
		}
		r, e := n.dispatch(ctx, &req, out, timer)
		if e != nil {
			return r, e
		}
		if r.OK {
			return r, nil
		}
		if r.Error == nil || r.Error.Code != wire.NodeNotReady || tries == len(notReady) || limit-time.Since(began) <= notReady[tries] {
			return r, wire.NodeFailed(r.Error)
		}
		again := time.NewTimer(notReady[tries])
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return r, ended(ctx)
		}
	}
}

// dispatch sends a command to the node once.
func (n *node) dispatch(ctx context.Context, req *wire.InvokeRequest, out chan outcome, timer *time.Timer) (wire.InvokeResult, *wire.Error) {
	others, e := n.calls.begin(req.ID, req.Command, out)
	if e != nil {
		return wire.InvokeResult{}, e
	}
	f := newFrame()
	payload := newFrame()
	payload.b = req.Append(payload.b)
	f.b = wire.AppendEvent(f.b, wire.EventInvoke, payload.b[headRoom:], 0)
	payload.free()
	n.c.send(f, others)
	select {
	case o := <-out:
		if o.gone {
			return wire.InvokeResult{}, wire.Disconnected(req.Command)
		}
		return o.result, nil
	case <-timer.C:
		n.calls.forget(req.ID)
		return wire.InvokeResult{}, timedOut
	case <-ctx.Done():
		n.calls.forget(req.ID)
		return wire.InvokeResult{}, ended(ctx)
	}
}

var (
	timedOut = wire.TimedOut()
	// nodeBusy is told who calls a node that has too much to do already.
	nodeBusy = &wire.Error{Code: wire.Unavailable, Message: "the node has too many commands to carry out", Retryable: true, RetryAfter: 250 * time.Millisecond}
	// aborted is told nobody: whoever called has gone.
	aborted = wire.NodeFailed(&wire.NodeError{Code: "ABORTED", Message: "the caller has gone"})
	// stopping is told whoever calls while the gateway stops.
	stopping = &wire.Error{Code: wire.Unavailable, Message: "service restart", Retryable: true}
)

// ended says why a context has ended.
func ended(ctx context.Context) *wire.Error {
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return timedOut
	case errors.Is(context.Cause(ctx), errShutdown):
		return stopping
	}
	return aborted
}
