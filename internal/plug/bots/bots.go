// Package bots offers the bots as tools: programs and other bots can ask them
// something, and see how they are. Conversations, traces and the audit trail are
// there to read, and prompts help to begin.
package bots

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// Settings are what an owner can decide about a bot that is asked by programs.
type Settings struct {
	// MCPOpen lets anybody who reaches the server ask the bot through the older
	// door for the platform of Rokid, which has no keys.
	MCPOpen bool `json:"mcp_open,omitempty"`
	// RokidDeviceID is the only device that may ask the bot through that door;
	// empty: any.
	RokidDeviceID string `json:"rokid_device_id,omitempty"`
}

// Options make a provider.
type Options struct {
	Board  *board.Board
	Logger *slog.Logger
	// Sessions says how many connections a bot has.
	Sessions func(store.Bot) int
}

// Provider offers the bots. It is safe for concurrent use.
type Provider struct {
	Options
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // answers that nobody waits for
}

// New makes a provider. Close ends what it still does.
func New(o Options) *Provider {
	p := &Provider{Options: o}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close gives up answers that nobody waits for, and waits for their end.
func (p *Provider) Close() {
	p.cancel()
	p.work.Wait()
}

// Outlet is where the provider is plugged in: everybody sees it, and its names
// stand as they are.
func Outlet() board.Outlet {
	return board.Outlet{ID: "bots", Kind: "bots", Title: "Bots", Timeout: 10 * time.Minute}
}

// The names of the tools.
const (
	toolSend = "send_message"
	toolInfo = "get_bot_info"
	toolList = "list_bots"
)

// Tools are the tools that the bots have in common.
func Tools() []tool.Tool {
	no, yes := false, true
	return []tool.Tool{
		{
			Name: toolSend, Title: "Ask a bot",
			Description: "Send a message to a bot and return its reply. list_bots tells which bots there are.",
			Input: json.RawMessage(`{"type":"object","properties":{` +
				`"botId":{"type":"string","description":"Number or name of the bot"},` +
				`"message":{"type":"string","minLength":1,"description":"What to say to the bot"},` +
				`"wait":{"type":"boolean","default":true,"description":"Wait for the reply. With false the call returns at once, and the reply is kept in the conversation."},` +
				`"conversation":{"type":"string","maxLength":200,"description":"Messages of one conversation share a context. Leave it out to go on with the usual one."},` +
				`"deviceId":{"type":"string","maxLength":200,"description":"ID of the device that asks, for bots that are open to one device only"}},` +
				`"required":["botId","message"]}`),
			Hints: tool.Hints{ReadOnly: &no, Destructive: &no, OpenWorld: &yes},
		},
		{
			Name: toolInfo, Title: "Look at a bot", Description: "Get a bot's name, kind and status, and whether it is online.",
			Input: json.RawMessage(`{"type":"object","properties":{` +
				`"botId":{"type":"string","description":"Number or name of the bot"},` +
				`"deviceId":{"type":"string","maxLength":200}},"required":["botId"]}`),
			Hints: tool.Reads(),
		},
		{
			Name: toolList, Title: "List the bots", Description: "List the bots that can be asked with send_message.",
			Input: json.RawMessage(`{"type":"object","properties":{}}`), Hints: tool.Reads(),
		},
	}
}

// arguments of all the tools.
type arguments struct {
	BotID        string `json:"botId"`
	Message      string `json:"message"`
	Wait         *bool  `json:"wait"`
	Conversation string `json:"conversation"`
	DeviceID     string `json:"deviceId"`
}

// Call implements [tool.Provider].
func (p *Provider) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	var a arguments
	if err := json.Unmarshal(c.Args, &a); err != nil {
		return nil, tool.Fail(tool.BadArgs, "The arguments cannot be read.", err)
	}
	if c.Tool == toolList {
		return p.list(ctx, c.Caller)
	}
	bot, err := p.find(ctx, c.Caller, &a)
	if err != nil {
		return nil, err
	}
	if c.Tool == toolInfo {
		return tool.JSON(p.info(bot)), nil
	}
	return p.send(ctx, c, bot, &a)
}

// find finds a bot that the caller may ask.
func (p *Provider) find(ctx context.Context, who tool.Caller, a *arguments) (store.Bot, error) {
	missing := tool.Fail(tool.BadArgs, "Bot not found: "+a.BotID, nil)
	var bot store.Bot
	var err error
	if who.Open {
		number, bad := strconv.ParseInt(a.BotID, 10, 64)
		if bad != nil {
			return bot, missing
		}
		bot, err = p.Board.Store.Bots.ByNumber(ctx, number)
	} else {
		bot, err = p.Board.Registry.Find(ctx, who.Person, a.BotID)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return bot, missing
	case err != nil:
		return bot, tool.Fail(tool.Failed, "The bot could not be looked up.", err)
	}
	var s Settings
	if err := p.Board.Registry.Settings(bot, &s); err != nil {
		return bot, tool.Fail(tool.Failed, "The bot's settings cannot be read.", err)
	}
	if who.Open && !s.MCPOpen || who.Only != 0 && who.Only != bot.Number {
		return bot, missing
	}
	device := a.DeviceID
	if device == "" {
		device = who.Device
	}
	asDevice := who.Open || who.Door == "rokid-mcp" || device != ""
	if s.RokidDeviceID != "" && asDevice && subtle.ConstantTimeCompare([]byte(device), []byte(s.RokidDeviceID)) != 1 {
		return bot, tool.Fail(tool.Denied, "Device unauthorized", nil)
	}
	a.DeviceID = device
	return bot, nil
}

// Info is what get_bot_info tells.
type Info struct {
	ID          int64     `json:"id"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Kind        string    `json:"kind"`
	Status      string    `json:"status"` // active: it can be asked; offline
	Online      bool      `json:"online"`
	Sessions    int       `json:"active_sessions"`
	LastSeen    time.Time `json:"last_seen"`
}

func (p *Provider) info(b store.Bot) Info {
	i := Info{ID: b.Number, Name: b.Name, Description: b.Description, Kind: b.Kind, Status: "offline", Online: p.Board.Reachable(b), LastSeen: b.Seen}
	if i.Online {
		i.Status = "active"
		i.LastSeen = time.Now()
	}
	if i.LastSeen.IsZero() {
		i.LastSeen = b.Created
	}
	i.LastSeen = i.LastSeen.UTC().Truncate(time.Second)
	if p.Sessions != nil {
		i.Sessions = p.Sessions(b)
	}
	return i
}

func (p *Provider) list(ctx context.Context, who tool.Caller) (*tool.Result, error) {
	bots, err := p.mine(ctx, who)
	if err != nil {
		return nil, tool.Fail(tool.Failed, "The bots could not be looked up.", err)
	}
	infos := make([]Info, len(bots))
	for i, b := range bots {
		infos[i] = p.info(b)
	}
	return tool.JSON(map[string]any{"bots": infos}), nil
}

// mine are the bots that a caller may ask.
func (p *Provider) mine(ctx context.Context, who tool.Caller) ([]store.Bot, error) {
	if who.Open || who.Person == "" {
		return nil, nil
	}
	all, err := p.Board.Store.Bots.ByOwner(ctx, who.Person)
	var out []store.Bot
	for _, b := range all {
		if who.Only == 0 || who.Only == b.Number {
			out = append(out, b)
		}
	}
	return out, err
}

// Sent is what send_message tells.
type Sent struct {
	Status    string    `json:"status"` // answered; sent: nobody waits
	BotID     int64     `json:"bot_id"`
	BotName   string    `json:"bot_name"`
	Message   string    `json:"message"`
	Reply     string    `json:"reply,omitempty"`
	Commands  []string  `json:"commands,omitempty"` // that the bot wanted a device to carry out
	Turn      string    `json:"turn,omitempty"`
	Timestamp time.Time `json:"timestamp"`
}

// send asks a bot.
func (p *Provider) send(ctx context.Context, c *tool.Call, bot store.Bot, a *arguments) (*tool.Result, error) {
	if strings.TrimSpace(a.Message) == "" {
		return nil, tool.Fail(tool.BadArgs, "Missing required parameter: message", nil)
	}
	if c.Caller.Bot == bot.Number && bot.Number != 0 {
		return nil, tool.Fail(tool.Denied, "A bot cannot ask itself; answer without this tool.", nil)
	}
	turn := &talk.Turn{
		Bot: bot.Number, Door: "mcp", Person: person(c.Caller, a), Conversation: a.Conversation, Depth: c.Caller.Depth, Bound: c.Caller.Bound, Address: c.Caller.Address,
		Lang: talk.ParseLang(c.Caller.Lang, talk.Chinese), Parts: []talk.Part{{Text: a.Message}},
	}
	told := Sent{Status: "answered", BotID: bot.Number, BotName: bot.Name, Message: a.Message}
	if a.Wait != nil && !*a.Wait {
		p.work.Go(func() { p.ask(p.ctx, turn, nil) }) //nolint:errcheck // the trace has it
		told.Status, told.Timestamp = "sent", time.Now().UTC().Truncate(time.Second)
		return tool.JSON(told), nil
	}
	answer, err := p.ask(ctx, turn, c.Progress)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return tool.Trouble(talk.AsFailure(err).Sentence(turn.Lang)), nil
	}
	told.Reply, told.Commands, told.Turn = answer.text.String(), answer.commands, turn.ID
	told.Timestamp = time.Now().UTC().Truncate(time.Second)
	res := tool.JSON(told)
	if told.Reply != "" {
		res.Content = tool.Text(told.Reply).Content
	}
	return res, nil
}

// person tells callers of one bot apart: by device, key, or bot.
func person(who tool.Caller, a *arguments) string {
	switch {
	case who.Open && a.DeviceID != "":
		return "mcp:device:" + a.DeviceID
	case who.Open:
		return ""
	case who.Bot != 0:
		return "bot:" + strconv.FormatInt(who.Bot, 10)
	}
	return "mcp:key:" + who.Key
}

// answer is what a bot has said so far.
type answer struct {
	text     strings.Builder
	commands []string
}

// progressEvery is how often a caller hears what a bot says.
const progressEvery = 200 * time.Millisecond

// maxReply bounds a reply, so that a bot that never ends costs nobody's memory.
const maxReply = 1 << 20

var errReply = errors.New("the reply is too long")

// ask puts a turn to its bot and collects the answer. Progress, which may be nil,
// hears the words as they come.
func (p *Provider) ask(ctx context.Context, turn *talk.Turn, progress func(tool.Progress)) (*answer, error) {
	var a answer
	var told time.Time
	from := 0
	err := p.Board.Answer(ctx, turn, func(e talk.Event) error {
		switch e.Kind {
		case talk.KindText:
			if a.text.Len()+len(e.Text) > maxReply {
				return errReply
			}
			a.text.WriteString(e.Text)
		case talk.KindCommand:
			a.commands = append(a.commands, e.Command.Name)
		case talk.KindNote:
			if progress != nil {
				progress(tool.Progress{Done: float64(a.text.Len()) + .5, Message: e.Text})
			}
		}
		if progress != nil && a.text.Len() > from && time.Since(told) >= progressEvery {
			progress(tool.Progress{Done: float64(a.text.Len()), Message: a.text.String()[from:]})
			told, from = time.Now(), a.text.Len()
		}
		return nil
	})
	return &a, err
}
