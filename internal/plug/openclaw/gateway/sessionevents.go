package gateway

import (
	"context"
	"slices"
	"strings"
	"time"

	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// text returns what was asked, without pictures.
func (q *question) text() string {
	var texts []string
	for _, p := range q.parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// messageEvent is the payload of session.message.
type messageEvent struct {
	SessionKey string `json:"sessionKey"`
	AgentID    string `json:"agentId"`
	SessionID  string `json:"sessionId"`
	MessageID  string `json:"messageId"`
	RunID      string `json:"runId,omitempty"`
	// SenderIsOwner: only the owner of a conversation speaks in it.
	SenderIsOwner bool    `json:"senderIsOwner,omitempty"`
	Message       message `json:"message"`
	Updated       int64   `json:"updatedAt"`
	LastChannel   string  `json:"lastChannel"`
	LastTo        string  `json:"lastTo"`
}

// said tells clients what was said in a run, and notes the time for the list of conversations.
func (g *Gateway) said(ctx context.Context, q *question, runID string, m message) {
	s := &q.session
	now := time.Now()
	if err := g.Store.ChatSessions.Touch(ctx, q.owner, s.bot.Number, s.name, now); err != nil {
		g.Logger.Warn("openclaw: when a conversation went on was not noted", "error", err)
	}
	m = m.named(runID)
	m.Meta.RunID = runID
	if m.Role == roleUser {
		m.Key = runID + ":user"
	}
	g.broadcast(broadcastEvent{Owner: q.owner, Scope: wire.ScopeRead, Session: s.key, Bot: s.bot.Number, Index: true,
		Event: wire.EventSessionMessage, Payload: encoded(messageEvent{
			SessionKey: s.key, AgentID: botID(s.bot), SessionID: s.conversation, MessageID: m.Meta.ID, RunID: runID,
			SenderIsOwner: m.Role == roleUser, Message: m, Updated: now.UnixMilli(), LastChannel: channel,
			LastTo: s.key,
		})})
}

// ended tells clients that a run has ended, with its answer if there is one.
func (g *Gateway) ended(n *run, text string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.ctx), databaseTimeout)
	defer cancel()
	q := n.question
	if text != "" {
		g.said(ctx, q, n.id, textMessage(roleAssistant, text, time.Now()))
	}
	if !g.isFollowed(q.owner) {
		return
	}
	x, err := g.Store.ChatSessions.Get(ctx, q.owner, q.session.bot.Number, q.session.name)
	if err != nil {
		return // it was deleted meanwhile
	}
	phase := "end"
	if _, status := n.outcome(); status == statusError {
		phase = "error"
	}
	g.announceSession(ctx, q.session.bot, x, map[string]any{"phase": phase, "runId": n.id})
}

// isFollowed reports whether somebody may follow the list of a person's conversations. On other
// instances that is not known here.
func (g *Gateway) isFollowed(owner string) bool {
	return g.Broadcast != nil || slices.ContainsFunc(g.operators(owner), func(c *conn) bool {
		return c.follows("", wire.EventSessionsChanged)
	})
}

// sessionChanged tells clients that a conversation has changed.
func (g *Gateway) sessionChanged(ctx context.Context, bot store.Bot, x store.ChatSession, reason string) {
	g.announceSession(ctx, bot, x, map[string]any{"reason": reason})
}

// announceSession sends sessions.changed with a row and what happened.
func (g *Gateway) announceSession(ctx context.Context, bot store.Bot, x store.ChatSession, payload map[string]any) {
	row, err := g.rowOf(ctx, bot, x, true)
	if err != nil {
		g.Logger.Warn("openclaw: a conversation could not be read", "error", err)
		return
	}
	payload["sessionKey"], payload["agentId"], payload["sessionId"] = row.Key, row.AgentID, row.SessionID
	payload["updatedAt"], payload["ts"] = row.Updated, time.Now().UnixMilli()
	if payload["reason"] != "delete" {
		payload["session"] = row
	}
	g.broadcast(broadcastEvent{Owner: x.Owner, Scope: wire.ScopeRead, Session: row.Key, Bot: bot.Number, Index: true,
		Event: wire.EventSessionsChanged, Payload: encoded(payload)})
}
