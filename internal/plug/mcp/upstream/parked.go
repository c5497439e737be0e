package upstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"patchbay/internal/tool"
)

const (
	// maxParked limits the calls of one upstream whose callers have been asked something, and
	// maxParkedPerCaller those of one caller.
	maxParked, maxParkedPerCaller = 256, 16
	// parkedPrefix marks the state of a parked call. What follows is a random number.
	parkedPrefix = "parked."
	// askedName is the name of a parked call's only request.
	askedName = "request"
)

// parked is a call that waits for its caller to answer a request of the server. Servers of the
// revisions with sessions ask while a call runs; the caller gets the question as an intermediate
// result, as in the revision without sessions, and repeats the call with the answer.
type parked struct {
	call    *inFlight
	request *serverRequest
	caller  string
	timer   *time.Timer
}

// callerID identifies who may continue a call.
func callerID(c *tool.Caller) string {
	return strings.Join([]string{c.Person, c.Actor, c.Key, c.Turn}, "\x00")
}

// park keeps a call until its caller has answered, or the time for that is over. It returns nil if
// too many are kept.
func (u *upstream) park(f *inFlight, q *serverRequest, caller string) *tool.InputRequired {
	var raw [16]byte
	rand.Read(raw[:])
	state := parkedPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
	u.mu.Lock()
	defer u.mu.Unlock()
	same := 0
	for _, p := range u.parked {
		if p.caller == caller {
			same++
		}
	}
	if len(u.parked) >= maxParked || same >= maxParkedPerCaller {
		return nil
	}
	p := &parked{call: f, request: q, caller: caller}
	p.timer = time.AfterFunc(u.times.answerTimeout, func() {
		if u.takeParked(state, caller) != nil {
			f.s.queueReply(q.refusal())
			f.abandon(errAbandoned)
		}
	})
	u.parked[state] = p
	return &tool.InputRequired{State: state, Refusable: true,
		Requests: map[string]tool.Request{askedName: {Method: q.method, Params: q.params}}}
}

// takeParked returns a parked call of the caller, which is no longer parked; nil if there is none.
func (u *upstream) takeParked(state, caller string) *parked {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.parked[state]
	if p == nil || p.caller != caller {
		return nil
	}
	delete(u.parked, state)
	p.timer.Stop()
	return p
}

// dropParked ends the parked calls of a session that is about to be closed. The server gets an
// answer, since some wait for it without end.
func (u *upstream) dropParked(s *session) {
	u.mu.Lock()
	var dropped []*parked
	for state, p := range u.parked {
		if p.call.s == s {
			dropped = append(dropped, p)
			p.timer.Stop()
			delete(u.parked, state)
		}
	}
	u.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, endSessionTimeout)
	defer cancel()
	for _, p := range dropped {
		if !s.isDone() {
			_ = s.wire.send(ctx, p.request.refusal())
		}
		p.call.abandon(errAbandoned)
	}
}

// resume passes the answer of the caller to the server, and the call goes on. Without an answer,
// the caller is asked again (2026-07-28 basic/patterns/mrtr).
func (u *upstream) resume(ctx context.Context, c *tool.Call) (*inFlight, *tool.InputRequired, error) {
	p := u.takeParked(c.State, callerID(&c.Caller))
	if p == nil {
		return nil, nil, tool.Fail(tool.Failed, "The answer came too late; call the tool again.", nil)
	}
	var reply *outgoing
	if c.Abandoned {
		reply = p.request.refusal()
	} else if answer, refusal := c.Answers[askedName], c.Refusals[askedName]; isObject(answer) {
		reply = response(p.request.id, answer, nil)
	} else if isObject(refusal) {
		reply = response(p.request.id, nil, refusal)
	} else if need := u.park(p.call, p.request, p.caller); need != nil {
		return nil, need, nil
	}
	if reply == nil {
		reply = p.request.refusal()
	}
	limited, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	if err := p.call.s.wire.send(limited, reply); err != nil {
		p.call.abandon(cmp.Or(ctx.Err(), errAbandoned))
		return nil, nil, err
	}
	if c.Abandoned {
		p.call.abandon(errAbandoned)
		return nil, nil, tool.Fail(tool.Cancelled, "The call was cancelled.", nil)
	}
	return p.call, nil, nil
}

func isParkedState(state string) bool { return strings.HasPrefix(state, parkedPrefix) }

// passing are what passes besides tools.
type passing map[string]bool

// allPassing are the values of [Settings.Pass].
var allPassing = []string{"resources", "prompts", "sampling", "elicitation", "roots", "logging"}

// clientCapabilities are declared to a server with sessions, before it is known who will call:
// callers that cannot be asked refuse (2025-11-25 schema, ClientCapabilities).
func (s *session) clientCapabilities() map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for kind, value := range map[string]string{
		"elicitation": `{"form":{},"url":{}}`, "sampling": `{"tools":{},"context":{}}`, "roots": `{}`,
	} {
		if s.passes[kind] {
			out[kind] = json.RawMessage(value)
		}
	}
	return out
}
