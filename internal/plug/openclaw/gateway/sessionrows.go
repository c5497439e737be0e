package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/store"
)

// maxTitle and maxPreview limit a derived title and the preview of a message, in characters
// (src/gateway/session-utils.ts, DERIVED_TITLE_MAX_LEN; session-utils.fs.ts).
const maxTitle, maxPreview = 60, 240

// sessionRow is a conversation in the clients' format (SessionRow in the published schema, with
// members of later versions).
type sessionRow struct {
	Key          string   `json:"key"`
	SessionID    string   `json:"sessionId"`
	Kind         string   `json:"kind"`
	Label        string   `json:"label,omitempty"`
	DisplayName  string   `json:"displayName,omitempty"`
	Title        string   `json:"derivedTitle,omitempty"`
	Preview      string   `json:"lastMessagePreview,omitempty"`
	Channel      string   `json:"channel"`
	AgentID      string   `json:"agentId"`
	ChatType     string   `json:"chatType"`
	IsMain       bool     `json:"isMain,omitempty"`
	Created      int64    `json:"createdAt"`
	Updated      int64    `json:"updatedAt"`
	LastActivity int64    `json:"lastActivityAt"`
	Archived     bool     `json:"archived,omitempty"`
	ArchivedAt   int64    `json:"archivedAt,omitempty"`
	Pinned       bool     `json:"pinned,omitempty"`
	Verbose      string   `json:"verboseLevel,omitempty"`
	Status       string   `json:"status"`
	HasActiveRun bool     `json:"hasActiveRun"`
	ActiveRuns   []string `json:"activeRunIds"`
	SharingRole  string   `json:"sharingRole"`
	// Route is where the answers go; with it, `openclaw mcp serve` lists the conversation.
	Route       route  `json:"deliveryContext"`
	LastChannel string `json:"lastChannel"`
	LastTo      string `json:"lastTo"`
}

// route is where what is said in a conversation goes.
type route struct {
	Channel string `json:"channel"`
	To      string `json:"to"`
}

// rowOf returns the row of a stored session. Enrich adds what is read from its history.
func (g *Gateway) rowOf(ctx context.Context, bot store.Bot, x store.ChatSession, enrich bool) (sessionRow, error) {
	s := sessionOf(bot, x)
	row := sessionRow{
		Key: s.key, SessionID: x.Conversation, Kind: "direct", Label: x.Label, DisplayName: x.Label, Channel: channel,
		AgentID: s.agent, ChatType: "direct", IsMain: x.Name == mainAgent, Created: millis(x.Created),
		Updated: millis(x.Updated), LastActivity: millis(x.Updated), Archived: !x.Archived.IsZero(),
		ArchivedAt: millis(x.Archived), Pinned: x.Pinned, Verbose: x.Verbosity, Status: "done",
		ActiveRuns: []string{}, SharingRole: "owner",
		Route: route{channel, s.key}, LastChannel: channel, LastTo: s.key,
	}
	for _, r := range g.runs.running(x.Owner, s.key) {
		row.Status, row.HasActiveRun, row.ActiveRuns = "running", true, append(row.ActiveRuns, r.id)
	}
	if !enrich {
		return row, nil
	}
	first, last, err := g.Store.Conversations.Ends(ctx, x.Bot, asker(x.Owner), x.Conversation)
	if errors.Is(err, store.ErrNotFound) {
		return row, nil
	}
	row.Title = shorten(cmp.Or(first.Question, first.Answer), maxTitle)
	row.Preview = shorten(cmp.Or(last.Answer, last.Question), maxPreview)
	return row, err
}

// shorten returns a text in one line with at most so many characters.
func shorten(text string, most int) string {
	return cut(strings.Join(strings.Fields(text), " "), most)
}

// cut limits a text to a number of characters.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// rowsOf returns the rows of stored sessions, without those of bots that were removed meanwhile.
func (g *Gateway) rowsOf(ctx context.Context, bots []store.Bot, list []store.ChatSession) ([]sessionRow, error) {
	rows := []sessionRow{}
	for _, x := range list {
		i := slices.IndexFunc(bots, func(b store.Bot) bool { return b.Number == x.Bot })
		if i < 0 {
			continue
		}
		row, err := g.rowOf(ctx, bots[i], x, true)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// matches reports whether the row contains a text.
func (r *sessionRow) matches(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	return text == "" || slices.ContainsFunc([]string{r.Key, r.Label, r.Title, r.Preview}, func(s string) bool {
		return strings.Contains(strings.ToLower(s), text)
	})
}

// sessionsOf returns the response of sessions.list.
func sessionsOf(rows []sessionRow, total, offset, limit int) map[string]any {
	if rows == nil {
		rows = []sessionRow{}
	}
	return map[string]any{"ts": time.Now().UnixMilli(), "count": len(rows), "totalCount": total, "limitApplied": limit,
		"hasMore": total > offset+len(rows), "sessions": rows,
		"defaults": map[string]any{"modelProvider": nil, "model": nil, "contextTokens": nil}}
}
