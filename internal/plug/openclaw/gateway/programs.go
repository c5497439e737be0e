package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// Methods that OpenClaw's own programs call around a conversation.

// botID is the id of a bot as an agent.
func botID(b store.Bot) string { return strconv.FormatInt(b.Number, 10) }

// agentIdentity serves agent.identity.get.
func (g *Gateway) agentIdentity(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	key := cmp.Or(field(params, "sessionKey"), mainAgent)
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, key, field(params, "agentId"))
	if e != nil {
		return nil, e
	}
	return map[string]any{"agentId": botID(s.bot), "name": s.bot.Name, "nameSource": "config"}, nil
}

// chatMetadata serves chat.metadata: what a chat window shows beside the messages.
func (g *Gateway) chatMetadata(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	agents, e := g.agentsList(ctx, c, params)
	if e != nil {
		return nil, e
	}
	return map[string]any{"agentsList": agents, "commands": []any{}, "models": []any{}}, nil
}

// toolsCatalog serves tools.catalog: the tools that the client may call, by provider.
func (g *Gateway) toolsCatalog(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, mainAgent, field(params, "agentId"))
	if e != nil {
		return nil, e
	}
	v, err := c.view(c.person.ID)
	if err != nil {
		return nil, g.internalError(err)
	}
	type tool struct {
		ID          string   `json:"id"`
		Label       string   `json:"label"`
		Description string   `json:"description"`
		Source      string   `json:"source"`
		Profiles    []string `json:"defaultProfiles"`
	}
	type group struct {
		ID     string `json:"id"`
		Label  string `json:"label"`
		Source string `json:"source"`
		Tools  []tool `json:"tools"`
	}
	groups, at := []*group{}, map[string]*group{}
	for _, t := range v.Tools {
		p := t.Provider()
		id := cmp.Or(p.Slug, p.ID)
		if at[id] == nil {
			at[id] = &group{ID: id, Label: cmp.Or(p.Title, id), Source: "plugin"}
			groups = append(groups, at[id])
		}
		at[id].Tools = append(at[id].Tools, tool{t.Name, cmp.Or(t.Title, t.Name), t.Description, "plugin", []string{}})
	}
	return map[string]any{"agentId": botID(s.bot), "profiles": []any{}, "groups": groups}, nil
}

// sessionGet serves sessions.get: the newest messages.
func (g *Gateway) sessionGet(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, x, e := g.named(ctx, c, params)
	if e != nil {
		return nil, e
	}
	if x == nil {
		return map[string]any{"messages": []any{}}, nil
	}
	var p struct {
		Limit int `json:"limit"`
	}
	_ = json.Unmarshal(params, &p) // the default, if it is no number
	s.conversation = x.Conversation
	messages, e := g.messages(ctx, c.person.ID, &s, cmp.Or(min(max(p.Limit, 0), maxHistory), 200))
	if e != nil {
		return nil, e
	}
	return map[string]any{"messages": messages}, nil
}

// maxPreviews limits the conversations of one sessions.preview
// (src/gateway/server-methods/sessions-read.ts).
const maxPreviews = 64

// sessionPreview serves sessions.preview: the last messages of several conversations, cut short.
func (g *Gateway) sessionPreview(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	p := struct {
		Keys     []string `json:"keys"`
		Limit    int      `json:"limit"`
		MaxChars int      `json:"maxChars"`
	}{Limit: 12, MaxChars: maxPreview}
	if json.Unmarshal(params, &p) != nil {
		return nil, wire.Invalid("invalid " + wire.MethodSessionPreview + " params")
	}
	type item struct {
		Role string `json:"role"`
		Text string `json:"text"`
	}
	type preview struct {
		Key    string `json:"key"`
		Status string `json:"status"`
		Items  []item `json:"items"`
	}
	out := []preview{}
	for _, key := range p.Keys[:min(len(p.Keys), maxPreviews)] {
		one := preview{key, "missing", []item{}}
		s, x, e := g.named(ctx, c, encoded(map[string]string{"key": key}))
		if e == nil && x != nil {
			s.conversation = x.Conversation
			var messages []message
			if messages, e = g.messages(ctx, c.person.ID, &s, min(p.Limit, 50)); e == nil {
				one.Status = "ok"
			}
			for _, m := range messages {
				one.Items = append(one.Items, item{m.Role, shorten(m.Content[0].Text, min(p.MaxChars, 2000))})
			}
		}
		if e != nil {
			one.Status = "error"
		}
		out = append(out, one)
	}
	return map[string]any{"ts": time.Now().UnixMilli(), "previews": out}, nil
}

// sessionCompact serves sessions.compact. Bots get the last exchanges of a conversation only, so
// that there is nothing to compact.
func (g *Gateway) sessionCompact(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, _, e := g.named(ctx, c, params)
	if e != nil {
		return nil, e
	}
	return map[string]any{"ok": true, "key": s.key, "compacted": false,
		"reason": "bots get the last exchanges of a conversation only"}, nil
}

// chatInject serves chat.inject: something is said in a conversation as if the bot had said it.
func (g *Gateway) chatInject(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	return g.inject(ctx, c, field(params, "sessionKey"), field(params, "agentId"), field(params, "message"), "")
}

// sendMessage serves send, with which `openclaw mcp serve` speaks in a conversation that it lists.
func (g *Gateway) sendMessage(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	key := cmp.Or(field(params, "sessionKey"), field(params, "to"))
	if name := field(params, "channel"); name != "" && name != channel || key == "" {
		return nil, wire.Invalid("unsupported channel: conversations here have the channel " + channel)
	}
	return g.inject(ctx, c, key, "", field(params, "message"), field(params, "idempotencyKey"))
}

// inject adds a message of the bot to a conversation, and tells clients.
func (g *Gateway) inject(ctx context.Context, c *conn, key, agent, text, id string) (any, *wire.Error) {
	switch text = strings.TrimSpace(text); {
	case text == "":
		return nil, wire.Invalid("message required")
	case len(text) > maxMessage || !utf8.ValidString(text):
		return nil, wire.Invalid("message too long")
	}
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, key, agent)
	if e != nil {
		return nil, e
	}
	x, e := g.stored(ctx, c.person.ID, &s)
	if e != nil {
		return nil, e
	}
	s.conversation = x.Conversation
	id = cmp.Or(id, uuid.NewString())
	turn := uuid.NewSHA1(uuid.NameSpaceOID, []byte(c.person.ID+"\n"+id)).String()
	if _, err := g.Store.Conversations.ByTurn(ctx, turn); err == nil {
		return map[string]any{"ok": true, "messageId": turn, "channel": channel, "runId": id}, nil // said already
	}
	now := time.Now()
	if err := g.Store.Conversations.Save(ctx, store.Exchange{Turn: turn, Bot: s.bot.Number, Person: asker(c.person.ID),
		Conversation: s.conversation, At: now, Answer: text}); err != nil {
		return nil, g.internalError(err)
	}
	q := &question{owner: c.person.ID, session: s}
	m := textMessage(roleAssistant, text, now)
	g.said(ctx, q, turn, m)
	g.broadcast(broadcastEvent{Owner: q.owner, Scope: wire.ScopeRead, Session: s.key, Bot: s.bot.Number,
		Event: wire.EventChat, Payload: encoded(wire.ChatEvent{RunID: turn, SessionKey: s.shown, AgentID: s.agent,
			Seq: 1, State: wire.ChatFinal, Message: encoded(m)})})
	return map[string]any{"ok": true, "messageId": turn, "channel": channel, "runId": id}, nil
}
