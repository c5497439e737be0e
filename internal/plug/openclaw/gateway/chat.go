package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// mainAgent is the default agent: a person's first bot.
const mainAgent = "main"

const (
	// maxMessage limits one message, in bytes.
	maxMessage = 1 << 20
	// maxPicture limits a picture, in bytes, as OpenClaw does (docs/gateway/protocol/versioning.md,
	// "Client constants"); maxPictures the pictures of a message.
	maxPicture  = 6 << 20
	maxPictures = 10
	// maxHistory limits the messages of one history response
	// (packages/gateway-protocol/src/schema/chat-history-constants.ts).
	maxHistory = 1000
)

// session is a conversation with a bot.
type session struct {
	key          string // agent:<number of the bot>:<name>
	shown        string // agent:<agent>:<name>
	agent        string // as named by the client: the number of the bot, its name, or [mainAgent]
	name         string
	bot          store.Bot
	conversation string // of its exchanges; empty: not looked up yet
}

// session returns the conversation with a key. only is the only bot that may be used; 0: any of
// the person's.
func (g *Gateway) session(ctx context.Context, person string, only int64, key, agent string) (session, *wire.Error) {
	s := session{agent: agent, name: strings.TrimSpace(key)}
	if rest, ok := strings.CutPrefix(s.name, "agent:"); ok {
		named, name, found := strings.Cut(rest, ":")
		if !found || named == "" || name == "" {
			return s, wire.Invalid("invalid session key")
		}
		s.agent, s.name = named, name
	}
	if s.agent == "" {
		s.agent = mainAgent
	}
	if s.name == "" || utf8.RuneCountInString(s.name) > wire.MaxSessionKey || !isReadable(s.name) {
		return s, wire.Invalid("invalid session key")
	}
	s.shown = sessionKey(s.agent, s.name)
	var err error
	s.bot, err = g.agentBot(ctx, person, only, s.agent)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return s, wire.Invalid(fmt.Sprintf("Agent %q no longer exists in configuration", s.agent))
	case err != nil:
		return s, g.internalError(err)
	}
	s.key = sessionKey(botID(s.bot), s.name)
	return s, nil
}

// agentBot returns the bot for an agent.
func (g *Gateway) agentBot(ctx context.Context, person string, only int64, agent string) (store.Bot, error) {
	if agent != mainAgent {
		b, err := g.Hub.Registry.FindUsable(ctx, person, agent)
		if err == nil && only != 0 && only != b.Number {
			err = store.ErrNotFound
		}
		return b, err
	}
	bots, err := g.bots(ctx, person, only)
	if err == nil && len(bots) == 0 {
		return store.Bot{}, store.ErrNotFound
	}
	if err != nil {
		return store.Bot{}, err
	}
	return bots[0], nil
}

// bots returns the bots that may be used.
func (g *Gateway) bots(ctx context.Context, person string, only int64) ([]store.Bot, error) {
	bots, err := g.Store.Bots.Usable(ctx, person)
	return slices.DeleteFunc(bots, func(b store.Bot) bool { return only != 0 && only != b.Number }), err
}

func (g *Gateway) agentsList(ctx context.Context, c *conn, _ []byte) (any, *wire.Error) {
	bots, err := g.bots(ctx, c.person.ID, c.access.OnlyBot)
	if err != nil {
		return nil, g.internalError(err)
	}
	type agent struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	out := struct {
		Default string  `json:"defaultId"`
		Main    string  `json:"mainKey"`
		Scope   string  `json:"scope"`
		Agents  []agent `json:"agents"`
	}{mainAgent, mainAgent, "per-sender", []agent{}}
	for i, b := range bots {
		id := botID(b)
		if i == 0 {
			out.Default = id // mainAgent is an alias of it and not listed
		}
		out.Agents = append(out.Agents, agent{id, b.Name})
	}
	return out, nil
}

// asker returns the id by which a bot tells people apart.
func asker(person string) string { return channel + ":" + person }

// question is a message to a bot, whatever method it came by.
type question struct {
	owner     string
	bound     string // rules of the key in use
	singleBot bool   // the key opens this bot only
	lang      string
	session   session
	id        string // of the run
	parts     []talk.Part
	mode      string        // queue mode while the conversation has an active run
	timeout   time.Duration // 0: default
	address   string
}

func (q *question) turn() *talk.Turn {
	return &talk.Turn{
		Bot: q.session.bot.Number, Channel: channel, Address: q.address, Person: asker(q.owner), Asker: q.owner,
		KeyRules: q.bound,
		BotOnly:  q.singleBot, Conversation: q.session.conversation, Lang: i18n.ParseLang(q.lang, i18n.English),
		Parts: q.parts,
	}
}

func (g *Gateway) chatSend(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	var p wire.ChatSend
	if json.Unmarshal(params, &p) != nil {
		return nil, wire.Invalid("invalid " + wire.MethodChatSend + " params")
	}
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, p.SessionKey, p.AgentID)
	if e != nil {
		return nil, e
	}
	return g.ask(ctx, c, s, &p)
}

// sessionSend serves sessions.send, which is chat.send with other names.
func (g *Gateway) sessionSend(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	var p wire.ChatSend
	if json.Unmarshal(params, &p) != nil {
		return nil, wire.Invalid("invalid " + wire.MethodSessionSend + " params")
	}
	p.IdempotencyKey = cmp.Or(p.IdempotencyKey, uuid.NewString())
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, field(params, "key"), p.AgentID)
	if e != nil {
		return nil, e
	}
	return g.ask(ctx, c, s, &p)
}

// ask sends a message to a bot. The result is a [wire.Run], when it has been sent.
func (g *Gateway) ask(ctx context.Context, c *conn, s session, p *wire.ChatSend) (out answered, _ *wire.Error) {
	parts, e := partsOf(p.Message, p.Attachments)
	if e != nil {
		return out, e
	}
	r, again, e := g.runs.start(ctx, g, &question{
		owner: c.person.ID, address: c.access.Address, bound: c.access.KeyRules, singleBot: c.access.OnlyBot != 0,
		lang: c.person.Lang, session: s, id: p.IdempotencyKey, parts: parts, mode: p.QueueMode,
		timeout: time.Duration(max(0, min(p.TimeoutMS, maxInvokeTimeout.Milliseconds()))) * time.Millisecond,
	})
	if e != nil {
		return out, e
	}
	return answered{wire.Run{RunID: p.IdempotencyKey, Status: r.status("started", again),
		Interrupted: r.interrupted && !again}, func() { r.accept(c.echo()) }}, nil
}

// partsOf returns the message and its pictures as parts.
func partsOf(message string, attached []wire.Attachment) ([]talk.Part, *wire.Error) {
	var parts []talk.Part
	if len(message) > maxMessage {
		return nil, wire.Invalid("message too long")
	}
	if strings.TrimSpace(message) != "" {
		parts = append(parts, talk.Part{Text: message})
	}
	for i, a := range attached {
		mime := http.DetectContentType(a.Content)
		switch {
		case i >= maxPictures:
			return nil, wire.Invalid("too many attachments")
		case len(a.Content) > maxPicture:
			return nil, wire.Invalid("attachment too large")
		case !slices.Contains([]string{"image/webp", "image/jpeg", "image/png", "image/gif"}, mime):
			return nil,
				wire.Invalid("unsupported attachment: only pictures (JPEG, PNG, WebP, GIF) can be shown to bots")
		}
		parts = append(parts, talk.Part{Image: &talk.Image{MIME: mime, Data: a.Content}})
	}
	if len(parts) == 0 {
		return nil, wire.Invalid("message or attachment required")
	}
	return parts, nil
}

func (g *Gateway) chatAbort(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, field(params, "sessionKey"), field(params, "agentId"))
	if e != nil {
		return nil, e
	}
	stopped := g.abortRuns(c.person.ID, &s, field(params, "runId"))
	return wire.AbortResult{OK: true, Aborted: len(stopped) > 0, RunIDs: stopped}, nil
}

// The roles of messages.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// message is a message in the clients' format.
type message struct {
	Role      string       `json:"role"`
	Content   []part       `json:"content"`
	Timestamp int64        `json:"timestamp"`
	Key       string       `json:"idempotencyKey,omitempty"`
	Meta      *messageMeta `json:"__openclaw,omitempty"`
}

// messageMeta is what the gateway adds to a message.
type messageMeta struct {
	ID    string `json:"id"`
	RunID string `json:"runId,omitempty"`
}

// named returns the message with an id made of that of its turn or run.
func (m message) named(id string) message {
	m.Meta = &messageMeta{ID: id + ":" + m.Role}
	return m
}

type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func textMessage(role, text string, at time.Time) message {
	return message{Role: role, Content: []part{{"text", text}}, Timestamp: at.UnixMilli()}
}

func (g *Gateway) chatHistory(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	var p wire.ChatHistory
	if json.Unmarshal(params, &p) != nil {
		return nil, wire.Invalid("invalid " + wire.MethodChatHistory + " params")
	}
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, p.SessionKey, field(params, "agentId"))
	if e != nil {
		return nil, e
	}
	limit := cmp.Or(min(max(p.Limit, 0), maxHistory), 200)
	return g.history(ctx, c.person.ID, &s, limit)
}

// history returns the newest messages of a conversation, with its row if it is stored.
func (g *Gateway) history(ctx context.Context, owner string, s *session, limit int) (map[string]any, *wire.Error) {
	x, err := g.Store.ChatSessions.Get(ctx, owner, s.bot.Number, s.name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, g.internalError(err)
	}
	isStored := err == nil
	s.conversation = cmp.Or(x.Conversation, s.name) // nothing was said under the bare name
	messages, e := g.messages(ctx, owner, s, limit)
	if e != nil {
		return nil, e
	}
	out := map[string]any{"sessionKey": s.shown, "sessionId": s.conversation, "messages": messages, "hasMore": false,
		"totalMessages": len(messages)}
	if isStored {
		row, err := g.rowOf(ctx, s.bot, x, false)
		if err != nil {
			return nil, g.internalError(err)
		}
		row.Key = s.shown
		out["sessionInfo"] = row
		if x.Verbosity != "" {
			out["verboseLevel"] = x.Verbosity
		}
	}
	if running := g.runs.running(owner, s.key); len(running) > 0 {
		out["inFlightRun"] = running[0].inFlight()
	}
	return out, nil
}

// messages returns the newest messages of a conversation, oldest first.
func (g *Gateway) messages(ctx context.Context, owner string, s *session, limit int) ([]message, *wire.Error) {
	last, err := g.Store.Conversations.Last(ctx, s.bot.Number, asker(owner), s.conversation, limit)
	if err != nil {
		return nil, g.internalError(err)
	}
	messages := []message{}
	for _, x := range last {
		if x.Question != "" {
			messages = append(messages, textMessage(roleUser, x.Question, x.At).named(x.Turn))
		}
		if x.Answer != "" {
			messages = append(messages, textMessage(roleAssistant, x.Answer, x.At).named(x.Turn))
		}
	}
	return messages[max(0, len(messages)-limit):], nil
}

// agent serves the method agent, which is answered twice.
func (g *Gateway) agent(ctx context.Context, c *conn, id string, params []byte) (any, *wire.Error) {
	if e := wire.ShapeAgent.Invalid(params); e != nil {
		return nil, e
	}
	var p wire.Agent
	if json.Unmarshal(params, &p) != nil {
		return nil, wire.Invalid("invalid " + wire.MethodAgent + " params")
	}
	if strings.TrimSpace(p.System) != "" {
		return nil, wire.Invalid("extraSystemPrompt is not supported: a bot has its own instructions only")
	}
	parts, e := partsOf(p.Message, nil)
	if e != nil {
		return nil, e
	}
	if p.SessionKey == "" {
		p.SessionKey = mainAgent
	}
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, p.SessionKey, p.AgentID)
	if e != nil {
		return nil, e
	}
	r, again, e := g.runs.start(ctx, g, &question{
		owner: c.person.ID, address: c.access.Address, bound: c.access.KeyRules, singleBot: c.access.OnlyBot != 0,
		lang: c.person.Lang, session: s, id: p.IdempotencyKey, parts: parts,
		timeout: time.Duration(max(0, min(p.Timeout, int64(maxInvokeTimeout/time.Second)))) * time.Second,
	})
	if e != nil {
		return nil, e
	}
	c.answer(id, encoded(map[string]any{
		"runId": r.id, "sessionKey": s.shown, "agentId": s.agent, "status": r.status("accepted", again),
		"acceptedAt": r.began.UnixMilli(),
	}))
	r.accept(c.echo())
	select {
	case <-r.done:
	case <-g.ctx.Done():
		return nil, errStopping
	}
	return r.result(), nil
}

func (g *Gateway) agentWait(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	var p struct {
		RunID     string          `json:"runId"`
		TimeoutMS json.RawMessage `json:"timeoutMs"`
	}
	if json.Unmarshal(params, &p) != nil {
		return nil, wire.Invalid("invalid " + wire.MethodAgentWait + " params")
	}
	limit := wire.InvokeTimeout
	if ms, err := strconv.ParseFloat(string(p.TimeoutMS), 64); err == nil && ms >= 0 {
		limit = time.Duration(min(ms, float64(maxInvokeTimeout.Milliseconds()))) * time.Millisecond
	}
	late := map[string]any{"runId": p.RunID, "status": "timeout"}
	r := g.runs.find(c.person.ID, p.RunID)
	if r == nil || !c.opens(r.question.session.bot) {
		return late, nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		return late, nil
	case <-ctx.Done():
		return late, nil
	}
	text, status := r.outcome()
	return map[string]any{"runId": r.id, "status": status, "startedAt": r.began.UnixMilli(),
		"terminalReply": map[string]string{"disposition": "visible", "text": text}}, nil
}

// duplicateWindow is how long a repeated transcript of a node counts as the same question
// (src/gateway/server-node-events.ts, VOICE_TRANSCRIPT_DEDUPE_WINDOW_MS).
const duplicateWindow = 1500 * time.Millisecond

// transcript sends a node's voice transcript to the bot. The node gets the answer if it has
// subscribed to the conversation.
func (n *node) transcript(payload json.RawMessage) ([]byte, *wire.Error) {
	var t wire.Transcript
	if json.Unmarshal(payload, &t) != nil || strings.TrimSpace(t.Text) == "" ||
		utf8.RuneCountInString(t.Text) > wire.MaxTranscript {
		return okPayload, nil
	}
	key := t.SessionKey
	if key == "" {
		key = mainAgent
	}
	fingerprint := key + "\x00" + t.EventID
	if t.EventID == "" {
		fingerprint += "\x00" + t.Text
	}
	n.mu.Lock()
	now := time.Now()
	again := n.lastTranscript == fingerprint && now.Sub(n.lastTranscriptAt) < duplicateWindow
	n.lastTranscript, n.lastTranscriptAt = fingerprint, now
	n.mu.Unlock()
	if !again {
		n.startRun(key, t.Text)
	}
	return okPayload, nil
}

// agentRequest sends a node's question to a bot.
func (n *node) agentRequest(payload json.RawMessage) ([]byte, *wire.Error) {
	var p struct {
		Message string `json:"message"`
		Key     string `json:"sessionKey"`
	}
	if json.Unmarshal(payload, &p) != nil || strings.TrimSpace(p.Message) == "" ||
		utf8.RuneCountInString(p.Message) > wire.MaxTranscript {
		return okPayload, nil
	}
	if p.Key == "" {
		p.Key = "node-" + n.id
	}
	n.startRun(p.Key, p.Message)
	return okPayload, nil
}

// startRun starts a run for a node. A failure is only logged, because nodes get no response
// about runs.
func (n *node) startRun(key, text string) {
	n.g.spawn(func() {
		ctx, cancel := context.WithTimeout(n.g.ctx, databaseTimeout)
		defer cancel()
		s, e := n.g.session(ctx, n.owner, 0, key, "")
		if e == nil {
			var r *run
			if r, _, e = n.g.runs.start(ctx, n.g, &question{
				owner: n.owner, address: n.c.access.Address, lang: n.c.person.Lang, session: s, id: uuid.NewString(),
				parts: []talk.Part{{Text: text}}, mode: wire.QueueInterrupt,
			}); e == nil {
				r.accept(nil)
			}
		}
		if e != nil {
			n.g.Logger.Warn("openclaw: what a node said was not answered", "node", n.id, "error", e.Message)
		}
	})
}
