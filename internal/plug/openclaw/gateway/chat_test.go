package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// said waits for a chat event of a run with a given state.
func (o *operator) said(run, state string) wire.ChatEvent {
	o.t.Helper()
	p := o.await(wire.EventChat, func(p json.RawMessage) bool {
		e, err := wire.ParseChat(p)
		return err == nil && (run == "" || e.RunID == run) && e.State == state
	})
	e, err := wire.ParseChat(p)
	must(o.t, err)
	return e
}

// A conversation with the first bot: deltas, the final event, the history, and a repeated message.
// history is the response to chat.history, with the members used here.
type history struct {
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	InFlight *struct{ RunID, Text string } `json:"inFlightRun"`
}

func TestChat(t *testing.T) {
	r := newRig(t, nil)
	let := make(chan struct{})
	asked := make(chan *talk.Turn, 10)
	bot := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		asked <- turn
		if err := emit(talk.Text("Hello")); err != nil {
			return err
		}
		<-let
		return emit(talk.Text(" there."))
	})
	op, scoped := r.operator(r.token), sim.Operator(r.token, wire.ScopeRead)
	scoped.Caps = []string{wire.CapSessionScoped}
	quiet, err := r.dial(scoped, nil)
	must(t, err)
	call[m](quiet, wire.MethodSubscribe, m{"key": "agent:main:other"})
	heard, err := r.dial(scoped, nil)
	must(t, err)
	if got := call[m](heard, wire.MethodSubscribe, m{"key": "dev9"}); got["key"] != "agent:main:dev9" ||
		got["subscribed"] != true {
		t.Errorf("%v", got)
	}
	send := m{"sessionKey": "dev9", "message": "hi", "idempotencyKey": "run-1"}
	if got := call[wire.Run](op, wire.MethodChatSend, send); got.RunID != "run-1" || got.Status != "started" {
		t.Errorf("%+v", got)
	}
	turn := <-asked
	if turn.Bot != bot.Number || turn.Channel != "openclaw" || turn.Text() != "hi" || !strings.HasPrefix(turn.Conversation, "dev9#") ||
		turn.Person != "openclaw:"+r.Person.ID {
		t.Errorf("%+v", turn)
	}
	first := op.said("run-1", wire.ChatDelta)
	if first.Delta != "Hello" || first.Text() != "Hello" || first.SessionKey != "agent:main:dev9" ||
		first.AgentID != "main" {
		t.Errorf("%+v", first)
	}
	if got := call[wire.Run](op, wire.MethodChatSend, send); got.Status != "in_flight" {
		t.Errorf("%+v", got)
	}
	if h := call[history](op, wire.MethodChatHistory, m{"sessionKey": "agent:main:dev9"}); h.InFlight == nil ||
		h.InFlight.RunID != "run-1" || h.InFlight.Text != "Hello" {
		t.Errorf("%+v", h)
	}
	close(let)
	if e := op.said("run-1", wire.ChatDelta); e.Delta != " there." || e.Text() != "Hello there." {
		t.Errorf("%+v", e)
	}
	final := op.said("run-1", wire.ChatFinal)
	if final.StopReason != "stop" || final.Text() != "Hello there." || final.Seq <= first.Seq {
		t.Errorf("%+v", final)
	}
	heard.said("run-1", wire.ChatFinal)
	heard.mu.Lock()
	for _, f := range heard.events {
		if f.Event == wire.EventChat && f.Seq != 0 {
			t.Errorf("an event that was subscribed to has number %d", f.Seq)
		}
	}
	heard.mu.Unlock()
	if got := call[wire.Run](op, wire.MethodChatSend, send); got.Status != "ok" {
		t.Errorf("%+v", got)
	}
	h := call[history](op, wire.MethodChatHistory, m{"sessionKey": "agent:main:dev9"})
	if len(h.Messages) != 2 || h.Messages[0].Role != "user" || wire.ContentText(h.Messages[0].Content) != "hi" ||
		wire.ContentText(h.Messages[1].Content) != "Hello there." || h.InFlight != nil {
		t.Errorf("%+v", h)
	}
	if len(asked) != 0 {
		t.Error("the question was put twice")
	}
	call[m](quiet, wire.MethodHealth, m{})
	quiet.mu.Lock()
	for _, f := range quiet.events {
		if f.Event == wire.EventChat {
			t.Errorf("it hears %s", f.Payload)
		}
	}
	quiet.mu.Unlock()
	_, key := r.person("bob", account.ScopeOperator)
	bob := r.operator(key)
	if e := bob.refused(wire.MethodChatSend, send); e.Message != `Agent "main" no longer exists in configuration` {
		t.Error(e)
	}
	send["sessionKey"] = "agent:" + strconv.FormatInt(bot.Number, 10) + ":x"
	if e := bob.refused(wire.MethodChatSend, send); e.Code != wire.InvalidRequest {
		t.Error(e)
	}
}

// Answers fail, are aborted, or are interrupted.
func TestChatEnds(t *testing.T) {
	r := newRig(t, nil)
	began := make(chan string, 10)
	r.AddScript(t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		began <- turn.Text()
		switch turn.Text() {
		case "fail":
			return talk.Fail(talk.BotFailed, "I am tired", errors.New("tired"))
		case "wait":
			if err := emit(talk.Text("so ")); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
		return emit(talk.Text("quick"))
	})
	op := r.operator(r.token)
	send := func(id, text, mode string) wire.Run {
		p := m{"sessionKey": "agent:main:s", "message": text, "idempotencyKey": id}
		if mode != "" {
			p["queueMode"] = mode
		}
		return call[wire.Run](op, wire.MethodChatSend, p)
	}
	send("1", "fail", "")
	if e := op.said("1", wire.ChatError); e.ErrorMessage == "" || e.ErrorKind != "unknown" {
		t.Errorf("%+v", e)
	}
	send("2", "wait", "")
	op.said("2", wire.ChatDelta)
	send("3", "quick", wire.QueueFollowup) // waits for the first one
	if got := call[wire.AbortResult](op, wire.MethodChatAbort,
		m{"sessionKey": "agent:main:s", "runId": "2"}); !got.Aborted || got.RunIDs[0] != "2" {
		t.Errorf("%+v", got)
	}
	if e := op.said("2", wire.ChatAborted); e.StopReason != "rpc" || e.Text() != "so " {
		t.Errorf("%+v", e)
	}
	if e := op.said("3", wire.ChatFinal); e.Text() != "quick" {
		t.Errorf("%+v", e)
	}
	send("4", "wait", "")
	op.said("4", wire.ChatDelta)
	if got := send("5", "quick", wire.QueueInterrupt); !got.Interrupted {
		t.Errorf("%+v", got)
	}
	op.said("4", wire.ChatAborted)
	op.said("5", wire.ChatFinal)
	if got := call[wire.AbortResult](op, wire.MethodChatAbort, m{"sessionKey": "agent:main:s"}); got.Aborted ||
		!got.OK {
		t.Errorf("%+v", got)
	}
	p := m{"sessionKey": "agent:main:s", "message": "wait", "idempotencyKey": "6", "timeoutMs": 50}
	call[wire.Run](op, wire.MethodChatSend, p)
	if e := op.said("6", wire.ChatError); e.ErrorKind != "timeout" {
		t.Errorf("%+v", e)
	}
	if e := op.refused(wire.MethodChatSend, m{"sessionKey": "s", "message": " ",
		"idempotencyKey": "7"}); e.Message != "message or attachment required" {
		t.Error(e)
	}
}

// The method agent has two responses.
func TestAgent(t *testing.T) {
	r := newRig(t, nil)
	bot := r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		return emit(talk.Text("I am " + turn.Text()))
	})
	op := r.operator(r.token)
	answers, stop, err := op.StartRequest(op.ctx, wire.MethodAgent,
		encode(t, m{"message": "fine", "idempotencyKey": "a"}))
	must(t, err)
	defer stop()
	first, err := op.AwaitAnswer(op.ctx, answers)
	must(t, err)
	if got := decoded[wire.Run](t, first); got.Status != "accepted" || got.RunID != "a" || got.AcceptedAt == 0 {
		t.Errorf("%+v", got)
	}
	second, err := op.AwaitAnswer(op.ctx, answers)
	must(t, err)
	if got := decoded[wire.Run](t, second); got.Status != "ok" || got.Summary != "completed" ||
		got.Result.Payloads[0].Text != "I am fine" {
		t.Errorf("%+v", got)
	}
	if got := call[m](op, wire.MethodAgentWait, m{"runId": "a"}); got["status"] != "ok" ||
		got["terminalReply"].(m)["text"] != "I am fine" {
		t.Errorf("%v", got)
	}
	if got := call[m](op, wire.MethodAgentWait, m{"runId": "b", "timeoutMs": 1}); got["status"] != "timeout" {
		t.Errorf("%v", got)
	}
	list := call[m](op, wire.MethodAgentsList, m{})
	agents, id := list["agents"].([]any), strconv.FormatInt(bot.Number, 10)
	if len(agents) != 1 || agents[0].(m)["id"] != id || list["defaultId"] != id {
		t.Errorf("%v", list)
	}
}

// A node sends a transcript, and receives the answer.
func TestVoice(t *testing.T) {
	r := newRig(t, nil)
	turns := make(chan string, 10)
	r.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		turns <- turn.Text()
		return emit(talk.Text("answer to " + turn.Text()))
	})
	heard := make(chan wire.ChatEvent, 100)
	n := r.node(sim.Options{OnEvent: func(f wire.Frame) {
		if e, err := wire.ParseChat(f.Payload); f.Event == wire.EventChat && err == nil && e.IsLast() && f.Seq == 0 {
			heard <- e
		}
	}}, true)
	tell := func(event string, payload any) m {
		p, err := n.SendEvent(t.Context(), event, payload)
		must(t, err)
		return decoded[m](t, p)
	}
	tell(wire.NodeSubscribe, m{"sessionKey": "agent:main:xz"})
	for range 2 {
		tell(wire.NodeTranscript, m{"text": "hi", "sessionKey": "agent:main:xz", "eventId": "e1"})
	}
	if e := <-heard; e.State != wire.ChatFinal || e.Text() != "answer to hi" || e.SessionKey != "agent:main:xz" {
		t.Errorf("%+v", e)
	}
	tell(wire.NodeAgentRequest, m{"message": "more", "sessionKey": "agent:main:xz"})
	if e := <-heard; e.Text() != "answer to more" {
		t.Errorf("%+v", e)
	}
	if got := strings.Join([]string{<-turns, <-turns}, " "); got != "hi more" || len(turns) != 0 {
		t.Errorf("the bot heard %s", got)
	}
	if got := tell("kitchen.fire", m{}); got["handled"] != false || got["reason"] != "unsupported_event" {
		t.Errorf("%v", got)
	}
	for _, bad := range []m{{}, {"jsonrpc": "2.0", "id": 1, "method": "x"}} {
		if got := tell(wire.NodeMCPNotification, bad); got["handled"] != false || got["reason"] != "invalid_payload" {
			t.Errorf("%v", got)
		}
	}
	// What an MCP server behind a foreign node tells reaches operators.
	op := r.operator(r.token)
	call[m](op, "notices.subscribe", m{})
	if got := tell(wire.NodeMCPNotification, m{"jsonrpc": "2.0", "method": "notifications/button",
		"params": m{"pressed": true}}); got["handled"] != true {
		t.Errorf("%v", got)
	}
	heardOf := decoded[m](t, op.await(gateway.EventNotification, nil))
	if heardOf["nodeId"] != n.ID() || heardOf["method"] != "notifications/button" ||
		heardOf["params"].(m)["pressed"] != true {
		t.Errorf("an operator hears %v", heardOf)
	}
	told, stop := r.Hub.SubscribeNotices(r.Person.ID)
	defer stop()
	tell(wire.NodeNotifications, m{"change": "posted", "key": "k", "title": "Post"})
	select {
	case got := <-told:
		if got.Method != wire.NodeNotifications || got.Kind != "node" || !strings.Contains(string(got.Params), "Post") {
			t.Errorf("%+v", got)
		}
	case <-time.After(testTimeout):
		t.Error("nobody was told")
	}
}
