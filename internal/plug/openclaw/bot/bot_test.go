package bot

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var storeBot = store.Bot{Number: 1}

// house is a bot at a gateway that the test plays.
type house struct {
	t    *testing.T
	gate *clienttest.Gateway
	bots *Bots
	bot  *Bot
}

func newHouse(t *testing.T, g clienttest.Options, o Options, change func(*Settings)) *house {
	t.Helper()
	h := &house{t: t, gate: clienttest.Start(t, g), bots: New(o)}
	t.Cleanup(h.bots.Close)
	s := Settings{URL: h.gate.URL, Token: clienttest.Token}
	if change != nil {
		change(&s)
	}
	var err error
	if h.bot, err = h.bots.Build(storeBot, s); err != nil {
		t.Fatal(err)
	}
	return h
}

// conversation is an answer that the test gives.
type conversation struct {
	*asked
	t    *testing.T
	peer *clienttest.Peer
	sent wire.ChatSend
}

// ask puts a turn to the bot, and takes its message.
func (h *house) ask(turn *talk.Turn) *conversation {
	h.t.Helper()
	c := &conversation{asked: begin(h.t, h.bot, turn), t: h.t, peer: h.gate.Peer()}
	c.subscribed()
	c.accept()
	return c
}

func (c *conversation) subscribed() {
	c.t.Helper()
	r := c.peer.Next(wire.MethodSubscribe)
	c.peer.Answer(r, json.RawMessage(`{"subscribed":true}`))
}

func (c *conversation) accept() {
	c.t.Helper()
	r := c.peer.Next(wire.MethodChatSend)
	if e := wire.ShapeChatSend.Invalid(r.Params); e != nil {
		c.t.Error(e)
	}
	c.sent = clienttest.Params[wire.ChatSend](c.t, r)
	c.peer.Answer(r, wire.Run{RunID: c.sent.IdempotencyKey, Status: "started"})
}

func (c *conversation) tell(e wire.ChatEvent) {
	e.RunID, e.SessionKey = c.sent.IdempotencyKey, c.sent.SessionKey
	c.peer.Tell(wire.EventChat, e)
}

func (c *conversation) delta(text, all string) {
	c.tell(*chatDelta(text, all, false))
}

func (c *conversation) final(text string) {
	e := wire.ChatEvent{State: wire.ChatFinal, StopReason: "stop"}
	if text != "" {
		e.Message = content(text)
	}
	c.tell(e)
}

func (c *conversation) failure() *talk.Failure {
	c.t.Helper()
	err := c.end()
	f, ok := errors.AsType[*talk.Failure](err)
	if !ok {
		c.t.Fatalf("it ended with %v and %q", err, c.text())
	}
	return f
}

func TestAnswer(t *testing.T) {
	h := newHouse(t, clienttest.Options{}, Options{}, func(s *Settings) { s.Thinking, s.Agent, s.SessionPrefix = "low", "Cook", "kitchen" })
	turn := said("lingzhu:1:2", "/status of dinner")
	turn.Door = "Ling zhu"
	c := h.ask(turn)
	if got := c.peer.Connect; got.Role != wire.RoleOperator || strings.Join(got.Scopes, " ") != wire.ScopeRead+" "+wire.ScopeWrite ||
		strings.Join(got.Caps, " ") != wire.CapSessionScoped || got.Device == nil {
		t.Errorf("%+v", got)
	}
	if s := c.sent; !strings.HasPrefix(s.SessionKey, "agent:cook:kitchen-lingzhu-") || s.Message != "/ status of dinner" || s.IdempotencyKey != turn.ID ||
		s.QueueMode != wire.QueueInterrupt || s.Thinking != "low" || s.TimeoutMS != DefaultDeadline.Milliseconds() || len(s.Attachments) != 0 {
		t.Errorf("%+v", s)
	}
	c.tell(wire.ChatEvent{State: wire.ChatStatus, Phase: "starting_model"})
	c.peer.Say(`{"type":"event","event":"agent","payload":{"runId":"x","stream":"tool","data":{"phase":"start"}}}`)
	c.peer.Say(`{"type":"event","event":"chat","payload":{"runId":"another","sessionKey":"s","seq":1,"state":"delta","deltaText":"Not for us"}}`)
	c.peer.Say(`{"type":"event","event":"chat","payload":17}`)
	c.delta("Soup", "Soup")
	c.await("Soup")
	c.delta(" is", "Soup is")
	c.await("Soup is")
	c.delta(" here.", "Soup was lost;") // what was said cannot be taken back
	c.await("lost;")
	c.delta(" here.", "Soup was lost; soup is here.")
	c.final("Soup was lost; soup is here.")
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if c.notes() != 1 || c.text() != "Soup is\n\nSoup was lost; soup is here." {
		t.Errorf("%q with %d notes", c.text(), c.notes())
	}
	if s, ok := h.bots.Status(1); !ok || !s.Connected || !s.Paired || s.Heard.IsZero() || s.Device == "" {
		t.Errorf("%+v", s)
	}

	// The next turn of the same conversation needs no subscription.
	next := begin(t, h.bot, said("lingzhu:1:2", "more"))
	r := c.peer.Next(wire.MethodSubscribe) // another door, so another conversation
	c.peer.Answer(r, json.RawMessage(`{}`))
	c.asked = next
	c.accept()
	c.final("Yes.")
	if err := next.end(); err != nil || next.text() != "Yes." {
		t.Errorf("%q, %v", next.text(), err)
	}
	again := begin(t, h.bot, said("lingzhu:1:2", "and more"))
	c.accept()
	c.final("No.")
	if err := again.end(); err != nil || again.text() != "No." {
		t.Errorf("%q, %v", again.text(), err)
	}
}

func TestSession(t *testing.T) {
	b := &Bot{}
	keys := map[string]bool{}
	for _, turn := range []*talk.Turn{
		{ID: "1", Door: "cli", Person: "a", Conversation: "b"},
		{ID: "2", Door: "cli", Person: "a", Conversation: "c"},
		{ID: "3", Door: "cli", Person: "ab", Conversation: ""},
		{ID: "4", Door: "mcp", Person: "a", Conversation: "b"},
		{ID: "5", Door: "cli"}, // strangers have nothing in common
		{ID: "6", Door: "cli"},
	} {
		key := b.session(turn)
		if keys[key] || len(key) > wire.MaxSessionKey || !strings.HasPrefix(key, "agent:main:patchbay-") {
			t.Errorf("%s", key)
		}
		keys[key] = true
	}
	if b.session(&talk.Turn{ID: "7", Door: "cli", Person: "a", Conversation: "b"}) != b.session(&talk.Turn{ID: "8", Door: "cli", Person: "a", Conversation: "b"}) {
		t.Error("a conversation has two names")
	}
}

// How answers end.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		say  func(*conversation)
		code talk.Code
		told string
		text string
	}{
		"nothing to say":     {func(c *conversation) { c.final("") }, talk.NoAnswer, "", ""},
		"final without text": {func(c *conversation) { c.delta("Hi", "Hi"); c.final("") }, "", "", "Hi"},
		"final alone":        {func(c *conversation) { c.final("Hi") }, "", "", "Hi"},
		"the first end wins": {func(c *conversation) { c.final("Hi"); c.final("Ho"); c.tell(wire.ChatEvent{State: wire.ChatError}) }, "", "", "Hi"},
		"aborted": {func(c *conversation) {
			c.delta("O", "O")
			c.tell(wire.ChatEvent{State: wire.ChatAborted, Message: content("One")})
		}, talk.BotFailed, sayAborted.En, "One"},
		"rate limit":          {errorEvent("rate_limit", nil), talk.BotFailed, sayThrottled.En, ""},
		"refusal":             {errorEvent("refusal", nil), talk.BotFailed, sayDeclined.En, ""},
		"context":             {errorEvent("context_length", nil), talk.BotFailed, sayContext.En, ""},
		"timeout":             {errorEvent("timeout", nil), talk.TimedOut, "", ""},
		"unknown":             {errorEvent("unknown", nil), talk.BotFailed, sayFailed.En, ""},
		"billing":             {errorEvent("", &wire.ErrorDetail{Failover: "billing"}), talk.BotFailed, saySpent.En, ""},
		"by its status":       {errorEvent("", &wire.ErrorDetail{HTTPStatus: 503}), talk.BotFailed, sayServer.En, ""},
		"wrong key by status": {errorEvent("", &wire.ErrorDetail{HTTPStatus: 403}), talk.BotFailed, sayKey.En, ""},
		"twice, as OpenClaw does": {func(c *conversation) {
			errorEvent("", &wire.ErrorDetail{Failover: "format"})(c)
			errorEvent("", nil)(c)
		}, talk.BotFailed, sayRefused.En, ""},
		"rewritten too often": {func(c *conversation) {
			for _, text := range []string{"a", "b", "c", "d", "e"} {
				c.delta(text, text)
			}
			c.final("e")
		}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, clienttest.Options{}, Options{}, nil)
			conv := h.ask(said("p", "hello"))
			c.say(conv)
			err := conv.end()
			f := talk.AsFailure(err)
			switch {
			case c.code == "" && err != nil:
				t.Error(err)
			case c.code != "" && (f == nil || f.Code != c.code || f.Told != c.told):
				t.Errorf("%+v", f)
			}
			if c.text != "" && conv.text() != c.text {
				t.Errorf("%q", conv.text())
			}
			if !conv.peer.Quiet() {
				t.Error("something else was asked of the gateway")
			}
		})
	}
}

func errorEvent(kind string, d *wire.ErrorDetail) func(*conversation) {
	return func(c *conversation) {
		c.tell(wire.ChatEvent{State: wire.ChatError, ErrorKind: kind, ErrorMessage: "it failed", ErrorDetail: d})
	}
}

// Nobody wants the answer any more: the gateway is told.
func TestAbort(t *testing.T) {
	refused := errors.New("no more")
	for name, c := range map[string]struct {
		stop func(*conversation)
		good func(error) bool
	}{
		"hung up": {func(c *conversation) { c.cancel() }, func(err error) bool { return errors.Is(err, context.Canceled) }},
		"refused": {func(c *conversation) {
			c.mu.Lock()
			c.refuse = refused
			c.mu.Unlock()
			c.delta(" two", "One two")
		}, func(err error) bool { return err == refused }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, clienttest.Options{}, Options{}, nil)
			conv := h.ask(said("p", "count"))
			conv.delta("One", "One")
			conv.await("One")
			c.stop(conv)
			if err := conv.end(); !c.good(err) {
				t.Error(err)
			}
			r := conv.peer.Next(wire.MethodChatAbort)
			if p := clienttest.Params[wire.ChatAbort](t, r); p.RunID != conv.sent.IdempotencyKey || p.SessionKey != conv.sent.SessionKey {
				t.Errorf("%+v", p)
			}
			conv.peer.Answer(r, wire.Aborted{OK: true, Aborted: true})
		})
	}
	t.Run("before it was accepted", func(t *testing.T) {
		h := newHouse(t, clienttest.Options{}, Options{}, nil)
		c := &conversation{asked: begin(t, h.bot, said("p", "count")), t: t, peer: h.gate.Peer()}
		c.subscribed()
		r := c.peer.Next(wire.MethodChatSend)
		c.cancel()
		if err := c.end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if !c.peer.Quiet() {
			t.Error("a run is aborted that does not exist yet")
		}
		c.peer.Answer(r, wire.Run{RunID: "x", Status: "started"})
		c.peer.Answer(c.peer.Next(wire.MethodChatAbort), wire.Aborted{OK: true})
	})
	t.Run("deadline", func(t *testing.T) {
		h := newHouse(t, clienttest.Options{}, Options{}, nil)
		h.bot.settings.Deadline = board.Duration(300 * time.Millisecond)
		conv := h.ask(said("p", "count"))
		if f := conv.failure(); f.Code != talk.TimedOut {
			t.Errorf("%+v", f)
		}
		conv.peer.Answer(conv.peer.Next(wire.MethodChatAbort), wire.Aborted{OK: true})
	})
}

// What the gateway refuses is said in words.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		e    *wire.Error
		told string
	}{
		"agent":     {wire.Invalid(`Agent "nope" no longer exists in configuration`), sayNoAgent.En},
		"message":   {wire.Invalid("message or attachment required"), sayNotTaken.En},
		"busy":      {&wire.Error{Code: wire.Unavailable, Message: "The server is busy"}, sayStarting.En},
		"forbidden": {wire.MissingScope(wire.ScopeWrite), sayNotIn.En},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, clienttest.Options{}, Options{}, nil)
			conv := &conversation{asked: begin(t, h.bot, said("p", "hello")), t: t, peer: h.gate.Peer()}
			conv.subscribed()
			conv.peer.Fail(conv.peer.Next(wire.MethodChatSend), c.e)
			if f := conv.failure(); f.Code != talk.BotFailed || f.Told != c.told {
				t.Errorf("%+v", f)
			}
			if !conv.peer.Quiet() {
				t.Error("what was refused is aborted")
			}
		})
	}
}

// Some words stop what is running, and get no answer.
func TestTakenForCommand(t *testing.T) {
	h := newHouse(t, clienttest.Options{}, Options{}, nil)
	conv := &conversation{asked: begin(t, h.bot, said("p", "stop")), t: t, peer: h.gate.Peer()}
	conv.subscribed()
	r := conv.peer.Next(wire.MethodChatSend)
	if got := clienttest.Params[wire.ChatSend](t, r).Message; got != "“stop”" {
		t.Errorf("%q", got)
	}
	conv.peer.Answer(r, json.RawMessage(`{"ok":true,"aborted":true,"runIds":["x"]}`))
	if f := conv.failure(); f.Code != talk.NoAnswer {
		t.Errorf("%+v", f)
	}
}

func TestPictures(t *testing.T) {
	h := newHouse(t, clienttest.Options{Policy: `{"maxPayload":26214400,"maxBufferedBytes":52428800,"tickIntervalMs":30000,"attachments":{"maxBytes":100,"maxImageBytes":10}}`}, Options{}, nil)
	turn := said("p", "")
	turn.Parts = []talk.Part{{Image: &talk.Image{MIME: "image/webp", Data: []byte("0123456789")}}}
	conv := h.ask(turn)
	if a := conv.sent.Attachments; len(a) != 1 || a[0].Type != "image" || a[0].MIMEType != "image/webp" || a[0].FileName != "picture-1.webp" || string(a[0].Content) != "0123456789" {
		t.Errorf("%+v", a)
	}
	conv.final("Digits.")
	if err := conv.end(); err != nil {
		t.Error(err)
	}
	turn = said("p", "and this?")
	turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: "image/webp", Data: []byte("0123456789a")}})
	f := talk.AsFailure(begin(t, h.bot, turn).end())
	if f == nil || f.Code != talk.Unreadable || f.Told != sayLarge.En {
		t.Errorf("%+v", f)
	}
	if f := talk.AsFailure(begin(t, h.bot, said("p", " ")).end()); f == nil || f.Code != talk.Unreadable {
		t.Errorf("%+v", f)
	}
}

// history answers the next question about what became of a run.
func (c *conversation) history(record string) {
	c.t.Helper()
	r := c.peer.Next(wire.MethodChatHistory)
	if e := wire.ShapeChatHistory.Invalid(r.Params); e != nil {
		c.t.Error(e)
	}
	c.peer.Answer(r, json.RawMessage(strings.ReplaceAll(record, "RUN", c.sent.IdempotencyKey)))
}

const (
	recordNone      = `{"messages":[]}`
	recordQuestion  = `{"messages":[{"role":"user","content":"x","idempotencyKey":"RUN:user"}]}`
	recordAlive     = `{"messages":[],"inFlightRun":{"runId":"RUN","text":"One two"}}`
	recordRestarted = `{"messages":[{"role":"user","content":"x","idempotencyKey":"RUN:user"},
		{"role":"user","content":"[System] Your previous turn was interrupted by a gateway restart","idempotencyKey":"NEXT:user","provenance":{"kind":"internal_system","sourceTool":"main_session_restart_recovery"}}],
		"inFlightRun":{"runId":"NEXT","text":"One two"}}`
	recordGoneOn = `{"messages":[{"role":"user","content":"x","idempotencyKey":"RUN:user"},
		{"role":"assistant","content":[{"type":"text","text":"One"}],"openclawAbort":{"aborted":true},"__openclaw":{"runId":"RUN"}},
		{"role":"user","content":"[System]","idempotencyKey":"NEXT:user","provenance":{"kind":"internal_system","sourceTool":"main_session_restart_recovery"}},
		{"role":"assistant","content":[{"type":"text","text":"One two three."}],"stopReason":"stop","__openclaw":{"runId":"NEXT"}}]}`
	recordEnded = `{"messages":[{"role":"user","content":"x","idempotencyKey":"RUN:user"},{"role":"assistant","content":[{"type":"text","text":"One two three."}],"stopReason":"stop","__openclaw":{"runId":"RUN"}}]}`
)

// A connection that breaks in mid-answer.
func TestResume(t *testing.T) {
	for name, c := range map[string]struct {
		begun bool // something was said before
		then  func(*conversation)
		text  string
		code  talk.Code
	}{
		"it goes on": {true, func(c *conversation) {
			c.history(recordAlive)
			c.await("One two")
			c.delta(" three.", "One two three.")
			c.final("One two three.")
		}, "One two three.", ""},
		"events are faster than the record": {true, func(c *conversation) {
			r := c.peer.Next(wire.MethodChatHistory)
			c.delta(" three.", "One two three.")
			c.peer.Answer(r, json.RawMessage(strings.ReplaceAll(recordAlive, "RUN", c.sent.IdempotencyKey)))
			c.await("three.")
			c.final("One two three.")
		}, "One two three.", ""},
		"it has ended": {true, func(c *conversation) { c.history(recordEnded) }, "One two three.", ""},
		"it is not recorded yet": {true, func(c *conversation) {
			c.history(recordQuestion)
			c.history(recordQuestion)
			c.history(recordEnded)
		}, "One two three.", ""},
		"it was lost": {true, func(c *conversation) {
			for range maxDoubts + 1 {
				c.history(recordQuestion)
			}
			c.peer.Answer(c.peer.Next(wire.MethodChatAbort), wire.Aborted{OK: true})
		}, "One", talk.Lost},
		"the gateway goes on after a restart": {true, func(c *conversation) {
			c.history(recordQuestion)
			c.history(recordRestarted)
			c.await("One two")
			c.sent.IdempotencyKey = "NEXT"
			c.delta(" three.", "One two three.")
			c.final("One two three.")
		}, "One two three.", ""},
		"the gateway has gone on after a restart": {true, func(c *conversation) { c.history(recordGoneOn) }, "One two three.", ""},
		"the question was lost": {false, func(c *conversation) {
			c.history(recordNone)
			c.history(recordNone)
			before := c.sent.IdempotencyKey
			c.accept()
			if c.sent.IdempotencyKey != before {
				c.t.Error("it could be answered twice")
			}
			c.delta("One two three.", "")
			c.final("")
		}, "One two three.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, clienttest.Options{}, Options{doubt: 10 * time.Millisecond}, nil)
			conv := h.ask(said("p", "count"))
			if c.begun {
				conv.delta("One", "One")
				conv.await("One")
				conv.tell(wire.ChatEvent{State: wire.ChatAborted, StopReason: stopRestart})
			}
			conv.peer.Close(wire.CloseRestart, "service restart")
			conv.peer = h.gate.Peer()
			conv.subscribed()
			c.then(conv)
			f := talk.AsFailure(conv.end())
			if c.code == "" && f != nil || c.code != "" && (f == nil || f.Code != c.code) || conv.text() != c.text || conv.notes() != 0 {
				t.Errorf("%q, %v", conv.text(), f)
			}
		})
	}
}

// An answer that says nothing for long is looked for.
func TestQuiet(t *testing.T) {
	h := newHouse(t, clienttest.Options{}, Options{quiet: 50 * time.Millisecond}, nil)
	conv := h.ask(said("p", "count"))
	conv.history(recordAlive)
	conv.await("One two")
	conv.history(recordEnded)
	if err := conv.end(); err != nil || conv.text() != "One two three." {
		t.Errorf("%q, %v", conv.text(), err)
	}
}

// Who is not let in is told so, and the owner what to do about it.
func TestUnpaired(t *testing.T) {
	h := newHouse(t, clienttest.Options{Admit: func(c *wire.Connect) *wire.Error {
		return wire.PairingRequired(wire.PairNew, "c6159fb2-1", c.Device.ID, wire.RoleOperator, false)
	}}, Options{}, nil)
	f := talk.AsFailure(begin(t, h.bot, said("p", "hello")).end())
	if f == nil || f.Code != talk.Offline || f.Told != sayUnpaired.En {
		t.Errorf("%+v", f)
	}
	s, _ := h.bots.Status(1)
	if s.Connected || s.Paired || s.Command != "openclaw devices approve c6159fb2-1" || !strings.Contains(s.Trouble.En, s.Command) || !strings.Contains(s.Trouble.Zh, s.Command) {
		t.Errorf("%+v", s)
	}
	if err := h.bot.Check(t.Context()); err == nil || !strings.Contains(err.Error(), s.Command) {
		t.Error(err)
	}
}

// Keys are made once, kept, and used again; connections are shared as long as
// nothing about them has changed.
func TestKeys(t *testing.T) {
	var mu sync.Mutex
	var kept []string
	h := newHouse(t, clienttest.Options{Hello: func(h *wire.Hello) { h.Auth.DeviceToken = "device-token" }}, Options{
		Keep: func(_ context.Context, bot int64, _, secret string) error {
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, secret)
			return nil
		},
		idle: 50 * time.Millisecond,
	}, nil)
	conv := h.ask(said("p", "hello"))
	conv.final("Hi")
	if err := conv.end(); err != nil {
		t.Fatal(err)
	}
	if len(kept) != 2 {
		t.Fatalf("%d secrets were kept", len(kept))
	}
	d, err := readDevice(kept[1])
	if err != nil || d.Token != "device-token" || d.id() != conv.peer.Connect.Device.ID {
		t.Errorf("%+v, %v", d, err)
	}
	s := h.bot.settings
	s.DeviceIdentity = kept[1]
	same, err := h.bots.Build(storeBot, s)
	if err != nil || same.line != h.bot.line {
		t.Errorf("another connection: %v", err)
	}
	if conv.peer.Bye() < 0 {
		t.Error("nobody uses the connection, and it was cut")
	}
	s.Token = "rotated"
	other, err := h.bots.Build(storeBot, s)
	if err != nil || other.line == h.bot.line {
		t.Fatalf("the same connection: %v", err)
	}
	h.bot = other
	a := begin(t, other, said("p", "hello"))
	if f := talk.AsFailure(a.end()); f == nil || f.Code != talk.Offline || f.Told != sayNotIn.En {
		t.Errorf("%+v", f) // the device's own token is not what this gateway wants
	}
	for _, c := range h.gate.Attempts() {
		if c.Device.ID != d.id() {
			t.Error("another device came")
		}
	}
}

func TestTroubleWords(t *testing.T) {
	for p, want := range map[client.Problem]talk.Say{
		client.Pairing: sayUnpaired, client.Token: sayNotIn, client.Starting: sayStarting, client.Unreachable: sayNoGateway,
	} {
		if got := troubleWords(&client.Trouble{Problem: p}); got != want {
			t.Errorf("%s: %v", p, got)
		}
	}
}
