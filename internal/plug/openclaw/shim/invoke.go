package shim

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/mcpnode"
	"patchbay/internal/plug/openclaw/wire"
)

const (
	// maxCallTimeout limits calls with no or a very long timeout, so that abandoned calls do not
	// fill the slots.
	maxCallTimeout = 10 * time.Minute
	// maxRefusals limits the refusals being sent. Further calls get no response, and time out at
	// the gateway.
	maxRefusals = 32
)

// errCallCancelled ends a call that the gateway has cancelled.
var errCallCancelled = errors.New("the gateway has called it off")

// handleInvoke starts a call. It does not block.
func (s *session) handleInvoke(payload []byte) {
	r, err := wire.ParseInvokeRequest(payload)
	switch {
	case r.ID == "":
		s.n.log.Debug("openclaw: the gateway calls something without an id")
		return
	case err != nil:
		s.refuse(r.ID, mcpnode.BadParams(err.Error()))
		return
	case r.NodeID != s.n.id:
		s.n.log.Warn("openclaw: the gateway has sent a call to the wrong node")
		return
	}
	slots := s.n.gateway.slots
	select {
	case slots <- struct{}{}:
	default:
		s.refuse(r.ID, &wire.NodeError{Code: wire.NodeNotReady, Message: "too many calls are running; try again"})
		return
	}
	if !s.startCall(&r, func() { <-slots }) {
		<-slots
	}
}

// startCall starts a call, and calls done after it. It returns false if the session has ended or
// the id is in use.
func (s *session) startCall(r *wire.InvokeRequest, done func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.running[r.ID] != nil {
		return false
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	s.running[r.ID] = cancel
	s.work.Go(func() {
		defer done()
		defer cancel(nil)
		result := s.runCall(ctx, r)
		s.mu.Lock()
		delete(s.running, r.ID)
		s.mu.Unlock()
		s.answer(result)
	})
	return true
}

// handleCancel cancels a call.
func (s *session) handleCancel(payload []byte) {
	var p struct {
		ID string `json:"invokeId"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.running[p.ID]; cancel != nil {
		cancel(errCallCancelled)
	}
}

// refuse answers a call that is not executed.
func (s *session) refuse(id string, why *wire.NodeError) {
	s.mu.Lock()
	full := s.refusals >= maxRefusals
	if !full {
		s.refusals++
	}
	s.mu.Unlock()
	if full {
		s.n.gateway.m.metrics.calls.WithLabelValues("dropped").Inc()
		return
	}
	s.spawn(func() {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refusals--
		}()
		s.n.gateway.m.metrics.calls.WithLabelValues("refused").Inc()
		s.answer(&wire.InvokeResult{ID: id, NodeID: s.n.id, Error: why})
	})
}

// runCall executes a call.
func (s *session) runCall(ctx context.Context, r *wire.InvokeRequest) *wire.InvokeResult {
	limit := r.Timeout
	if limit <= 0 || limit > maxCallTimeout {
		limit = maxCallTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	c := commandRunner{s.n.gateway.m.opt.Source, s.n.gateway.spec, s.n.currentSurface(), s.n.gateway.m.opt.Version}
	payload, failed := c.run(ctx, r)
	m := s.n.gateway.m.metrics
	m.seconds.Observe(time.Since(began).Seconds())
	if failed != nil {
		m.calls.WithLabelValues("failed").Inc()
	} else {
		m.calls.WithLabelValues("ok").Inc()
	}
	return &wire.InvokeResult{ID: r.ID, NodeID: s.n.id, OK: failed == nil, Payload: payload, Error: failed}
}

// answer sends the result of a call, if still connected.
func (s *session) answer(r *wire.InvokeResult) {
	if s.ctx.Err() != nil {
		return
	}
	_, err := s.conn.Call(s.ctx, wire.MethodInvokeResult, json.RawMessage(r.Append(nil)))
	if errors.Is(err, client.ErrTooLarge) {
		s.n.log.Warn("openclaw: a result is too large for the gateway", "bytes", len(r.Payload))
		r = &wire.InvokeResult{ID: r.ID, NodeID: r.NodeID, OK: true,
			Payload: mcpnode.ErrorResult("The result is too large for the gateway.")}
		_, err = s.conn.Call(s.ctx, wire.MethodInvokeResult, json.RawMessage(r.Append(nil)))
	}
	if err != nil && s.ctx.Err() == nil {
		s.n.log.Info("openclaw: the gateway did not get a result", "error", err)
	}
}
