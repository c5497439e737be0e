package gateway

import (
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

	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// mainAgent is the agent that is meant if none is named: a person's first bot.
const mainAgent = "main"

const (
	// maxMessage bounds what somebody says at once, in bytes.
	maxMessage = 1 << 20
	// maxPicture bounds a picture, in bytes; maxPictures how many come at once.
	maxPicture  = 6 << 20
	maxPictures = 10
	// maxHistory is how many messages are told at once.
	maxHistory = 1000
)

// session is a conversation with a bot.
type session struct {
	key   string // as clients know it: agent:<agent>:<name>
	agent string // as it was named
	name  string
	bot   store.Bot
}

// session finds the conversation with a key. Only is the only bot that may be asked; 0:
// any of the person's.
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
	if s.name == "" || utf8.RuneCountInString(s.name) > wire.MaxSessionKey {
		return s, wire.Invalid("invalid session key")
	}
	s.key = "agent:" + s.agent + ":" + s.name
	var err error
	s.bot, err = g.agentBot(ctx, person, only, s.agent)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return s, wire.Invalid(fmt.Sprintf("Agent %q no longer exists in configuration", s.agent))
	case err != nil:
		return s, g.trouble(err)
	}
	return s, nil
}

// agentBot is the bot that an agent is.
func (g *Gateway) agentBot(ctx context.Context, person string, only int64, agent string) (store.Bot, error) {
	if agent != mainAgent {
		b, err := g.Hub.Registry.Find(ctx, person, agent)
		if err == nil && (b.Owner != person || only != 0 && only != b.Number) {
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

// bots are the bots that may be asked.
func (g *Gateway) bots(ctx context.Context, person string, only int64) ([]store.Bot, error) {
	bots, err := g.Store.Bots.ByOwner(ctx, person)
	return slices.DeleteFunc(bots, func(b store.Bot) bool { return only != 0 && only != b.Number }), err
}

func (g *Gateway) agentsList(ctx context.Context, c *conn, _ []byte) (any, *wire.Error) {
	bots, err := g.bots(ctx, c.person.ID, c.access.Only)
	if err != nil {
		return nil, g.trouble(err)
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
		id := strconv.FormatInt(b.Number, 10)
		if i == 0 {
			out.Default = id // mainAgent means it too, and is not listed besides
		}
		out.Agents = append(out.Agents, agent{id, b.Name})
	}
	return out, nil
}

// asker tells the people who ask a bot apart.
func asker(person string) string { return door + ":" + person }

// question is what somebody says, as every way in makes it.
type question struct {
	owner   string
	bound   string // the rules of the key by which is asked
	alone   bool   // the key is for this bot alone
	lang    string
	session session
	id      string // of the run
	parts   []talk.Part
	mode    string        // of a run in whose conversation another one is answered
	limit   time.Duration // 0: none of its own
	address string
}

func (q *question) turn() *talk.Turn {
	return &talk.Turn{
		Bot: q.session.bot.Number, Door: door, Address: q.address, Person: asker(q.owner), Bound: q.bound, Alone: q.alone, Conversation: q.session.name, Lang: talk.ParseLang(q.lang, talk.English), Parts: q.parts,
	}
}

func (g *Gateway) chatSend(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	var p wire.ChatSend
	if json.Unmarshal(params, &p) != nil {
		return nil, wire.Invalid("invalid " + wire.MethodChatSend + " params")
	}
	parts, e := partsOf(p.Message, p.Attachments)
	if e != nil {
		return nil, e
	}
	s, e := g.session(ctx, c.person.ID, c.access.Only, p.SessionKey, p.AgentID)
	if e != nil {
		return nil, e
	}
	r, again, e := g.runs.begin(g, &question{
		owner: c.person.ID, address: c.access.Address, bound: c.access.Bound, alone: c.access.Only != 0, lang: c.person.Lang, session: s, id: p.IdempotencyKey, parts: parts, mode: p.QueueMode, limit: time.Duration(max(0, min(p.TimeoutMS, maxInvoke.Milliseconds()))) * time.Millisecond,
	})
	if e != nil {
		return nil, e
	}
	return wire.Run{RunID: p.IdempotencyKey, Status: r.status("started", again), Interrupted: r.interrupted && !again}, nil
}

// partsOf is what was said, with pictures.
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
			return nil, wire.Invalid("unsupported attachment: only pictures (JPEG, PNG, WebP, GIF) can be shown to bots")
		}
		parts = append(parts, talk.Part{Image: &talk.Image{MIME: mime, Data: a.Content}})
	}
	if len(parts) == 0 {
		return nil, wire.Invalid("message or attachment required")
	}
	return parts, nil
}

func (g *Gateway) chatAbort(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, e := g.session(ctx, c.person.ID, c.access.Only, field(params, "sessionKey"), field(params, "agentId"))
	if e != nil {
		return nil, e
	}
	id := field(params, "runId")
	out := wire.Aborted{OK: true, RunIDs: []string{}}
	for _, r := range g.runs.running(c.person.ID, s.key) {
		if (id == "" || r.id == id) && r.abort("rpc") {
			out.RunIDs = append(out.RunIDs, r.id)
		}
	}
	out.Aborted = len(out.RunIDs) > 0
	return out, nil
}

// message is a message as clients read it.
type message struct {
	Role      string `json:"role"`
	Content   []part `json:"content"`
	Timestamp int64  `json:"timestamp"`
	Key       string `json:"idempotencyKey,omitempty"`
}

type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func said(role, text string, at time.Time) message {
	return message{Role: role, Content: []part{{"text", text}}, Timestamp: at.UnixMilli()}
}

func (g *Gateway) chatHistory(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	var p wire.ChatHistory
	if json.Unmarshal(params, &p) != nil {
		return nil, wire.Invalid("invalid " + wire.MethodChatHistory + " params")
	}
	s, e := g.session(ctx, c.person.ID, c.access.Only, p.SessionKey, field(params, "agentId"))
	if e != nil {
		return nil, e
	}
	limit := min(max(p.Limit, 0), maxHistory)
	if limit == 0 {
		limit = 200
	}
	last, err := g.Store.Conversations.Last(ctx, s.bot.Number, asker(c.person.ID), s.name, (limit+1)/2)
	if err != nil {
		return nil, g.trouble(err)
	}
	messages := []message{}
	for _, x := range last {
		messages = append(messages, said("user", x.Question, x.At))
		if x.Answer != "" {
			messages = append(messages, said("assistant", x.Answer, x.At))
		}
	}
	if len(messages) > limit {
		messages = messages[len(messages)-limit:]
	}
	out := map[string]any{"sessionKey": s.key, "sessionId": s.key, "messages": messages, "hasMore": false, "totalMessages": len(messages)}
	if running := g.runs.running(c.person.ID, s.key); len(running) > 0 {
		out["inFlightRun"] = running[0].inFlight()
	}
	return out, nil
}

// agent carries out the method of that name, which is answered twice.
func (g *Gateway) agent(c *conn, id string, params []byte) (any, *wire.Error) {
	if e := wire.ShapeAgent.Invalid(params); e != nil {
		return nil, e
	}
	var p wire.Agent
	if json.Unmarshal(params, &p) != nil {
		return nil, wire.Invalid("invalid " + wire.MethodAgent + " params")
	}
	parts, e := partsOf(p.Message, nil)
	if e != nil {
		return nil, e
	}
	if p.SessionKey == "" {
		p.SessionKey = mainAgent
	}
	s, e := g.session(g.ctx, c.person.ID, c.access.Only, p.SessionKey, p.AgentID)
	if e != nil {
		return nil, e
	}
	r, again, e := g.runs.begin(g, &question{
		owner: c.person.ID, address: c.access.Address, bound: c.access.Bound, alone: c.access.Only != 0, lang: c.person.Lang, session: s, id: p.IdempotencyKey, parts: parts, limit: time.Duration(max(0, min(p.Timeout, int64(maxInvoke/time.Second)))) * time.Second,
	})
	if e != nil {
		return nil, e
	}
	c.answer(id, encoded(map[string]any{
		"runId": r.id, "sessionKey": s.key, "agentId": s.agent, "status": r.status("accepted", again), "acceptedAt": r.began.UnixMilli(),
	}))
	select {
	case <-r.done:
	case <-g.ctx.Done():
		return nil, stopping
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
		limit = time.Duration(min(ms, float64(maxInvoke.Milliseconds()))) * time.Millisecond
	}
	late := map[string]any{"runId": p.RunID, "status": "timeout"}
	r := g.runs.find(c.person.ID, p.RunID)
	if r == nil {
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
	return map[string]any{"runId": r.id, "status": status, "startedAt": r.began.UnixMilli(), "terminalReply": map[string]string{"disposition": "visible", "text": text}}, nil
}

// voiceAgain is for how long the same words of a node are the same question.
const voiceAgain = 1500 * time.Millisecond

// transcript asks the bot what somebody said to a node. The node hears the answer if
// it has subscribed to the conversation.
func (n *node) transcript(payload json.RawMessage) ([]byte, *wire.Error) {
	var t wire.Transcript
	if json.Unmarshal(payload, &t) != nil || strings.TrimSpace(t.Text) == "" || utf8.RuneCountInString(t.Text) > wire.MaxTranscript {
		return okPayload, nil
	}
	key := t.SessionKey
	if key == "" {
		key = mainAgent
	}
	print := key + "\x00" + t.EventID
	if t.EventID == "" {
		print += "\x00" + t.Text
	}
	n.mu.Lock()
	now := time.Now()
	again := n.lastSaid == print && now.Sub(n.lastSaidAt) < voiceAgain
	n.lastSaid, n.lastSaidAt = print, now
	n.mu.Unlock()
	if !again {
		n.say(key, t.Text)
	}
	return okPayload, nil
}

// agentRequest asks a bot what a node wants to know.
func (n *node) agentRequest(payload json.RawMessage) ([]byte, *wire.Error) {
	var p struct {
		Message string `json:"message"`
		Key     string `json:"sessionKey"`
	}
	if json.Unmarshal(payload, &p) != nil || strings.TrimSpace(p.Message) == "" || utf8.RuneCountInString(p.Message) > wire.MaxTranscript {
		return okPayload, nil
	}
	if p.Key == "" {
		p.Key = "node-" + n.id
	}
	n.say(p.Key, p.Message)
	return okPayload, nil
}

// say begins a run for a node. That it could not is known only to the log, as the node
// is told nothing about its runs.
func (n *node) say(key, text string) {
	n.g.spawn(func() {
		ctx, cancel := context.WithTimeout(n.g.ctx, databaseLimit)
		defer cancel()
		s, e := n.g.session(ctx, n.owner, 0, key, "")
		if e == nil {
			_, _, e = n.g.runs.begin(n.g, &question{
				owner: n.owner, address: n.c.access.Address, lang: n.c.person.Lang, session: s, id: uuid.NewString(), parts: []talk.Part{{Text: text}}, mode: wire.QueueInterrupt,
			})
		}
		if e != nil {
			n.g.Logger.Warn("openclaw: what a node said was not answered", "node", n.id, "error", e.Message)
		}
	})
}
