package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

const (
	// maxSessions limits the rows of a list, and those that are searched, newest first.
	maxSessions = 1000
	// sessionsPerList is the default size of a list
	// (src/gateway/session-utils.ts, SESSIONS_LIST_DEFAULT_LIMIT).
	sessionsPerList = 100
	// maxLabel limits a label, in characters (packages/gateway-protocol/src/schema/sessions.ts).
	maxLabel = 512
)

// sessionOf returns the conversation of a stored session, under its own key.
func sessionOf(bot store.Bot, x store.ChatSession) session {
	agent := botID(bot)
	key := sessionKey(agent, x.Name)
	return session{key: key, shown: key, agent: agent, name: x.Name, bot: bot, conversation: x.Conversation}
}

func sessionKey(agent, name string) string { return "agent:" + agent + ":" + name }

// newConversation returns a name for the exchanges of a session. It is never used again, so that
// what was said before a reset, or in a session that was deleted, does not come back.
func newConversation(name string) string { return name + "#" + uuid.NewString()[:8] }

// stored returns the stored session of a conversation, which is added if there is none.
func (g *Gateway) stored(ctx context.Context, owner string, s *session) (store.ChatSession, *wire.Error) {
	x, err := g.Store.ChatSessions.Get(ctx, owner, s.bot.Number, s.name)
	if err == nil {
		return x, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return x, g.internalError(err)
	}
	now := time.Now()
	x, err = g.Store.ChatSessions.Open(ctx, store.ChatSession{Owner: owner, Bot: s.bot.Number, Name: s.name,
		Conversation: newConversation(s.name), Created: now, Updated: now})
	if err != nil {
		return x, g.internalError(err)
	}
	return x, nil
}

// named returns the conversation that a request names, and its stored session; nil if there is
// none.
func (g *Gateway) named(ctx context.Context, c *conn, params []byte) (session, *store.ChatSession, *wire.Error) {
	key := cmp.Or(field(params, "key"), field(params, "sessionKey"))
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, key, field(params, "agentId"))
	if e != nil {
		return s, nil, e
	}
	x, err := g.Store.ChatSessions.Get(ctx, c.person.ID, s.bot.Number, s.name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return s, nil, nil
	case err != nil:
		return s, nil, g.internalError(err)
	}
	return s, &x, nil
}

// sessionFilter are the parameters of sessions.list.
type sessionFilter struct {
	Limit    int             `json:"limit"`
	Offset   int             `json:"offset"`
	Minutes  int             `json:"activeMinutes"`
	Agent    string          `json:"agentId"`
	Search   string          `json:"search"`
	Label    string          `json:"label"`
	Archived json.RawMessage `json:"archived"`
}

// sessionsList serves sessions.list.
func (g *Gateway) sessionsList(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	var p sessionFilter
	if len(params) > 0 && json.Unmarshal(params, &p) != nil {
		return nil, wire.Invalid("invalid " + wire.MethodSessionsList + " params")
	}
	f := store.ChatSessionFilter{Owner: c.person.ID, Bot: c.access.OnlyBot, Archived: string(p.Archived) == "true",
		All: string(p.Archived) == `"all"`}
	if p.Minutes > 0 {
		f.Since = time.Now().Add(-time.Duration(min(p.Minutes, 1<<30)) * time.Minute)
	}
	if p.Agent != "" {
		bot, err := g.agentBot(ctx, c.person.ID, c.access.OnlyBot, p.Agent)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return sessionsOf(nil, 0, 0, p.Limit), nil
		case err != nil:
			return nil, g.internalError(err)
		}
		f.Bot = bot.Number
	}
	bots, err := g.bots(ctx, c.person.ID, c.access.OnlyBot)
	if err != nil {
		return nil, g.internalError(err)
	}
	f.Label = p.Label
	limit, offset := min(cmp.Or(max(p.Limit, 0), sessionsPerList), maxSessions), max(p.Offset, 0)
	if p.Search != "" {
		return g.searchSessions(ctx, bots, f, p.Search, offset, limit)
	}
	found, total, err := g.Store.ChatSessions.List(ctx, f, offset, limit)
	if err != nil {
		return nil, g.internalError(err)
	}
	rows, err := g.rowsOf(ctx, bots, found)
	if err != nil {
		return nil, g.internalError(err)
	}
	return sessionsOf(rows, total, offset, limit), nil
}

// searchSessions looks for a text in the titles and last words of the newest sessions.
func (g *Gateway) searchSessions(ctx context.Context, bots []store.Bot, f store.ChatSessionFilter, text string,
	offset, limit int) (any, *wire.Error) {
	found, _, err := g.Store.ChatSessions.List(ctx, f, 0, maxSessions)
	if err != nil {
		return nil, g.internalError(err)
	}
	rows, err := g.rowsOf(ctx, bots, found)
	if err != nil {
		return nil, g.internalError(err)
	}
	rows = slices.DeleteFunc(rows, func(r sessionRow) bool { return !r.matches(text) })
	offset = min(offset, len(rows))
	return sessionsOf(rows[offset:min(offset+limit, len(rows))], len(rows), offset, limit), nil
}

// sessionsSubscribe serves sessions.subscribe: the client hears of all conversations from now on.
func (g *Gateway) sessionsSubscribe(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	c.mu.Lock()
	c.hearsSessions = true
	c.mu.Unlock()
	out := map[string]any{"subscribed": true}
	if in := jsonrpc.Scan(params); in.IsObject() && in.Next() {
		list, e := g.sessionsList(ctx, c, params)
		if e != nil {
			return nil, e
		}
		out["list"] = list
	}
	return out, nil
}

// sessionDescribe serves sessions.describe.
func (g *Gateway) sessionDescribe(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, x, e := g.named(ctx, c, params)
	if e != nil || x == nil {
		return map[string]any{"session": nil}, e
	}
	row, err := g.rowOf(ctx, s.bot, *x, true)
	if err != nil {
		return nil, g.internalError(err)
	}
	return map[string]any{"session": row}, nil
}

// sessionResolve serves sessions.resolve: a key, or a label.
func (g *Gateway) sessionResolve(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	if label := field(params, "label"); label != "" {
		found, _, err := g.Store.ChatSessions.List(ctx, store.ChatSessionFilter{Owner: c.person.ID,
			Bot: c.access.OnlyBot, Label: label, All: true}, 0, 2)
		if err != nil {
			return nil, g.internalError(err)
		}
		if len(found) > 1 {
			return nil, wire.Invalid("several sessions have this label")
		}
		if len(found) == 1 {
			s := sessionOf(store.Bot{Number: found[0].Bot}, found[0])
			return map[string]any{"ok": true, "key": s.key, "agentId": s.agent, "displayName": label}, nil
		}
	} else if s, x, e := g.named(ctx, c, params); e != nil {
		return nil, e
	} else if x != nil {
		own := sessionOf(s.bot, *x)
		return map[string]any{"ok": true, "key": own.key, "agentId": own.agent}, nil
	}
	if string(jsonrpc.Member(params, "allowMissing")) == "true" {
		return map[string]any{"ok": false}, nil
	}
	return nil, errNoSession
}

var errNoSession = wire.Invalid("No session found")

// sessionCreate serves sessions.create. A session that exists is returned as it is.
func (g *Gateway) sessionCreate(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	for _, name := range wire.UnsupportedSessionMembers {
		if v := string(jsonrpc.Member(params, name)); v != "" && v != "null" && v != "false" && v != `""` {
			return nil, wire.Invalid("invalid " + wire.MethodSessionCreate + " params: this gateway has no " + name)
		}
	}
	key := cmp.Or(field(params, "key"), uuid.NewString())
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, key, field(params, "agentId"))
	if e != nil {
		return nil, e
	}
	x, e := g.stored(ctx, c.person.ID, &s)
	if e != nil {
		return nil, e
	}
	label, e := readLabel(cmp.Or(field(params, "label"), field(params, "displayName")))
	if e != nil {
		return nil, e
	}
	if label != "" && x.Label == "" {
		x.Label = label
		if err := g.Store.ChatSessions.Save(ctx, x); err != nil {
			return nil, g.internalError(err)
		}
	}
	own := sessionOf(s.bot, x)
	row, err := g.rowOf(ctx, s.bot, x, false)
	if err != nil {
		return nil, g.internalError(err)
	}
	g.sessionChanged(ctx, s.bot, x, "create")
	out := map[string]any{"ok": true, "key": own.key, "sessionId": x.Conversation, "entry": row, "runStarted": false}
	message := cmp.Or(field(params, "message"), field(params, "task"))
	if strings.TrimSpace(message) == "" {
		return out, nil
	}
	id := cmp.Or(field(params, "idempotencyKey"), uuid.NewString())
	asked, e := g.ask(ctx, c, own, &wire.ChatSend{Message: message, IdempotencyKey: id})
	if e != nil {
		out["runError"] = map[string]any{"code": e.Code, "message": e.Message}
		return out, nil
	}
	out["runStarted"], out["runId"] = true, id
	return answered{out, asked.then}, nil
}

// sessionPatch serves sessions.patch: the label, and the flags of the list.
func (g *Gateway) sessionPatch(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, x, e := g.named(ctx, c, params)
	switch {
	case e != nil:
		return nil, e
	case x == nil:
		return nil, errNoSession
	}
	if id := field(params, "expectedSessionId"); id != "" && id != x.Conversation {
		return nil, errSessionChanged
	}
	for in := jsonrpc.Scan(params); in.Next(); {
		name, is := string(in.Key), string(in.Value) == "true"
		switch {
		case name == "label":
			if in.Value[0] != '"' && string(in.Value) != "null" {
				return nil, wire.Invalid("invalid label: must be string")
			}
			var e *wire.Error
			if x.Label, e = readLabel(jsonrpc.Text(in.Value)); e != nil {
				return nil, e
			}
		case name == "verboseLevel":
			level := jsonrpc.Text(in.Value)
			if string(in.Value) != "null" && !slices.Contains(verboseLevels, level) {
				return nil, wire.Invalid(`invalid verboseLevel (use "off"|"on"|"full")`)
			}
			x.Verbosity = level
		case name == "pinned":
			x.Pinned = is
		case name == "archived" && is:
			x.Archived = time.Now()
		case name == "archived":
			x.Archived = time.Time{}
		case name == "unread" || name == "key" || name == "agentId" || strings.HasPrefix(name, "expected"):
		default:
			return nil, wire.Invalid("invalid " + wire.MethodSessionPatch + " params: this gateway has no " + name)
		}
	}
	return g.saveSession(ctx, s.bot, x, "patch")
}

// verboseLevels say how much of the tools that a bot uses is shown to people: nothing, their names,
// or their results too (src/auto-reply/thinking.ts, normalizeVerboseLevel).
var verboseLevels = []string{"off", "on", "full"}

// readLabel returns a label without surrounding spaces.
func readLabel(text string) (string, *wire.Error) {
	text = strings.TrimSpace(text)
	switch {
	case utf8.RuneCountInString(text) > maxLabel:
		return "", wire.Invalid("invalid label: too long")
	case !isReadable(text):
		return "", wire.Invalid("invalid label: it has characters that people cannot see")
	}
	return text, nil
}

// isReadable reports whether people can read a text, which has one line. A joiner is part of many
// emoji.
func isReadable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) && r != '\u200d' })
}

var errSessionChanged = &wire.Error{Code: wire.InvalidRequest, Message: "The session has changed; read it again.",
	Details: json.RawMessage(`{"reason":"session-changed"}`)}

// saveSession stores a changed session, tells clients, and returns the response.
func (g *Gateway) saveSession(ctx context.Context, bot store.Bot, x *store.ChatSession, reason string) (any,
	*wire.Error) {
	x.Updated = time.Now()
	if err := g.Store.ChatSessions.Save(ctx, *x); err != nil {
		return nil, g.internalError(err)
	}
	row, err := g.rowOf(ctx, bot, *x, true)
	if err != nil {
		return nil, g.internalError(err)
	}
	g.sessionChanged(ctx, bot, *x, reason)
	return map[string]any{"ok": true, "key": row.Key, "entry": row}, nil
}

// sessionReset serves sessions.reset: the conversation begins anew under the same key. What was
// said before stays in the owner's records.
func (g *Gateway) sessionReset(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, e := g.session(ctx, c.person.ID, c.access.OnlyBot, field(params, "key"), field(params, "agentId"))
	if e != nil {
		return nil, e
	}
	x, e := g.stored(ctx, c.person.ID, &s)
	if e != nil {
		return nil, e
	}
	if id := field(params, "expectedSessionId"); id != "" && id != x.Conversation {
		return nil, errSessionChanged
	}
	g.abortRuns(c.person.ID, &s, "")
	x.Conversation = newConversation(x.Name)
	return g.saveSession(ctx, s.bot, &x, cmp.Or(field(params, "reason"), "reset"))
}

// sessionDelete serves sessions.delete: the conversation and what was said in it since the last
// reset.
func (g *Gateway) sessionDelete(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	s, x, e := g.named(ctx, c, params)
	if e != nil {
		return nil, e
	}
	out := map[string]any{"ok": true, "key": s.key, "deleted": false, "archived": []string{}}
	if x == nil || string(jsonrpc.Member(params, "archivedOnly")) == "true" && x.Archived.IsZero() {
		return out, nil
	}
	if id := field(params, "expectedSessionId"); id != "" && id != x.Conversation {
		return nil, errSessionChanged
	}
	g.abortRuns(c.person.ID, &s, "")
	switch err := g.Store.ChatSessions.Remove(ctx, *x, asker(c.person.ID)); {
	case errors.Is(err, store.ErrNotFound):
		return out, nil
	case err != nil:
		return nil, g.internalError(err)
	}
	g.sessionChanged(ctx, s.bot, *x, "delete")
	out["key"], out["deleted"] = sessionOf(s.bot, *x).key, true
	return out, nil
}

// abortRuns stops the active runs of a conversation, or one of them, and returns their ids.
func (g *Gateway) abortRuns(owner string, s *session, id string) []string {
	stopped := []string{}
	for _, r := range g.runs.running(owner, s.key) {
		if (id == "" || r.id == id) && r.abort("rpc") {
			stopped = append(stopped, r.id)
		}
	}
	return stopped
}

// sessionAbort serves sessions.abort.
func (g *Gateway) sessionAbort(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	id := field(params, "runId")
	if field(params, "key") == "" {
		r := g.runs.find(c.person.ID, id)
		if r == nil || !c.opens(r.question.session.bot) {
			return map[string]any{"ok": true, "abortedRunId": nil, "status": "no-active-run"}, nil
		}
		if r.abort("rpc") {
			return map[string]any{"ok": true, "abortedRunId": r.id, "status": "aborted"}, nil
		}
		return map[string]any{"ok": true, "abortedRunId": nil, "status": "no-active-run"}, nil
	}
	s, _, e := g.named(ctx, c, params)
	if e != nil {
		return nil, e
	}
	stopped := g.abortRuns(c.person.ID, &s, id)
	if len(stopped) == 0 {
		return map[string]any{"ok": true, "abortedRunId": nil, "status": "no-active-run"}, nil
	}
	return map[string]any{"ok": true, "abortedRunId": stopped[0], "status": "aborted"}, nil
}
