package bot

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/settings"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var storeBot = store.Bot{Number: 1}

// fakeGateway is a bot with a gateway whose responses come from the test.
type fakeGateway struct {
	t    *testing.T
	gate *clienttest.Gateway
	bots *Bots
	bot  *Bot
}

func newFakeGateway(t *testing.T, g clienttest.Options, o Options, change func(*Settings)) *fakeGateway {
	t.Helper()
	h := &fakeGateway{t: t, gate: clienttest.Start(t, g), bots: New(o)}
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

// conversation is a turn whose answer comes from the test.
type conversation struct {
	*asked
	t    *testing.T
	peer *clienttest.Peer
	sent wire.ChatSend
}

// ask passes a turn to the bot, and accepts its message.
func (h *fakeGateway) ask(turn *talk.Turn) *conversation {
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
	c.peer.SendEvent(wire.EventChat, e)
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
	h := newFakeGateway(t, clienttest.Options{}, Options{}, func(s *Settings) {
		s.Thinking, s.Agent,
			s.SessionPrefix = "low", "Cook", "kitchen"
	})
	turn := said("lingzhu:1:2", "/status of dinner")
	turn.Channel = "Ling zhu"
	c := h.ask(turn)
	if got := c.peer.Connect; got.Role != wire.RoleOperator ||
		strings.Join(got.Scopes, " ") != wire.ScopeRead+" "+wire.ScopeWrite ||
		strings.Join(got.Caps, " ") != wire.CapSessionScoped || got.Device == nil {
		t.Errorf("%+v", got)
	}
	if s := c.sent; !strings.HasPrefix(s.SessionKey, "agent:cook:kitchen-lingzhu-") ||
		s.Message != "/ status of dinner" || s.IdempotencyKey != turn.ID ||
		s.QueueMode != wire.QueueInterrupt || s.Thinking != "low" || s.TimeoutMS != DefaultDeadline.Milliseconds() ||
		len(s.Attachments) != 0 {
		t.Errorf("%+v", s)
	}
	c.tell(wire.ChatEvent{State: wire.ChatStatus, Phase: "starting_model"})
	c.peer.SendRaw(`{"type":"event","event":"agent","payload":{"runId":"x","stream":"tool","data":{"phase":"start"}}}`)
	c.peer.SendRaw(`{"type":"event","event":"chat","payload":{"runId":"another","sessionKey":"s","seq":1,"state":"delta","deltaText":"Not for us"}}`)
	c.peer.SendRaw(`{"type":"event","event":"chat","payload":17}`)
	c.delta("Soup", "Soup")
	c.await("Soup")
	c.delta(" is", "Soup is")
	c.await("Soup is")
	c.delta(" here.", "Soup was lost;") // emitted text cannot be taken back
	c.await("lost;")
	c.delta(" here.", "Soup was lost; soup is here.")
	c.final("Soup was lost; soup is here.")
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if c.notes() != 1 || c.text() != "Soup is\n\nSoup was lost; soup is here." {
		t.Errorf("%q with %d notes", c.text(), c.notes())
	}
	if s, ok := h.bots.Status(1); !ok || !s.Connected || !s.Paired || s.LastAnswer.IsZero() || s.Device == "" {
		t.Errorf("%+v", s)
	}

	// The next turn of the same conversation does not subscribe again.
	next := begin(t, h.bot, said("lingzhu:1:2", "more"))
	r := c.peer.Next(wire.MethodSubscribe) // another channel, and so another conversation
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
		{ID: "1", Channel: "cli", Person: "a", Conversation: "b"},
		{ID: "2", Channel: "cli", Person: "a", Conversation: "c"},
		{ID: "3", Channel: "cli", Person: "ab", Conversation: ""},
		{ID: "4", Channel: "mcp", Person: "a", Conversation: "b"},
		{ID: "5", Channel: "cli"}, // unidentified people share no conversation
		{ID: "6", Channel: "cli"},
	} {
		key := b.session(turn)
		if keys[key] || len(key) > wire.MaxSessionKey || !strings.HasPrefix(key, "agent:main:patchbay-") {
			t.Errorf("%s", key)
		}
		keys[key] = true
	}
	if b.session(&talk.Turn{ID: "7", Channel: "cli", Person: "a", Conversation: "b"}) != b.session(&talk.Turn{ID: "8",
		Channel: "cli", Person: "a", Conversation: "b"}) {
		t.Error("a conversation has two names")
	}
}

// The ends of answers.
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
		}, talk.BotFailed, msgAborted.In(i18n.English), "One"},
		"rate limit": {errorEvent("rate_limit", nil), talk.BotFailed, msgThrottled.In(i18n.English), ""},
		"refusal":    {errorEvent("refusal", nil), talk.BotFailed, msgDeclined.In(i18n.English), ""},
		"context":    {errorEvent("context_length", nil), talk.BotFailed, msgContext.In(i18n.English), ""},
		"timeout":    {errorEvent("timeout", nil), talk.TimedOut, "", ""},
		"unknown":    {errorEvent("unknown", nil), talk.BotFailed, msgFailed.In(i18n.English), ""},
		"billing": {errorEvent("", &wire.ErrorDetail{Failover: "billing"}), talk.BotFailed, msgSpent.In(i18n.English),
			""},
		"by its status": {errorEvent("", &wire.ErrorDetail{HTTPStatus: 503}), talk.BotFailed,
			msgServer.In(i18n.English), ""},
		"wrong key by status": {errorEvent("", &wire.ErrorDetail{HTTPStatus: 403}), talk.BotFailed,
			msgKey.In(i18n.English), ""},
		"twice, as OpenClaw does": {func(c *conversation) {
			errorEvent("", &wire.ErrorDetail{Failover: "format"})(c)
			errorEvent("", nil)(c)
		}, talk.BotFailed, msgRefused.In(i18n.English), ""},
		"rewritten too often": {func(c *conversation) {
			for _, text := range []string{"a", "b", "c", "d", "e"} {
				c.delta(text, text)
			}
			c.final("e")
		}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeGateway(t, clienttest.Options{}, Options{}, nil)
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
			if !conv.peer.HasNoRequest() {
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

// Whoever interrupts an answer leaves when the gateway has aborted it, and hears of no failure.
func TestInterrupted(t *testing.T) {
	h := newFakeGateway(t, clienttest.Options{}, Options{}, nil)
	c := h.ask(said("p", "count"))
	c.tell(wire.ChatEvent{State: wire.ChatAborted, Message: content("One")})
	c.await("One")
	c.cancel()
	if err := c.end(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A canceled turn is aborted at the gateway.
func TestAbort(t *testing.T) {
	refused := errors.New("no more")
	for name, c := range map[string]struct {
		stop func(*conversation)
		good func(error) bool
	}{
		"disconnected": {func(c *conversation) { c.cancel() }, func(err error) bool {
			return errors.Is(err,
				context.Canceled)
		}},
		"refused": {func(c *conversation) {
			c.mu.Lock()
			c.refuse = refused
			c.mu.Unlock()
			c.delta(" two", "One two")
		}, func(err error) bool { return err == refused }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeGateway(t, clienttest.Options{}, Options{}, nil)
			conv := h.ask(said("p", "count"))
			conv.delta("One", "One")
			conv.await("One")
			c.stop(conv)
			if err := conv.end(); !c.good(err) {
				t.Error(err)
			}
			r := conv.peer.Next(wire.MethodChatAbort)
			if p := clienttest.Params[wire.ChatAbort](t, r); p.RunID != conv.sent.IdempotencyKey ||
				p.SessionKey != conv.sent.SessionKey {
				t.Errorf("%+v", p)
			}
			conv.peer.Answer(r, wire.AbortResult{OK: true, Aborted: true})
		})
	}
	t.Run("before it was accepted", func(t *testing.T) {
		h := newFakeGateway(t, clienttest.Options{}, Options{}, nil)
		c := &conversation{asked: begin(t, h.bot, said("p", "count")), t: t, peer: h.gate.Peer()}
		c.subscribed()
		r := c.peer.Next(wire.MethodChatSend)
		c.cancel()
		if err := c.end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if !c.peer.HasNoRequest() {
			t.Error("a run is aborted that does not exist yet")
		}
		c.peer.Answer(r, wire.Run{RunID: "x", Status: "started"})
		c.peer.Answer(c.peer.Next(wire.MethodChatAbort), wire.AbortResult{OK: true})
	})
	t.Run("deadline", func(t *testing.T) {
		h := newFakeGateway(t, clienttest.Options{}, Options{}, nil)
		h.bot.settings.Deadline = settings.Duration(300 * time.Millisecond)
		conv := h.ask(said("p", "count"))
		if f := conv.failure(); f.Code != talk.TimedOut {
			t.Errorf("%+v", f)
		}
		conv.peer.Answer(conv.peer.Next(wire.MethodChatAbort), wire.AbortResult{OK: true})
	})
}

// Errors of the gateway become messages for the asker.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		e    *wire.Error
		told string
	}{
		"agent":     {wire.Invalid(`Agent "nope" no longer exists in configuration`), msgNoAgent.In(i18n.English)},
		"message":   {wire.Invalid("message or attachment required"), msgNotTaken.In(i18n.English)},
		"busy":      {&wire.Error{Code: wire.Unavailable, Message: "The server is busy"}, msgStarting.In(i18n.English)},
		"forbidden": {wire.MissingScope(wire.ScopeWrite), msgNotIn.In(i18n.English)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeGateway(t, clienttest.Options{}, Options{}, nil)
			conv := &conversation{asked: begin(t, h.bot, said("p", "hello")), t: t, peer: h.gate.Peer()}
			conv.subscribed()
			conv.peer.Fail(conv.peer.Next(wire.MethodChatSend), c.e)
			if f := conv.failure(); f.Code != talk.BotFailed || f.Told != c.told {
				t.Errorf("%+v", f)
			}
			if !conv.peer.HasNoRequest() {
				t.Error("what was refused is aborted")
			}
		})
	}
}

// Stop words abort the active run and get no answer.
func TestTakenForCommand(t *testing.T) {
	h := newFakeGateway(t, clienttest.Options{}, Options{}, nil)
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
	h := newFakeGateway(t,
		clienttest.Options{Policy: `{"maxPayload":26214400,"maxBufferedBytes":52428800,"tickIntervalMs":30000,"attachments":{"maxBytes":100,"maxImageBytes":10}}`}, Options{}, nil)
	turn := said("p", "")
	turn.Parts = []talk.Part{{Image: &talk.Image{MIME: "image/webp", Data: []byte("0123456789")}}}
	conv := h.ask(turn)
	if a := conv.sent.Attachments; len(a) != 1 || a[0].Type != "image" || a[0].MIMEType != "image/webp" ||
		a[0].FileName != "picture-1.webp" || string(a[0].Content) != "0123456789" {
		t.Errorf("%+v", a)
	}
	conv.final("Digits.")
	if err := conv.end(); err != nil {
		t.Error(err)
	}
	turn = said("p", "and this?")
	turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: "image/webp", Data: []byte("0123456789a")}})
	f := talk.AsFailure(begin(t, h.bot, turn).end())
	if f == nil || f.Code != talk.Unreadable || f.Told != msgLarge.In(i18n.English) {
		t.Errorf("%+v", f)
	}
	if f := talk.AsFailure(begin(t, h.bot, said("p", " ")).end()); f == nil || f.Code != talk.Unreadable {
		t.Errorf("%+v", f)
	}
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

// If the device is not paired, the asker gets a message, and the owner a remedy.
func TestUnpaired(t *testing.T) {
	h := newFakeGateway(t, clienttest.Options{Admit: func(c *wire.Connect) *wire.Error {
		return wire.PairingRequired(wire.PairNew, "c6159fb2-1", c.Device.ID, wire.RoleOperator, false)
	}}, Options{}, nil)
	f := talk.AsFailure(begin(t, h.bot, said("p", "hello")).end())
	if f == nil || f.Code != talk.Offline || f.Told != msgUnpaired.In(i18n.English) {
		t.Errorf("%+v", f)
	}
	s, _ := h.bots.Status(1)
	if s.Connected || s.Paired || s.Command != "openclaw devices approve c6159fb2-1" ||
		!strings.Contains(s.Problem.In(i18n.English), s.Command) ||
		!strings.Contains(s.Problem.In(i18n.Chinese), s.Command) {
		t.Errorf("%+v", s)
	}
	if err := h.bot.Check(t.Context()); err == nil || !strings.Contains(err.Error(), s.Command) {
		t.Error(err)
	}
}

// Device keys are created once, stored and reused; a connection is shared as long as its settings
// do not change.
func TestKeys(t *testing.T) {
	var mu sync.Mutex
	var kept []string
	h := newFakeGateway(t, clienttest.Options{Hello: func(h *wire.Hello) { h.Auth.DeviceToken = "device-token" }},
		Options{
			SaveIdentity: func(_ context.Context, bot int64, _, secret string) error {
				mu.Lock()
				defer mu.Unlock()
				kept = append(kept, secret)
				return nil
			},
			idleTimeout: 50 * time.Millisecond,
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
	if err != nil || same.gateway != h.bot.gateway {
		t.Errorf("another connection: %v", err)
	}
	if conv.peer.CloseCode() < 0 {
		t.Error("nobody uses the connection, and it was cut")
	}
	s.Token = "rotated"
	other, err := h.bots.Build(storeBot, s)
	if err != nil || other.gateway == h.bot.gateway {
		t.Fatalf("the same connection: %v", err)
	}
	h.bot = other
	a := begin(t, other, said("p", "hello"))
	if f := talk.AsFailure(a.end()); f == nil || f.Code != talk.Offline || f.Told != msgNotIn.In(i18n.English) {
		t.Errorf("%+v", f) // the device token belongs to another gateway
	}
	for _, c := range h.gate.Attempts() {
		if c.Device.ID != d.id() {
			t.Error("another device came")
		}
	}
}

func TestConnectionErrors(t *testing.T) {
	for p, want := range map[client.Problem]i18n.Message{
		client.Pairing: msgUnpaired, client.Token: msgNotIn, client.Starting: msgStarting,
		client.Unreachable: msgNoGateway,
	} {
		if got := connectionErrorMessage(&client.ConnectionError{Problem: p}); got != want {
			t.Errorf("%s: %v", p, got)
		}
	}
}

// A question fails soon if nothing accepts connections at the gateway's address. It does not wait
// as long as for a gateway that is starting.
func TestNobodyThere(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	h := newFakeGateway(t, clienttest.Options{}, Options{}, nil)
	b, err := h.bots.Build(storeBot, Settings{URL: "ws://" + nobody.Addr().String(), Token: clienttest.Token})
	if err != nil {
		t.Fatal(err)
	}
	// With more patience than this the asker would be the one who ends it.
	ctx, cancel := context.WithTimeout(t.Context(), connectTimeout-5*time.Second)
	defer cancel()
	err = b.Answer(ctx, said("p", "hello"), func(talk.Event) error { return nil })
	if f := talk.AsFailure(err); f == nil || f.Code != talk.Offline || f.Told != string(msgNoGateway) ||
		ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}
