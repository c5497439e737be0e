package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/wire"
)

// maxPending limits the concurrent commands of one node. Further ones are refused.
const maxPending = 2048

// pending holds the running commands of a node by call id.
type pending struct {
	mu    sync.Mutex
	calls map[string]chan<- commandOutcome
	ended bool
}

// commandOutcome is the result of a command, or the fact that the node has disconnected.
type commandOutcome struct {
	result wire.InvokeResult
	gone   bool
}

// begin registers a command and its result channel. others reports whether more commands run on
// the node.
func (p *pending) begin(id, command string, out chan<- commandOutcome) (others bool, e *wire.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended:
		return false, wire.Disconnected(command)
	case len(p.calls) >= maxPending:
		return false, errNodeBusy
	case p.calls == nil:
		p.calls = map[string]chan<- commandOutcome{}
	}
	p.calls[id] = out
	return len(p.calls) > 1, nil
}

// forget unregisters a command.
func (p *pending) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, id)
}

// result passes a result to its waiting caller; false: there is none.
func (p *pending) result(r wire.InvokeResult) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, ok := p.calls[r.ID]
	if ok {
		delete(p.calls, r.ID)
		out <- commandOutcome{result: r} // buffered, never blocks
	}
	return ok
}

// any reports whether a command is running.
func (p *pending) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls) > 0
}

// end fails all running commands because the node has disconnected.
func (p *pending) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for id, out := range p.calls {
		delete(p.calls, id)
		out <- commandOutcome{gone: true}
	}
}

// newCallID returns a call id. It is not secret: results are accepted only from the node's own
// connection.
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

// command is a command for a node.
type command struct {
	Name    string          `json:"-"`
	Params  json.RawMessage `json:"params,omitempty"` // nil: none
	Timeout time.Duration   `json:"timeout"`          // 0: no limit
	Key     string          `json:"key,omitempty"`    // idempotency key
	Session string          `json:"session,omitempty"`
}

// notReadyDelays are the delays before a command is retried on a node that answered NODE_NOT_READY
// (src/gateway/node-invoke-readiness.ts, READINESS_RETRY_DELAYS_MS).
var notReadyDelays = [...]time.Duration{100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second}

// runCommand executes a command on the node until its timeout or ctx ends. The error is the
// response for an operator.
func (n *node) runCommand(ctx context.Context, c *command) (wire.InvokeResult, *wire.Error) {
	began := time.Now()
	defer func() { n.g.metrics.seconds.Observe(time.Since(began).Seconds()) }()
	limit := c.Timeout
	if limit <= 0 || limit > maxInvokeTimeout {
		limit = maxInvokeTimeout
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	out := make(chan commandOutcome, 1)
	req := wire.InvokeRequest{NodeID: n.id, Command: c.Name, Params: c.Params, IdempotencyKey: c.Key,
		SessionKey: c.Session}
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
		if r.Error == nil || r.Error.Code != wire.NodeNotReady || tries == len(notReadyDelays) ||
			limit-time.Since(began) <= notReadyDelays[tries] {
			return r, wire.NodeFailed(r.Error)
		}
		if netx.Wait(ctx, notReadyDelays[tries]) != nil {
			return r, contextError(ctx)
		}
	}
}

// dispatch sends a command to the node once.
func (n *node) dispatch(ctx context.Context, req *wire.InvokeRequest, out chan commandOutcome,
	timer *time.Timer) (wire.InvokeResult, *wire.Error) {
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
		return wire.InvokeResult{}, errTimedOut
	case <-ctx.Done():
		n.calls.forget(req.ID)
		return wire.InvokeResult{}, contextError(ctx)
	}
}

var (
	errTimedOut = wire.TimedOut()
	// errNodeBusy means that the node has too many running commands.
	errNodeBusy = &wire.Error{Code: wire.Unavailable, Message: "the node has too many commands to carry out",
		Retryable: true, RetryAfter: 250 * time.Millisecond}
	// errAborted means that the caller has disconnected; nobody receives it.
	errAborted = wire.NodeFailed(&wire.NodeError{Code: "ABORTED", Message: "the caller has gone"})
	// errStopping means that the gateway stops.
	errStopping = &wire.Error{Code: wire.Unavailable, Message: "service restart", Retryable: true}
)

// contextError returns the error for an ended context.
func contextError(ctx context.Context) *wire.Error {
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return errTimedOut
	case errors.Is(context.Cause(ctx), errShutdown):
		return errStopping
	}
	return errAborted
}
