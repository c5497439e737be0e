package bots

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// URIs and limits of the resources.
const (
	uriTraces       = "patchbay://traces"
	uriCalls        = "patchbay://calls"
	uriConversation = "patchbay://conversations/"
	mimeJSON        = "application/json"
	// pageSize is the number of conversations per page; maxRecords is the number of traces or
	// calls in one read.
	pageSize   = 50
	maxRecords = 100
	// maxExchanges is the number of exchanges in one read of a conversation.
	maxExchanges = 200
)

// Resources implements [tool.ResourceProvider]. It lists the newest traces and calls on the first
// page, and each conversation. The cursor is the time of the last listed conversation in Unix
// milliseconds.
func (p *Provider) Resources(ctx context.Context, who tool.Caller, cursor string) ([]tool.Resource, string, error) {
	may, ok := readable(who)
	if !ok {
		return nil, "", nil
	}
	var out []tool.Resource
	before := time.Now().Add(time.Minute)
	if cursor == "" {
		if who.OnlyBot == 0 {
			out = append(out,
				tool.Resource{URI: uriTraces, Name: "traces", Title: "Newest turns",
					Description: "What was asked of the bots lately, how long it took and how it ended",
					MIME:        mimeJSON},
				tool.Resource{URI: uriCalls, Name: "calls", Title: "Newest calls",
					Description: "Which tools were called lately, by whom, and how it ended", MIME: mimeJSON})
		}
	} else if ms, err := strconv.ParseInt(cursor, 10, 64); err == nil {
		before = time.UnixMilli(ms)
	}
	list, err := p.Hub.Store.Conversations.Readable(ctx, may, before, pageSize)
	if err != nil {
		return nil, "", err
	}
	for _, c := range list {
		out = append(out, tool.Resource{
			URI: conversationURI(c), Name: fmt.Sprintf("conversation-%d-%s", c.Bot, c.Person),
			Title: fmt.Sprintf("%s, %s", c.BotName, c.Last.Format("2006-01-02 15:04")), MIME: mimeJSON,
			Description: fmt.Sprintf("%d exchanges of %s with %s", c.Exchanges, c.Person, c.BotName),
		})
	}
	next := ""
	if len(list) == pageSize {
		next = strconv.FormatInt(list[len(list)-1].Last.UnixMilli(), 10)
	}
	return out, next, nil
}

// readable returns which conversations and records a caller may read; false if none.
func readable(who tool.Caller) (*store.Readable, bool) {
	rules, err := hub.ParseRules(who.KeyRules)
	reads, err2 := hub.ParseReads(rules.Reads)
	if who.Person == "" || err != nil || err2 != nil || reads.None {
		return nil, false
	}
	return &store.Readable{Owner: who.Person, All: reads.All, Key: who.Key, Person: person(who, nil, who.Person),
		Bots: reads.Bots,
		Bot:  who.OnlyBot}, true
}

// mayRead reports whether r selects what a person said to a bot.
func mayRead(r *store.Readable, bot int64, person string) bool {
	return (r.Bot == 0 || r.Bot == bot) && (r.All || r.Person == person || slices.Contains(r.Bots, bot))
}

func conversationURI(c store.Conversation) string {
	return fmt.Sprintf("%s%d/%s/%s", uriConversation, c.Bot, escapeSegment(c.Person), escapeSegment(c.Conversation))
}

// escapeSegment encodes text as one URI segment, in base64url (RFC 4648 §5) without padding; "-"
// stands for the empty text.
func escapeSegment(text string) string {
	if text == "" {
		return "-"
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func unescapeSegment(w string) (string, bool) {
	if w == "-" {
		return "", true
	}
	text, err := base64.RawURLEncoding.DecodeString(w)
	return string(text), err == nil
}

// Templates implements [tool.ResourceProvider].
func (p *Provider) Templates(_ context.Context, who tool.Caller) ([]tool.Template, error) {
	if _, ok := readable(who); !ok || who.OnlyBot != 0 {
		return nil, nil
	}
	return []tool.Template{{
		URITemplate: uriTraces + "/{turn}", Name: "trace", Title: "One turn",
		Description: "The record of one turn and of the tools that were called in it", MIME: mimeJSON,
	}}, nil
}

// Read implements [tool.ResourceProvider].
func (p *Provider) Read(ctx context.Context, who tool.Caller, uri string) ([]tool.Contents, error) {
	may, ok := readable(who)
	if !ok {
		return nil, tool.ErrNotFound
	}
	if rest, ok := strings.CutPrefix(uri, uriConversation); ok {
		return p.readConversation(ctx, may, uri, rest)
	}
	if who.OnlyBot != 0 {
		return nil, tool.ErrNotFound
	}
	db := p.Hub.Store
	switch {
	case uri == uriTraces:
		list, err := db.Traces.Readable(ctx, may, maxRecords)
		return contents(uri, list, err)
	case uri == uriCalls:
		list, err := db.Calls.Readable(ctx, may, maxRecords)
		return contents(uri, list, err)
	}
	turn, ok := strings.CutPrefix(uri, uriTraces+"/")
	if !ok {
		return nil, tool.ErrNotFound
	}
	trace, err := db.Traces.ByTurn(ctx, turn)
	if err == store.ErrNotFound || err == nil && (trace.Owner != who.Person || !mayRead(may, trace.Bot, trace.Person)) {
		return nil, tool.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	calls, err := db.Calls.ByTurn(ctx, turn)
	return contents(uri, map[string]any{"trace": trace, "calls": append([]store.Call{}, calls...)}, err)
}

func (p *Provider) readConversation(ctx context.Context, may *store.Readable, uri, rest string) ([]tool.Contents,
	error) {
	parts := strings.Split(rest, "/")
	if len(parts) != 3 {
		return nil, tool.ErrNotFound
	}
	number, err := strconv.ParseInt(parts[0], 10, 64)
	person, ok1 := unescapeSegment(parts[1])
	conversation, ok2 := unescapeSegment(parts[2])
	if err != nil || !ok1 || !ok2 || !mayRead(may, number, person) {
		return nil, tool.ErrNotFound
	}
	bot, err := p.Hub.Store.Bots.ByNumber(ctx, number)
	if err == store.ErrNotFound || err == nil && bot.Owner != may.Owner {
		return nil, tool.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	list, err := p.Hub.Store.Conversations.Last(ctx, number, person, conversation, maxExchanges)
	list = slices.DeleteFunc(list, func(e store.Exchange) bool { return e.ActsFor != "" }) // not the owner's
	if err == nil && len(list) == 0 {
		return nil, tool.ErrNotFound
	}
	return contents(uri, map[string]any{"bot": bot.Name, "exchanges": list}, err)
}

func contents(uri string, v any, err error) ([]tool.Contents, error) {
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	s := string(text)
	return []tool.Contents{{URI: uri, MIME: mimeJSON, Text: &s}}, nil
}

// Prompts implements [tool.PromptProvider].
func (p *Provider) Prompts(_ context.Context, who tool.Caller) ([]tool.Prompt, error) {
	if who.Person == "" {
		return nil, nil
	}
	return []tool.Prompt{
		{
			Name: "ask_bot", Title: "Ask a bot", Description: "Have a bot answer a question, and tell what it said.",
			Arguments: []tool.Argument{
				{Name: "bot", Description: "Number or name of the bot", Required: true},
				{Name: "question", Description: "What to ask", Required: true},
			},
		},
		{
			Name: "explain_failures", Title: "Why did answers fail?",
			Description: "Look at the newest turns and calls that failed, and explain what to do.",
		},
	}, nil
}

// Prompt implements [tool.PromptProvider].
func (p *Provider) Prompt(ctx context.Context, c *tool.Call) (*tool.PromptResult, error) {
	switch c.Tool {
	case "ask_bot":
		var a struct{ Bot, Question string }
		if json.Unmarshal(c.Args, &a) != nil || a.Bot == "" || a.Question == "" {
			return nil, tool.Fail(tool.BadArgs, "bot and question are needed, as texts", nil)
		}
		return &tool.PromptResult{Messages: []tool.Message{tool.TextMessage("user", fmt.Sprintf(
			"Use the tool %s with botId %q to ask: %s\nThen tell me the bot's reply, and say so if it did not answer.",
			toolSend, a.Bot, a.Question))}}, nil
	case "explain_failures":
		return p.explainFailures(ctx, c.Caller)
	}
	return nil, tool.ErrNotFound
}

func (p *Provider) explainFailures(ctx context.Context, who tool.Caller) (*tool.PromptResult, error) {
	may, ok := readable(who)
	if !ok {
		return nil, tool.Fail(tool.Denied, "This key may not read records (patchbay key rules).", nil)
	}
	traces, err := p.Hub.Store.Traces.Readable(ctx, may, maxRecords)
	if err != nil {
		return nil, err
	}
	calls, err := p.Hub.Store.Calls.Readable(ctx, may, maxRecords)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("These turns and calls of my Patchbay failed lately. Group them by cause, explain each cause in a sentence, and say what I should do about it.\n\n")
	n := b.Len()
	for _, t := range traces {
		if (t.Outcome == "failed") && (who.OnlyBot == 0 || who.OnlyBot == t.Bot) {
			fmt.Fprintf(&b, "- %s: bot %d (%s) asked through %s failed after %s: %s %s\n", t.At.Format(time.RFC3339),
				t.Bot, t.Kind, t.Channel, t.Total.Round(time.Millisecond), t.Code, t.Cause)
		}
	}
	for _, c := range calls {
		if c.Outcome != "done" && c.Outcome != "asked" && who.OnlyBot == 0 {
			fmt.Fprintf(&b, "- %s: tool %s of %s, called through %s: %s %s %s\n", c.At.Format(time.RFC3339), c.Tool,
				c.Provider, c.Channel, c.Outcome, c.Code, c.Cause)
		}
	}
	if b.Len() == n {
		b.WriteString("(none did)\n")
	}
	return &tool.PromptResult{Messages: []tool.Message{tool.TextMessage("user", b.String())}}, nil
}

// Complete implements [tool.PromptProvider].
func (p *Provider) Complete(ctx context.Context, who tool.Caller, prompt, argument, value string) ([]string, error) {
	if prompt != "ask_bot" || argument != "bot" {
		return nil, nil
	}
	bots, err := p.allowedBots(ctx, who)
	var out []string
	for _, b := range bots {
		if strings.HasPrefix(strings.ToLower(b.Name), strings.ToLower(value)) {
			out = append(out, b.Name)
		}
	}
	return out, err
}
