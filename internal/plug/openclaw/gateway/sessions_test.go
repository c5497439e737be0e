package gateway_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// sessions is the response of sessions.list, with the members used here.
type sessions struct {
	Count, TotalCount int
	Sessions          []struct {
		Key, SessionID, Label, DerivedTitle, LastMessagePreview, Status string
		Pinned, Archived                                                bool
		DeliveryContext                                                 struct{ Channel, To string }
	}
}

func (o *operator) list(params m) sessions {
	o.t.Helper()
	return call[sessions](o, wire.MethodSessionsList, params)
}

// echoes adds a bot that repeats what it is asked, and waits for "wait" until it is stopped.
func (r *rig) echoes(asked chan<- *talk.Turn) (id string) {
	bot := r.AddScript(r.t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		if asked != nil {
			asked <- turn
		}
		if turn.Text() == "wait" {
			<-ctx.Done()
			return ctx.Err()
		}
		return emit(talk.Text("you said " + turn.Text()))
	})
	return strconv.FormatInt(bot.Number, 10)
}

// ask sends a message and waits for the answer.
func (o *operator) ask(session, text, run string) {
	o.t.Helper()
	call[wire.Run](o, wire.MethodChatSend, m{"sessionKey": session, "message": text, "idempotencyKey": run})
	o.said(run, wire.ChatFinal)
}

// Conversations are listed, named, pinned and archived; they begin anew, and are deleted. A second
// program of the same person hears of all that, and another person of nothing.
func TestSessions(t *testing.T) {
	r := newRig(t, nil)
	asked := make(chan *talk.Turn, 10)
	bot := r.echoes(asked)
	op, second := r.operator(r.token), r.operator(r.token)
	stranger, err := r.Accounts.AddPerson(t.Context(), "eve", account.RoleMember, "en", "")
	must(t, err)
	eve := r.operator(r.Key(t, account.NewKey{Person: stranger.ID, Scopes: []string{account.ScopeOperator}}))
	for _, o := range []*operator{second, eve} {
		if got := call[m](o, wire.MethodSessionsSubscribe, m{}); got["subscribed"] != true || got["list"] != nil {
			t.Errorf("sessions.subscribe: %v", got)
		}
	}
	key := "agent:" + bot + ":kitchen"
	op.ask("agent:main:kitchen", "what is for dinner?", "1")
	for _, want := range [][2]string{{"user", "what is for dinner?"}, {"assistant", "you said what is for dinner?"}} {
		second.await(wire.EventSessionMessage, func(p json.RawMessage) bool {
			e := decoded[struct {
				SessionKey string
				Message    struct {
					Role    string
					Content json.RawMessage
				}
			}](t, p)
			return e.SessionKey == key && e.Message.Role == want[0] && wire.ContentText(e.Message.Content) == want[1]
		})
	}
	list := op.list(m{"includeDerivedTitles": true})
	if list.Count != 1 || list.Sessions[0].Key != key || list.Sessions[0].DerivedTitle != "what is for dinner?" ||
		list.Sessions[0].LastMessagePreview != "you said what is for dinner?" || list.Sessions[0].Status != "done" ||
		list.Sessions[0].DeliveryContext.To != key {
		t.Errorf("%+v", list)
	}
	if got := eve.list(m{}); got.Count != 0 {
		t.Errorf("eve sees %+v", got)
	}

	patched := call[m](op, wire.MethodSessionPatch, m{"key": key, "label": "Dinner", "pinned": true})
	if entry := patched["entry"].(m); entry["label"] != "Dinner" || entry["pinned"] != true {
		t.Errorf("sessions.patch: %v", patched)
	}
	second.await(wire.EventSessionsChanged, func(p json.RawMessage) bool {
		return decoded[m](t, p)["reason"] == "patch"
	})
	if got := call[m](op, wire.MethodSessionResolve, m{"label": "Dinner"}); got["key"] != key {
		t.Errorf("sessions.resolve: %v", got)
	}
	if e := op.refused(wire.MethodSessionPatch, m{"key": key, "model": "gpt"}); e.Code != wire.InvalidRequest {
		t.Errorf("a model is set: %v", e)
	}
	made := call[m](op, wire.MethodSessionCreate, m{"key": "garden", "agentId": bot, "message": "is it dry?"})
	if made["key"] != "agent:"+bot+":garden" || made["runStarted"] != true {
		t.Errorf("sessions.create: %v", made)
	}
	op.said(made["runId"].(string), wire.ChatFinal)
	if list = op.list(m{"search": "DRY"}); list.Count != 1 || list.Sessions[0].Key != made["key"] {
		t.Errorf("a search finds %+v", list)
	}
	if list = op.list(m{"limit": 1}); list.Count != 1 || list.TotalCount != 2 || list.Sessions[0].Key != key {
		t.Errorf("the first of the list is not pinned: %+v", list)
	}

	// A reset: the bot gets nothing of what was said before.
	drain(asked)
	was := op.list(m{}).Sessions[0].SessionID
	call[m](op, wire.MethodSessionReset, m{"key": key, "reason": "new", "expectedSessionId": was})
	if e := op.refused(wire.MethodSessionReset, m{"key": key, "expectedSessionId": was}); !strings.Contains(string(e.Details),
		"session-changed") {
		t.Errorf("a session that has changed is reset: %v", e)
	}
	if got := call[history](op, wire.MethodChatHistory, m{"sessionKey": key}); len(got.Messages) != 0 {
		t.Errorf("after a reset there is %+v", got)
	}
	op.ask(key, "and tomorrow?", "2")
	if turn := <-asked; len(turn.History) != 0 {
		t.Errorf("after a reset the bot gets %+v", turn.History)
	}

	// What is said unasked is heard, and is part of the conversation.
	for range 2 { // the second is the same message
		call[m](op, wire.MethodSend, m{"to": key, "channel": "openclaw", "message": "Dinner is ready.",
			"idempotencyKey": "said"})
	}
	op.ask(key, "thanks", "3")
	if turn := <-asked; len(turn.History) != 3 || turn.History[2] != (talk.Message{Role: talk.RoleBot,
		Text: "Dinner is ready."}) {
		t.Errorf("the bot gets %+v", turn.History)
	}
	if got := call[struct{ Messages []m }](second, wire.MethodSessionGet, m{"key": key}); len(got.Messages) != 5 {
		t.Errorf("sessions.get: %+v", got)
	}

	if got := call[m](op, wire.MethodSessionDelete, m{"key": key}); got["deleted"] != true {
		t.Errorf("sessions.delete: %v", got)
	}
	second.await(wire.EventSessionsChanged, func(p json.RawMessage) bool {
		return decoded[m](t, p)["reason"] == "delete"
	})
	if got := call[m](op, wire.MethodSessionDescribe, m{"key": key}); got["session"] != nil {
		t.Errorf("a deleted session is there: %v", got)
	}
	if list = op.list(m{}); list.Count != 1 {
		t.Errorf("after all that there is %+v", list)
	}
	// What was said before the reset does not come back with the key.
	drain(asked)
	op.ask(key, "anything left?", "4")
	if turn := <-asked; len(turn.History) != 0 {
		t.Errorf("after a reset and a deletion the bot gets %+v", turn.History)
	}
	eve.quiet()
}

// What is said in a conversation that nobody has begun is known to the bot at the first question.
func TestSaidFirst(t *testing.T) {
	r := newRig(t, nil)
	asked := make(chan *talk.Turn, 10)
	r.echoes(asked)
	op := r.operator(r.token)
	call[m](op, wire.MethodSend, m{"sessionKey": "new", "message": "Dinner is ready.", "idempotencyKey": "s"})
	op.ask("new", "thanks", "1")
	if turn := <-asked; len(turn.History) != 2 || turn.History[0].Role != talk.RolePerson ||
		turn.History[1].Text != "Dinner is ready." {
		t.Errorf("the bot gets %+v", turn.History)
	}
}

// Lists have pages. Labels are texts that people can read.
func TestManySessions(t *testing.T) {
	r := newRig(t, nil)
	r.echoes(nil)
	op := r.operator(r.token)
	for i := range 12 {
		call[m](op, wire.MethodSessionCreate, m{"key": "s" + strconv.Itoa(i), "label": "L" + strconv.Itoa(i/2)})
	}
	seen := map[string]bool{}
	for offset := 0; offset < 12; offset += 5 {
		list := op.list(m{"limit": 5, "offset": offset})
		if list.TotalCount != 12 || list.Count != min(5, 12-offset) {
			t.Errorf("from %d there are %+v", offset, list)
		}
		for _, x := range list.Sessions {
			seen[x.Key] = true
		}
	}
	if len(seen) != 12 {
		t.Errorf("the pages have %v", seen)
	}
	if got := op.list(m{"label": "L3"}); got.Count != 2 {
		t.Errorf("by label: %+v", got)
	}
	op.refused(wire.MethodSessionResolve, m{"label": "L3"}) // two have it
	for _, bad := range []any{5, "a\u202eb", "a\x00b", strings.Repeat("x", 600)} {
		op.refused(wire.MethodSessionPatch, m{"key": "s1", "label": bad})
	}
	op.refused(wire.MethodSessionCreate, m{"key": "a\nb"})
}

// quiet fails if the operator was sent anything about a conversation.
func (o *operator) quiet() {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.events {
		switch f.Event {
		case wire.EventChat, wire.EventAgent, wire.EventSessionMessage, wire.EventSessionsChanged:
			o.t.Errorf("somebody else hears %s %s", f.Event, f.Payload)
		}
	}
}

func drain(asked chan *talk.Turn) {
	for {
		select {
		case <-asked:
		default:
			return
		}
	}
}

// A key for one bot neither lists nor hears conversations with others.
func TestSessionsOfOneBot(t *testing.T) {
	r := newRig(t, nil)
	first, other := r.echoes(nil), r.echoes(nil)
	number, err := strconv.ParseInt(other, 10, 64)
	must(t, err)
	op := r.operator(r.token)
	bound := r.operator(r.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}, Bot: number}),
		wire.ScopeRead, wire.ScopeWrite)
	call[m](bound, wire.MethodSessionsSubscribe, m{})
	op.ask("agent:"+first+":secret", "for the first only", "1")
	bound.quiet()
	if got := bound.list(m{}); got.Count != 0 {
		t.Errorf("a key for another bot sees %+v", got)
	}
	for _, method := range []string{wire.MethodSessionDescribe, wire.MethodSessionGet, wire.MethodSessionReset,
		wire.MethodSessionDelete} {
		bound.refused(method, m{"key": "agent:" + first + ":secret"})
	}
	bound.refused(wire.MethodSend, m{"to": "agent:" + first + ":secret", "message": "x"})
	if got := call[m](bound, wire.MethodAgentWait, m{"runId": "1", "timeoutMs": 1}); got["status"] != "timeout" {
		t.Errorf("a key for another bot reads %v", got)
	}
	bound.refused(wire.MethodChatSend, m{"sessionKey": "x", "message": "hi", "idempotencyKey": "1"}) // it is taken
	bound.refused("notices.subscribe", m{})
	op.ask("agent:"+other+":open", "for the second", "2")
	bound.await(wire.EventSessionMessage, nil)
	if got := bound.list(m{}); got.Count != 1 || got.Sessions[0].DerivedTitle != "for the second" {
		t.Errorf("a key for the bot sees %+v", got)
	}
}

// A run that was stopped says so, everywhere.
func TestAbortedRuns(t *testing.T) {
	r := newRig(t, nil)
	r.echoes(nil)
	op := r.operator(r.token)
	for run, stop := range map[string]func(run string){
		"chat.abort": func(run string) {
			call[m](op, wire.MethodChatAbort, m{"sessionKey": "s", "runId": run})
		},
		"sessions.abort": func(run string) {
			if got := call[m](op, wire.MethodSessionAbort, m{"runId": run}); got["abortedRunId"] != run {
				t.Errorf("sessions.abort: %v", got)
			}
		},
		"interrupt": func(string) {
			call[wire.Run](op, wire.MethodChatSend, m{"sessionKey": "s", "message": "go on", "queueMode": "interrupt",
				"idempotencyKey": "next"})
			op.said("next", wire.ChatFinal)
		},
	} {
		answers, cancel, err := op.StartRequest(op.ctx, wire.MethodAgent, encode(t, m{"message": "wait",
			"idempotencyKey": run, "sessionKey": "s"}))
		must(t, err)
		_, err = op.AwaitAnswer(op.ctx, answers)
		must(t, err)
		stop(run)
		last, err := op.AwaitAnswer(op.ctx, answers)
		must(t, err)
		if got := decoded[wire.Run](t, last); got.Status != "aborted" {
			t.Errorf("%s: the run ends as %+v", run, got)
		}
		if got := call[m](op, wire.MethodAgentWait, m{"runId": run}); got["status"] != "aborted" {
			t.Errorf("%s: agent.wait says %v", run, got)
		}
		cancel()
	}
}
