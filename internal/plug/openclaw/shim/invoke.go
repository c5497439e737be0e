package shim

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
)

const (
	// callLimit bounds a call that the gateway sets no time for, or a very long one:
	// calls that nobody waits for any more must not fill up the slots.
	callLimit = 10 * time.Minute
	// maxRefusing bounds the refusals that are on their way, of calls that are too
	// many. What comes beyond gets no answer, and times out at the gateway.
	maxRefusing = 32
)

// Codes of nodes' errors of our own making, as OpenClaw's bridges have them.
const (
	codeBadParams = "-32602"
	codeMCP       = "MCP_ERROR"
	codeAborted   = "ABORTED"
)

// errCalledOff ends a call that the gateway does not want any more.
var errCalledOff = errors.New("the gateway has called it off")

// invoked has a call of a command carried out. It does not wait.
func (s *session) invoked(payload []byte) {
	r, err := wire.ParseInvokeRequest(payload)
	switch {
	case r.ID == "":
		s.n.log.Debug("openclaw: the gateway calls something without an id")
		return
	case err != nil:
		s.refuse(r.ID, &wire.NodeError{Code: codeBadParams, Message: err.Error()})
		return
	case r.NodeID != s.n.id:
		s.n.log.Warn("openclaw: the gateway has sent a call to the wrong node")
		return
	}
	slots := s.n.shim.slots
	select {
	case slots <- struct{}{}:
	default:
		s.refuse(r.ID, &wire.NodeError{Code: wire.NodeNotReady, Message: "too many calls are running; try again"})
		return
	}
	if !s.begin(&r, func() { <-slots }) {
		<-slots
	}
}

// begin has a call carried out, and done called after that. It is false if the session
// is over, or there is such a call already.
func (s *session) begin(r *wire.InvokeRequest, done func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.running[r.ID] != nil {
		return false
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	s.running[r.ID] = cancel
	s.work.Go(func() {
		defer done()
		defer cancel(nil)
		result := s.carryOut(ctx, r)
		s.mu.Lock()
		delete(s.running, r.ID)
		s.mu.Unlock()
		s.answer(result)
	})
	return true
}

// calledOff ends a call that the gateway does not want any more.
func (s *session) calledOff(payload []byte) {
	var p struct {
		ID string `json:"invokeId"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.running[p.ID]; cancel != nil {
		cancel(errCalledOff)
	}
}

// refuse answers a call that is not carried out.
func (s *session) refuse(id string, why *wire.NodeError) {
	s.mu.Lock()
	full := s.refusing >= maxRefusing
	if !full {
		s.refusing++
	}
	s.mu.Unlock()
	if full {
		s.n.shim.m.metrics.calls.WithLabelValues("dropped").Inc()
		return
	}
	s.spawn(func() {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refusing--
		}()
		s.n.shim.m.metrics.calls.WithLabelValues("refused").Inc()
		s.answer(&wire.InvokeResult{ID: id, NodeID: s.n.id, Error: why})
	})
}

// carryOut carries a call out.
func (s *session) carryOut(ctx context.Context, r *wire.InvokeRequest) *wire.InvokeResult {
	limit := r.Timeout
	if limit <= 0 || limit > callLimit {
		limit = callLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	c := caller{s.n.shim.m.opt.Source, s.n.shim.spec, s.n.offers(), s.n.shim.m.opt.Version}
	payload, failed := c.command(ctx, r)
	m := s.n.shim.m.metrics
	m.seconds.Observe(time.Since(began).Seconds())
	if failed != nil {
		m.calls.WithLabelValues("failed").Inc()
	} else {
		m.calls.WithLabelValues("ok").Inc()
	}
	return &wire.InvokeResult{ID: r.ID, NodeID: s.n.id, OK: failed == nil, Payload: payload, Error: failed}
}

// answer tells the gateway what came of a call, if it is still there.
func (s *session) answer(r *wire.InvokeResult) {
	if s.ctx.Err() != nil {
		return
	}
	_, err := s.conn.Call(s.ctx, wire.MethodInvokeResult, json.RawMessage(r.Append(nil)))
	if errors.Is(err, client.ErrTooLarge) {
		s.n.log.Warn("openclaw: a result is too large for the gateway", "bytes", len(r.Payload))
		r = &wire.InvokeResult{ID: r.ID, NodeID: r.NodeID, OK: true, Payload: trouble("The result is too large for the gateway.")}
		_, err = s.conn.Call(s.ctx, wire.MethodInvokeResult, json.RawMessage(r.Append(nil)))
	}
	if err != nil && s.ctx.Err() == nil {
		s.n.log.Info("openclaw: the gateway did not get a result", "error", err)
	}
}
