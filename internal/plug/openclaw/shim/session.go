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

	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

const (
	// maxNotices bounds the notices that wait to be told. One more is dropped.
	maxNotices = 16
	// noticeBurst is how many notices may be told one right after the other.
	noticeBurst = 3
)

// session is one connection of a node. Its own goroutine asks and tells the gateway
// things; calls have goroutines of their own, and end with the connection.
type session struct {
	n    *node
	conn *client.Conn

	ctx     context.Context // ends with the session
	cancel  context.CancelFunc
	stale   chan struct{}     // holds 1: there may be something else to publish
	decided chan string       // holds 1: the newest decision about the node
	notices chan board.Notice // holds maxNotices
	rate    *rate.Limiter     // of notices

	mu       sync.Mutex
	ended    bool
	work     sync.WaitGroup // calls
	running  map[string]context.CancelCauseFunc
	refusing int // calls that are being refused

	// Of the goroutine of run alone:
	approved  bool
	published json.RawMessage // what the gateway has
}

func newSession(n *node, c *client.Conn) *session {
	s := &session{
		n: n, conn: c, stale: make(chan struct{}, 1), decided: make(chan string, 1), notices: make(chan board.Notice, maxNotices),
		rate: rate.NewLimiter(rate.Every(n.shim.m.opt.times.notice), noticeBurst), running: map[string]context.CancelCauseFunc{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// run looks after the connection until it ends.
func (s *session) run() {
	defer s.end()
	times := &s.n.shim.m.opt.times
	s.become(Connecting, talk.Say{}, "")
	s.ask("")
	if !s.approved { // the list takes effect as soon as it is
		s.publish(true)
	}
	again := time.NewTicker(times.ask)
	defer again.Stop()
	stats := time.NewTicker(times.stats)
	defer stats.Stop()
	for {
		select {
		case <-s.conn.Done():
			return
		case <-s.stale:
			s.publish(false)
		case decision := <-s.decided:
			s.ask(decision)
		case <-again.C:
			switch {
			case !s.approved:
				s.ask("")
			case s.published == nil: // that has failed
				s.publish(true)
			}
		case <-stats.C:
			s.tellStats()
		case notice := <-s.notices:
			s.tellNotice(notice)
		}
	}
}

// end calls everything off and waits for it.
func (s *session) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if s.n.session == s {
		s.n.session = nil
	}
}

// become notes how the node is, as long as it is connected: afterwards the link knows
// better.
func (s *session) become(state State, told talk.Say, command string) {
	s.whileConnected(func() { s.n.become(state, told, command) })
}

// whileConnected calls f with the node's mu held, unless the connection is over.
func (s *session) whileConnected(f func()) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	select {
	case <-s.conn.Done():
	default:
		f()
	}
}

// spawn runs f in a goroutine that end waits for, unless the session is over.
func (s *session) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.work.Go(f)
	return true
}

// resolved takes the decision of the gateway's owner.
func (s *session) resolved(payload []byte) {
	var d wire.Decision
	if json.Unmarshal(payload, &d) != nil || d.NodeID != "" && d.NodeID != s.n.id {
		return
	}
	for {
		select {
		case s.decided <- d.Decision:
			return
		default:
		}
		select { // only the newest counts
		case <-s.decided:
		default:
		}
	}
}

// noDeclaration says that the node hosts no workers of OpenClaw. Who says so is told
// whether the node is approved.
var noDeclaration = json.RawMessage(`{"protocolFeatures":[]}`)

// ask finds out whether the gateway's owner has approved what the node can do. The
// decision is what was told last, or "".
func (s *session) ask(decision string) {
	_, err := s.conn.Call(s.ctx, wire.MethodRunnerInventory, noDeclaration)
	e, refused := errors.AsType[*wire.Error](err)
	switch {
	case err != nil && !refused: // it is asked again, or the connection ends
		s.n.log.Info("openclaw: the gateway does not say whether a node is approved", "error", err)
	case refused && e.Detail() == wire.DetailPairChanged:
		s.replaced()
	case refused && e.Code == wire.Unavailable:
		s.approved = false
		if decision == wire.DecisionRejected {
			s.become(Failed, sayRejected, "")
			return
		}
		command := approval(e.Message)
		s.become(Approval, say(sayApproval, command), command)
	default:
		// Gateways that do not know the question have no such approval, or tell by
		// what they take.
		first := !s.approved
		s.approved = true
		s.publish(true)
		if first {
			s.n.log.Info("openclaw: a node is ready", "tools", s.n.offers().count)
			s.tellStats()
		}
	}
}

// approveCommand is how gateways name the command in what they say.
var approveCommand = regexp.MustCompile(`openclaw nodes approve [0-9A-Za-z][0-9A-Za-z_-]{0,63}`)

// approval is the command by which what a node can do is approved.
func approval(message string) string {
	if command := approveCommand.FindString(message); command != "" {
		return command
	}
	return "openclaw nodes pending"
}

// replaced ends a connection that the gateway does not listen to any more, as the
// same node has connected elsewhere. The link is in no hurry to come back then.
func (s *session) replaced() {
	s.n.log.Warn("openclaw: the same node has connected to the gateway from elsewhere")
	s.become(Waiting, sayReplaced, "")
	s.conn.Close()
}

// publish gives the gateway the list of tools, if it is another one, or in any case.
func (s *session) publish(anyway bool) {
	o := s.n.offers()
	if !anyway && bytes.Equal(o.published, s.published) {
		return
	}
	payload, err := s.conn.Call(s.ctx, wire.MethodPluginTools, o.published)
	if err != nil {
		s.published = nil
		e, refused := errors.AsType[*wire.Error](err)
		s.n.log.Warn("openclaw: the gateway did not take a node's tools", "tools", o.count, "error", err)
		switch {
		case refused && e.Detail() == wire.DetailPairChanged:
			s.replaced()
		case refused && s.approved:
			s.become(Ready, say(sayNotTaken, clip(e.Message, maxSaid)), "")
		}
		return
	}
	s.published = o.published
	var taken struct {
		Tools []json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(payload, &taken) // then it does not say
	s.took(o, len(taken.Tools))
}

// took notes how many tools the gateway has taken.
func (s *session) took(o *offer, taken int) {
	s.whileConnected(func() { s.n.status.Taken = taken })
	if !s.approved {
		return
	}
	told, command := talk.Say{}, ""
	switch {
	case o.count > 0 && taken == 0:
		command = "openclaw nodes pending"
		told = say(sayNoneTaken, command)
	case o.leftOut > 0:
		told = say(sayCut, o.leftOut, maxPublished)
	}
	s.become(Ready, told, command)
}

// tellStats tells the gateway how the machine is.
func (s *session) tellStats() {
	if s.n.shim.m.opt.Stats == nil || !s.approved {
		return
	}
	stats, ok := s.n.shim.m.opt.Stats()
	if !ok {
		return
	}
	payload, err := json.Marshal(stats)
	if err != nil {
		return // a load that is no number
	}
	s.send(&wire.NodeEvent{Event: wire.NodeStats, Payload: payload})
}

// send tells the gateway something. It reports whether the gateway has taken it.
func (s *session) send(e *wire.NodeEvent) bool {
	_, err := s.conn.Call(s.ctx, wire.MethodNodeEvent, json.RawMessage(e.Append(nil)))
	if err == nil {
		return true
	}
	s.n.log.Debug("openclaw: the gateway did not take an event", "event", e.Event, "error", err)
	if refused, ok := errors.AsType[*wire.Error](err); ok && refused.Detail() == wire.DetailPairChanged {
		s.approved = false // or replaced: the next time it is asked
	}
	return false
}
