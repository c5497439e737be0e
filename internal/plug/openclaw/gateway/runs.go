package gateway

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

const (
	// maxRuns is how many runs of one person are remembered, so that a question that is
	// sent twice is answered once.
	maxRuns = 1000
	// maxActive bounds the questions of one person that are answered at a time.
	maxActive = 100
	// maxAnswer bounds an answer, in bytes. It is sent again with every piece.
	maxAnswer = 256 << 10
	// keptAnswer is how much of an answer is kept when it is complete, in bytes, for
	// those who ask for it later.
	keptAnswer = 8 << 10
)

// runs are the questions that are being answered, and those that were a moment ago.
type runs struct {
	mu     sync.Mutex
	people map[string]*personRuns
}

// personRuns are those of one person, the oldest first.
type personRuns struct {
	byID   map[string]*run
	order  list.List
	active int
	last   map[string]*run // the newest of each conversation that is being answered
}

func (r *runs) init() { r.people = map[string]*personRuns{} }

// run is a question and its answer.
type run struct {
	g           *Gateway
	id          string
	question    *question
	began       time.Time
	after       *run // is answered first; nil: none
	interrupted bool // another one was aborted for it
	ctx         context.Context
	cancel      context.CancelCauseFunc
	done        chan struct{} // closed when it is over

	mu    sync.Mutex
	text  string // so far
	sent  int    // bytes of it that were told
	seq   int64
	at    time.Time   // when something was told last
	timer *time.Timer // tells the rest; nil: nothing waits
	state string      // empty: it is being answered; otherwise one of wire.Chat…
	why   string      // it failed
}

// begin begins to answer a question. Again says that it was asked before.
func (r *runs) begin(g *Gateway, q *question) (_ *run, again bool, _ *wire.Error) {
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
		return was, true, nil
	}
	if p.active >= maxActive {
		r.mu.Unlock()
		return nil, false, busy
	}
	n := &run{g: g, id: q.id, question: q, began: now, done: make(chan struct{}), after: p.last[q.session.key]}
	n.ctx, n.cancel = context.WithCancelCause(g.ctx)
	before := n.after
	if before != nil && q.mode == wire.QueueInterrupt {
		n.interrupted, n.after = true, nil
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
		r.over(n)
		return nil, false, stopping
	}
	return n, false, nil
}

// sweep forgets runs that are over: old ones, and those that are too many.
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

// over says that a run has ended.
func (r *runs) over(n *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.people[n.question.owner]
	p.active--
	if p.last[n.question.session.key] == n {
		delete(p.last, n.question.session.key)
	}
	close(n.done)
}

// running are the runs of a conversation that are not over, the oldest first.
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
	return slices.DeleteFunc(out, (*run).told)
}

// told says whether it was told how the answer ended, a moment before everything about
// the run is over: who has heard that may ask at once.
func (n *run) told() bool {
	select {
	case <-n.done:
		return true
	default:
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state != ""
}

// find finds a run; nil if there is none.
func (r *runs) find(owner, id string) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.people[owner]; p != nil {
		return p.byID[id]
	}
	return nil
}

// answer has the bot answer, and tells what it says.
func (n *run) answer() {
	defer n.g.runs.over(n)
	defer n.cancel(nil)
	if n.after != nil {
		select {
		case <-n.after.done:
			n.after = nil
		case <-n.ctx.Done():
		}
	}
	ctx := n.ctx
	if n.question.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, n.question.limit)
		defer cancel()
	}
	n.tell(&wire.ChatEvent{State: wire.ChatStatus, Phase: "starting_model"})
	n.agent(wire.StreamLifecycle, map[string]any{"phase": "start", "startedAt": time.Now().UnixMilli()})
	err := ctx.Err()
	if err == nil {
		err = n.g.Hub.Answer(ctx, n.question.turn(), func(e talk.Event) error {
			if e.Kind == talk.KindText {
				return n.say(e.Text)
			}
			return nil
		})
	}
	n.finish(ctx, err)
}

// say takes a piece of the answer. Pieces that come shortly after one another are told
// together.
func (n *run) say(text string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != "" {
		return talk.ErrHungUp
	}
	if len(n.text)+len(text) > maxAnswer {
		return talk.ErrHungUp
	}
	n.text += text
	switch wait := n.g.Timings.Delta - time.Since(n.at); {
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

// flush tells what was not told yet. With mu held.
func (n *run) flush() {
	if n.state != "" || n.sent == len(n.text) {
		return
	}
	delta := n.text[n.sent:]
	n.sent, n.at = len(n.text), time.Now()
	n.agentLocked(wire.StreamAssistant, map[string]any{"text": n.text, "delta": delta})
	n.tellLocked(&wire.ChatEvent{State: wire.ChatDelta, Delta: delta, Message: n.message()})
}

// message is the answer so far; nil if there is none. With mu held.
func (n *run) message() []byte {
	if n.text == "" {
		return nil
	}
	return encoded(said("assistant", n.text, time.Now()))
}

// finish tells how the answer ended.
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
		n.agentLocked(wire.StreamLifecycle, map[string]any{"phase": "end", "aborted": false, "endedAt": time.Now().UnixMilli()})
		n.end(&wire.ChatEvent{State: wire.ChatFinal, StopReason: "stop", Message: n.message()})
	case n.g.ctx.Err() != nil:
		n.end(&wire.ChatEvent{State: wire.ChatAborted, StopReason: "aborted", Message: n.message()})
	default:
		kind, lang := "unknown", talk.ParseLang(n.question.lang, talk.English)
		failure := talk.AsFailure(err)
		switch {
		case ctx.Err() != nil || failure.Code == talk.TimedOut:
			kind, failure = "timeout", talk.Fail(talk.TimedOut, "", err)
		case failure.Code == talk.Busy:
			kind = "rate_limit"
		case len(n.text) >= maxAnswer-keptAnswer:
			failure = talk.Fail(talk.BotFailed, "", err)
		}
		n.why = failure.Sentence(lang)
		n.agentLocked(wire.StreamLifecycle, map[string]any{"phase": "error", "error": n.why, "endedAt": time.Now().UnixMilli()})
		n.end(&wire.ChatEvent{State: wire.ChatError, ErrorMessage: n.why, ErrorKind: kind})
	}
	n.g.metrics.runs.WithLabelValues(n.state).Inc()
}

// end tells the last event. With mu held.
func (n *run) end(e *wire.ChatEvent) {
	n.tellLocked(e)
	n.state = e.State
	if len(n.text) > keptAnswer {
		n.text = n.text[:keptAnswer]
	}
}

// abort stops the answer; false: it is over already. Whoever listens has been told
// when abort returns.
func (n *run) abort(why string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != "" {
		return false
	}
	n.agentLocked(wire.StreamLifecycle, map[string]any{"phase": "end", "aborted": true, "endedAt": time.Now().UnixMilli()})
	n.end(&wire.ChatEvent{State: wire.ChatAborted, StopReason: why, Message: n.message()})
	n.cancel(talk.ErrHungUp)
	return true
}

// tell tells a step of the answer to everybody who hears the conversation.
func (n *run) tell(e *wire.ChatEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == "" {
		n.tellLocked(e)
	}
}

func (n *run) tellLocked(e *wire.ChatEvent) {
	n.seq++
	s := &n.question.session
	e.RunID, e.SessionKey, e.AgentID, e.Seq = n.id, s.key, s.agent, n.seq
	n.g.tell(told{Owner: n.question.owner, Scope: wire.ScopeRead, Session: s.key, Event: wire.EventChat, Payload: encoded(e)})
}

// agent tells what goes on, in more detail.
func (n *run) agent(stream string, data any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == "" {
		n.agentLocked(stream, data)
	}
}

func (n *run) agentLocked(stream string, data any) {
	n.seq++
	s := &n.question.session
	n.g.tell(told{Owner: n.question.owner, Scope: wire.ScopeRead, Session: s.key, Event: wire.EventAgent, Payload: encoded(wire.AgentEvent{
		RunID: n.id, Stream: stream, Data: encoded(data), SessionKey: s.key, AgentID: s.agent, Seq: n.seq, TS: time.Now().UnixMilli(),
	})})
}

// status is how far a run is, for whoever asks again.
func (n *run) status(first string, again bool) string {
	switch {
	case !again:
		return first
	case n.told():
		return "ok"
	}
	return "in_flight"
}

// inFlight is what a run has said so far.
func (n *run) inFlight() any {
	n.mu.Lock()
	defer n.mu.Unlock()
	return map[string]any{"runId": n.id, "text": n.text, "startedAt": n.began.UnixMilli()}
}

// outcome is how a run ended, and with what words.
func (n *run) outcome() (text, status string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == wire.ChatError {
		return n.why, "error"
	}
	return n.text, "ok"
}

// result is the last answer to agent.
func (n *run) result() any {
	text, status := n.outcome()
	summary := "completed"
	payloads := []map[string]any{}
	if status == "error" {
		summary = text
	} else if text != "" {
		payloads = append(payloads, map[string]any{"text": text, "mediaUrl": nil})
	}
	return map[string]any{"runId": n.id, "status": status, "summary": summary, "result": map[string]any{"payloads": payloads, "meta": map[string]any{"durationMs": time.Since(n.began).Milliseconds()}}}
}
