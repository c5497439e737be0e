package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
)

const (
	// maxNotices limits the queued notifications. Further ones are dropped.
	maxNotices = 16
	// noticeBurst is how many notifications may be sent in a burst.
	noticeBurst = 3
)

// session is one connection of a node. Its own goroutine sends requests to the gateway; calls
// have goroutines of their own, and end with the connection.
type session struct {
	n    *node
	conn *client.Conn

	ctx       context.Context // ends with the session
	cancel    context.CancelFunc
	republish chan struct{}   // tools may have changed; holds 1
	decisions chan string     // newest decision about the node; holds 1
	notices   chan hub.Notice // holds maxNotices
	rate      *rate.Limiter   // of notices

	mu       sync.Mutex
	closed   bool
	work     sync.WaitGroup // calls
	running  map[string]context.CancelCauseFunc
	refusals int // refusals being sent

	// Used by the goroutine of run only:
	approved  bool
	published json.RawMessage // list that the gateway has
}

func newSession(n *node, c *client.Conn) *session {
	s := &session{
		n: n, conn: c, republish: make(chan struct{}, 1), decisions: make(chan string, 1),
		notices: make(chan hub.Notice, maxNotices),
		rate:    rate.NewLimiter(rate.Every(n.gateway.m.opt.times.noticeInterval), noticeBurst),
		running: map[string]context.CancelCauseFunc{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// run serves the connection until it ends.
func (s *session) run() {
	defer s.end()
	times := &s.n.gateway.m.opt.times
	s.setStatus(Connecting, i18n.Text{}, "")
	s.checkApproval("")
	if !s.approved { // publishing takes effect after the approval
		s.publish(true)
	}
	again := time.NewTicker(times.approvalInterval)
	defer again.Stop()
	stats := time.NewTicker(times.statsInterval)
	defer stats.Stop()
	for {
		select {
		case <-s.conn.Done():
			return
		case <-s.republish:
			s.publish(false)
		case decision := <-s.decisions:
			s.checkApproval(decision)
		case <-again.C:
			switch {
			case !s.approved:
				s.checkApproval("")
			case s.published == nil: // publishing failed
				s.publish(true)
			}
		case <-stats.C:
			s.sendStats()
		case notice := <-s.notices:
			s.sendNotice(notice)
		}
	}
}

// end cancels everything and waits for it.
func (s *session) end() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if s.n.session == s {
		s.n.session = nil
	}
}

// setStatus sets the node's status while connected; afterwards the link does.
func (s *session) setStatus(state State, told i18n.Text, command string) {
	s.whileConnected(func() { s.n.setStatusLocked(state, told, command) })
}

// whileConnected calls f with the node's mu held, unless the connection has ended.
func (s *session) whileConnected(f func()) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	select {
	case <-s.conn.Done():
	default:
		f()
	}
}

// spawn runs f in a goroutine that end waits for. It returns false if the session has ended.
func (s *session) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Go(f)
	return true
}

// handleDecision handles the decision of the gateway's owner.
func (s *session) handleDecision(payload []byte) {
	var d wire.Decision
	if json.Unmarshal(payload, &d) != nil || d.NodeID != "" && d.NodeID != s.n.id {
		return
	}
	for {
		select {
		case s.decisions <- d.Decision:
			return
		default:
		}
		select { // only the newest counts
		case <-s.decisions:
		default:
		}
	}
}

// emptyInventory means that the node hosts no OpenClaw workers. The response to it tells whether
// the node is approved.
var emptyInventory = json.RawMessage(`{"protocolFeatures":[]}`)

// checkApproval checks whether the gateway's owner has approved the node. decision is the last
// announced one, or "".
func (s *session) checkApproval(decision string) {
	_, err := s.conn.Call(s.ctx, wire.MethodRunnerInventory, emptyInventory)
	e, refused := errors.AsType[*wire.Error](err)
	switch {
	case err != nil && !refused: // retried, or the connection ends
		s.n.log.Info("openclaw: the gateway does not report whether a node is approved", "error", err)
	case refused && e.Detail() == wire.DetailPairChanged:
		s.closeReplaced()
	case refused && e.Code == wire.Unavailable:
		s.approved = false
		if decision == wire.DecisionRejected {
			s.setStatus(Failed, msgRejected.With(), "")
			return
		}
		command := approvalCommand(e.Message)
		s.setStatus(Approval, msgApproval.With(command), command)
	default:
		// Gateways without this method have no such approval, or show it by accepting tools.
		first := !s.approved
		s.approved = true
		s.publish(true)
		if first {
			s.n.log.Info("openclaw: a node is ready", "tools", s.n.currentSurface().publishedCount)
			s.sendStats()
		}
	}
}

// approvePattern matches the approval command in a gateway's message.
var approvePattern = regexp.MustCompile(`openclaw nodes approve [0-9A-Za-z][0-9A-Za-z_-]{0,63}`)

// approvalCommand returns the command that approves the node's surface.
func approvalCommand(message string) string {
	if command := approvePattern.FindString(message); command != "" {
		return command
	}
	return "openclaw nodes pending"
}

// closeReplaced closes a connection that the gateway ignores because the node has connected
// elsewhere. The link then waits longer before it reconnects.
func (s *session) closeReplaced() {
	s.n.log.Warn("openclaw: the same node has connected to the gateway from elsewhere")
	s.setStatus(Waiting, msgReplaced.With(), "")
	s.conn.Close()
}

// publish sends the tool list if it has changed, or in any case with anyway.
func (s *session) publish(anyway bool) {
	o := s.n.currentSurface()
	if !anyway && bytes.Equal(o.publishedJSON, s.published) {
		return
	}
	payload, err := s.conn.Call(s.ctx, wire.MethodPluginTools, o.publishedJSON)
	if err != nil {
		s.published = nil
		e, refused := errors.AsType[*wire.Error](err)
		s.n.log.Warn("openclaw: the gateway did not take a node's tools", "tools", o.publishedCount, "error", err)
		switch {
		case refused && e.Detail() == wire.DetailPairChanged:
			s.closeReplaced()
		case refused && s.approved:
			s.setStatus(Ready, msgNotTaken.With(clip(e.Message, maxRemoteText)), "")
		}
		return
	}
	s.published = o.publishedJSON
	var taken struct {
		Tools []json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(payload, &taken) // absent: unknown
	s.recordAccepted(o, len(taken.Tools))
}

// recordAccepted records how many tools the gateway has accepted.
func (s *session) recordAccepted(o *surface, taken int) {
	s.whileConnected(func() { s.n.status.Accepted = taken })
	if !s.approved {
		return
	}
	told, command := i18n.Text{}, ""
	switch {
	case o.publishedCount > 0 && taken == 0:
		command = "openclaw nodes pending"
		told = msgNoneTaken.With(command)
	case o.omittedCount > 0:
		told = msgCut.With(o.omittedCount, maxPublished)
	}
	s.setStatus(Ready, told, command)
}

// sendStats reports the machine's load.
func (s *session) sendStats() {
	if s.n.gateway.m.opt.Stats == nil || !s.approved {
		return
	}
	stats, ok := s.n.gateway.m.opt.Stats()
	if !ok {
		return
	}
	payload, err := json.Marshal(stats)
	if err != nil {
		return // a load that is not a number
	}
	s.sendEvent(&wire.NodeEvent{Event: wire.NodeStats, Payload: payload})
}

// sendEvent sends a node event. It reports whether the gateway has handled it.
func (s *session) sendEvent(e *wire.NodeEvent) bool {
	_, err := s.conn.Call(s.ctx, wire.MethodNodeEvent, json.RawMessage(e.Append(nil)))
	if err == nil {
		return true
	}
	s.n.log.Debug("openclaw: the gateway did not take an event", "event", e.Event, "error", err)
	if refused, ok := errors.AsType[*wire.Error](err); ok && refused.Detail() == wire.DetailPairChanged {
		s.approved = false // or replaced: checked at the next interval
	}
	return false
}
