package gateway

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

const (
	// maxRuns limits the remembered runs of one person, so that a repeated request is answered
	// once.
	maxRuns = 1000
	// maxActive limits the concurrent runs of one person.
	maxActive = 100
	// maxAnswer limits an answer, in bytes. Every event repeats the whole answer so far.
	maxAnswer = 256 << 10
	// maxKeptAnswer is how much of a finished answer is kept for later requests, in bytes.
	maxKeptAnswer = 8 << 10
)

// runs holds active and recent runs.
type runs struct {
	mu     sync.Mutex
	people map[string]*personRuns
}

// personRuns are the runs of one person, oldest first.
type personRuns struct {
	byID   map[string]*run
	order  list.List
	active int
	last   map[string]*run // newest active run of each conversation
}

func (r *runs) init() { r.people = map[string]*personRuns{} }

// run is a question and its answer.
type run struct {
	g           *Gateway
	id          string
	question    *question
	began       time.Time
	previous    *run // must finish first; nil: none
	interrupted bool // aborted in favor of a newer run
	ctx         context.Context
	cancel      context.CancelCauseFunc
	accepted    chan struct{}   // closed when its asker has been told that it begins
	heard       <-chan struct{} // closed when the asker has read that; nil: nobody was told
	done        chan struct{}   // closed when it has finished

	mu         sync.Mutex
	text       string // answer so far
	sent       int    // bytes of text that were sent
	seq        int64
	lastSentAt time.Time   // time of the last event
	timer      *time.Timer // sends the rest; nil: nothing is due
	state      string      // empty: active; otherwise one of wire.Chat…
	errorText  string      // set if it failed
}

// start starts a run, in the trace of ctx, which waits for [run.accept]. again means that the same
// request was made before.
func (r *runs) start(ctx context.Context, g *Gateway, q *question) (_ *run, again bool, _ *wire.Error) {
	if was := r.find(q.owner, q.id); was != nil {
		return was.again(q)
	}
	x, e := g.stored(ctx, q.owner, &q.session)
	if e != nil {
		return nil, false, e
	}
	q.session.conversation = x.Conversation
	r.mu.Lock()
	p := r.people[q.owner]
	if p == nil {
		p = &personRuns{byID: map[string]*run{}, last: map[string]*run{}}
		r.people[q.owner] = p
	}
	now := time.Now()
	p.sweep(now)
	if was := p.byID[q.id]; was != nil {
		r.mu.Unlock()
		return was.again(q)
	}
	if p.active >= maxActive {
		r.mu.Unlock()
		return nil, false, errBusy
	}
	n := &run{g: g, id: q.id, question: q, began: now, accepted: make(chan struct{}), done: make(chan struct{}),
		previous: p.last[q.session.key]}
	n.ctx, n.cancel = context.WithCancelCause(g.Tracer.Under(g.ctx, ctx))
	before := n.previous
	if before != nil && q.mode == wire.QueueInterrupt {
		n.interrupted, n.previous = true, nil
	}
	p.byID[q.id], p.last[q.session.key] = n, n
	p.order.PushBack(n)
	p.active++
	r.mu.Unlock()
	if n.interrupted {
		for _, old := range r.running(q.owner, q.session.key) {
			if old != n {
				old.abort("interrupted")
			}
		}
	}
	if !g.spawn(n.answer) {
		n.cancel(errShutdown)
		r.finish(n)
		return nil, false, errStopping
	}
	g.said(ctx, q, n.id, textMessage(roleUser, q.text(), now))
	return n, false, nil
}

// errOtherRun means that an idempotency key belongs to a message of another conversation.
var errOtherRun = wire.Invalid("idempotencyKey was used for another conversation")

// again returns the run for a message with the same idempotency key.
func (n *run) again(q *question) (_ *run, again bool, _ *wire.Error) {
	if n.question.session.key != q.session.key {
		return nil, false, errOtherRun
	}
	return n, true, nil
}

// sweep removes finished runs that are too old or too many.
func (p *personRuns) sweep(now time.Time) {
	for at := p.order.Front(); at != nil; {
		n, next := at.Value.(*run), at.Next()
		select {
		case <-n.done:
			if now.Sub(n.began) > wire.RunTTL || p.order.Len() > maxRuns {
				p.order.Remove(at)
				delete(p.byID, n.id)
			}
		default:
		}
		at = next
	}
}

// finish records that a run has ended.
func (r *runs) finish(n *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.people[n.question.owner]
	p.active--
	if p.last[n.question.session.key] == n {
		delete(p.last, n.question.session.key)
	}
	close(n.done)
}

// running returns the active runs of a conversation, oldest first.
func (r *runs) running(owner, key string) []*run {
	var out []*run
	r.mu.Lock()
	if p := r.people[owner]; p != nil {
		for at := p.order.Front(); at != nil; at = at.Next() {
			if n := at.Value.(*run); n.question.session.key == key {
				out = append(out, n)
			}
		}
	}
	r.mu.Unlock()
	return slices.DeleteFunc(out, (*run).isFinished)
}

// isFinished reports whether the last event was sent, which is a moment before the run is
// removed: a client that has received it may ask again at once.
func (n *run) isFinished() bool {
	select {
	case <-n.done:
		return true
	default:
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state != ""
}

// find returns a run, or nil.
func (r *runs) find(owner, id string) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.people[owner]; p != nil {
		return p.byID[id]
	}
	return nil
}

// accept lets a run begin: its asker has been told, and has read that when heard is closed, if it
// is not nil.
func (n *run) accept(heard <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.accepted:
	default:
		n.heard = heard
		close(n.accepted)
	}
}

// awaitAsker waits until the asker has read that the run has begun. OpenClaw's terminal program
// takes a run for one that waits if it reads events of it together with that, and sends nothing
// more until another event (src/tui/tui-command-handlers.ts, sendMessage).
func (n *run) awaitAsker() {
	n.mu.Lock()
	heard := n.heard
	n.mu.Unlock()
	if heard == nil {
		return
	}
	netx.WaitUnless(n.ctx, heard, echoTimeout)
}

// answer runs the bot and sends its answer as events.
func (n *run) answer() {
	defer n.g.runs.finish(n)
	defer n.cancel(nil)
	select {
	case <-n.accepted:
	case <-n.ctx.Done():
	}
	n.awaitAsker()
	if n.previous != nil {
		select {
		case <-n.previous.done:
			n.previous = nil
		case <-n.ctx.Done():
		}
	}
	ctx := n.ctx
	if n.question.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, n.question.timeout)
		defer cancel()
	}
	n.sendEvent(&wire.ChatEvent{State: wire.ChatStatus, Phase: "starting_model"})
	n.sendAgentEvent(wire.StreamLifecycle, map[string]any{"phase": "start", "startedAt": time.Now().UnixMilli()})
	err := ctx.Err()
	if err == nil {
		turn := n.question.turn()
		turn.UsesTool = n.usesTool
		err = n.g.Hub.Answer(ctx, turn, func(e talk.Event) error {
			if e.Kind == talk.KindText {
				return n.appendText(e.Text)
			}
			return nil
		})
	}
	n.finish(ctx, err)
	text, status := n.outcome()
	if status == statusError {
		text = ""
	}
	n.g.ended(n, text)
}

// appendText appends a piece of the answer. Pieces in quick succession are sent together.
func (n *run) appendText(text string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != "" {
		return talk.ErrDisconnected
	}
	if len(n.text)+len(text) > maxAnswer {
		return talk.ErrDisconnected
	}
	n.text += text
	switch wait := n.g.Timings.DeltaInterval - time.Since(n.lastSentAt); {
	case n.timer != nil:
	case wait <= 0:
		n.flush()
	default:
		n.timer = time.AfterFunc(wait, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.timer = nil
			n.flush()
		})
	}
	return nil
}

// flush sends the unsent part of the answer. The caller holds mu.
func (n *run) flush() {
	if n.state != "" || n.sent == len(n.text) {
		return
	}
	delta := n.text[n.sent:]
	n.sent, n.lastSentAt = len(n.text), time.Now()
	n.sendAgentEventLocked(wire.StreamAssistant, map[string]any{"text": n.text, "delta": delta})
	n.sendEventLocked(&wire.ChatEvent{State: wire.ChatDelta, Delta: delta, Message: n.message()})
}

// message returns the answer so far, or nil. The caller holds mu.
func (n *run) message() []byte {
	if n.text == "" {
		return nil
	}
	return encoded(textMessage(roleAssistant, n.text, time.Now()))
}

// finish sends how the answer ended.
func (n *run) finish(ctx context.Context, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.timer != nil {
		n.timer.Stop()
		n.timer = nil
	}
	if n.state != "" {
		n.g.metrics.runs.WithLabelValues(n.state).Inc()
		return // it was aborted
	}
	n.flush()
	switch {
	case err == nil:
		n.sendAgentEventLocked(wire.StreamLifecycle, map[string]any{"phase": "end", "aborted": false,
			"endedAt": time.Now().UnixMilli()})
		n.end(&wire.ChatEvent{State: wire.ChatFinal, StopReason: "stop", Message: n.message()})
	case n.g.ctx.Err() != nil:
		n.end(&wire.ChatEvent{State: wire.ChatAborted, StopReason: "aborted", Message: n.message()})
	default:
		kind, lang := "unknown", i18n.ParseLang(n.question.lang, i18n.English)
		failure := talk.AsFailure(err)
		switch {
		case ctx.Err() != nil || failure.Code == talk.TimedOut:
			kind, failure = "timeout", talk.Fail(talk.TimedOut, "", err)
		case failure.Code == talk.Busy:
			kind = "rate_limit"
		case len(n.text) >= maxAnswer-maxKeptAnswer:
			failure = talk.Fail(talk.BotFailed, "", err)
		}
		n.errorText = failure.Sentence(lang)
		n.sendAgentEventLocked(wire.StreamLifecycle, map[string]any{"phase": "error", "error": n.errorText,
			"endedAt": time.Now().UnixMilli()})
		n.end(&wire.ChatEvent{State: wire.ChatError, ErrorMessage: n.errorText, ErrorKind: kind})
	}
	n.g.metrics.runs.WithLabelValues(n.state).Inc()
}

// end sends the last event. The caller holds mu.
func (n *run) end(e *wire.ChatEvent) {
	n.sendEventLocked(e)
	n.state = e.State
	if len(n.text) > maxKeptAnswer {
		n.text = n.text[:maxKeptAnswer]
	}
}

// abort stops the answer; false: it has already ended. Subscribers have been notified when abort
// returns.
func (n *run) abort(why string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != "" {
		return false
	}
	n.sendAgentEventLocked(wire.StreamLifecycle, map[string]any{"phase": "end", "aborted": true,
		"endedAt": time.Now().UnixMilli()})
	n.end(&wire.ChatEvent{State: wire.ChatAborted, StopReason: why, Message: n.message()})
	n.cancel(talk.ErrDisconnected)
	return true
}

// sendEvent sends a chat event to all subscribers of the conversation.
func (n *run) sendEvent(e *wire.ChatEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == "" {
		n.sendEventLocked(e)
	}
}

func (n *run) sendEventLocked(e *wire.ChatEvent) {
	n.seq++
	s := &n.question.session
	e.RunID, e.SessionKey, e.AgentID, e.Seq = n.id, s.shown, s.agent, n.seq
	n.g.broadcast(broadcastEvent{Owner: n.question.owner, Scope: wire.ScopeRead, Session: s.key, Bot: s.bot.Number,
		Event: wire.EventChat, Payload: encoded(e)})
}

// sendAgentEvent sends an agent event, which has more detail.
func (n *run) sendAgentEvent(stream string, data any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == "" {
		n.sendAgentEventLocked(stream, data)
	}
}

func (n *run) sendAgentEventLocked(stream string, data any) {
	n.g.broadcast(n.agentEvent(stream, data))
}

// agentEvent returns the next agent event. The caller holds mu.
func (n *run) agentEvent(stream string, data any) broadcastEvent {
	n.seq++
	s := &n.question.session
	return broadcastEvent{Owner: n.question.owner, Scope: wire.ScopeRead, Session: s.key, Bot: s.bot.Number,
		Event: wire.EventAgent, Payload: encoded(wire.AgentEvent{
			RunID: n.id, Stream: stream, Data: encoded(data), SessionKey: s.shown, AgentID: s.agent, Seq: n.seq,
			TS: time.Now().UnixMilli(),
		})}
}

// status returns the state of a run for a repeated request.
func (n *run) status(first string, again bool) string {
	switch {
	case !again:
		return first
	case n.isFinished():
		return statusOK
	}
	return "in_flight"
}

// inFlight returns the answer so far.
func (n *run) inFlight() any {
	n.mu.Lock()
	defer n.mu.Unlock()
	return map[string]any{"runId": n.id, "text": n.text, "startedAt": n.began.UnixMilli()}
}

// The statuses of a finished run, of agent and agent.wait.
const (
	statusOK      = "ok"
	statusError   = "error"
	statusAborted = "aborted"
)

// outcome returns the text of a finished run and its status.
func (n *run) outcome() (text, status string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch n.state {
	case wire.ChatError:
		return n.errorText, statusError
	case wire.ChatAborted:
		return n.text, statusAborted
	}
	return n.text, statusOK
}

// result returns the final response of the method agent.
func (n *run) result() any {
	text, status := n.outcome()
	summary := "completed"
	payloads := []map[string]any{}
	if status == statusAborted {
		summary = statusAborted
	}
	if status == statusError {
		summary = text
	} else if text != "" {
		payloads = append(payloads, map[string]any{"text": text, "mediaUrl": nil})
	}
	return map[string]any{"runId": n.id, "status": status, "summary": summary,
		"result": map[string]any{"payloads": payloads, "meta": map[string]any{"durationMs": time.Since(n.began).
			Milliseconds()}}}
}
