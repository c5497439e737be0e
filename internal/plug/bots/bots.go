// Package bots provides the bots as tools: programs and other bots can send them messages and read
// their status. It also provides conversations, traces and call records as resources, and a few
// prompts.
//
// The names of send_message and get_bot_info, of their arguments botId, message and deviceId, and
// of the fields of [Info] except kind are those of docs/ROKID_MCP_API.md in sengmitnick/eyeclaw at
// 9fa98ce.
package bots

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// Settings are an owner's settings for access to a bot by programs.
type Settings struct {
	// MCPOpen lets anyone who can reach the server ask the bot without a key, through the older
	// MCP channel for the Rokid platform.
	MCPOpen bool `json:"mcp_open,omitempty"`
	// RokidDeviceID is the only device that may ask the bot; empty means any. It is checked for
	// anonymous callers, for the channel "rokid-mcp", and for calls that name a device, as
	// rokid_device_id in EyeClaw (docs/ROKID_MCP_API.md).
	RokidDeviceID string `json:"rokid_device_id,omitempty"`
}

// Options configure a Provider.
type Options struct {
	Hub *hub.Hub
	// Sessions returns the number of connections of a bot; nil reports 0 for every bot.
	Sessions func(store.Bot) int
}

// Provider provides the bots as tools, resources and prompts. It is safe for concurrent use.
type Provider struct {
	Options
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // turns sent with wait=false
}

// New returns a Provider. Close stops its background turns.
func New(o Options) *Provider {
	p := &Provider{Options: o}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close cancels the turns sent with wait=false and waits until they have ended.
func (p *Provider) Close() {
	p.cancel()
	p.work.Wait()
}

// ProviderRef returns the reference that the provider registers with. It has no owner, so every
// account sees it, and its tool names have no prefix.
func ProviderRef() hub.ProviderRef {
	return hub.ProviderRef{ID: "bots", Kind: "bots", Title: "Bots", Timeout: 10 * time.Minute}
}

// Names of the tools.
const (
	toolSend = "send_message"
	toolInfo = "get_bot_info"
	toolList = "list_bots"
)

// Tools returns the tools of the provider; each takes the bot as an argument.
func Tools() []tool.Tool {
	no, yes := false, true
	return []tool.Tool{
		{
			Name: toolSend, Title: "Ask a bot",
			Description: "Send a message to a bot and return its reply. list_bots lists the bots.",
			Input: json.RawMessage(`{"type":"object","properties":{` +
				`"botId":{"type":"string","description":"Number or name of the bot"},` +
				`"message":{"type":"string","minLength":1,"description":"Message to the bot"},` +
				`"wait":{"type":"boolean","default":true,"description":"Wait for the reply. With false the call returns at once, and the reply is kept in the conversation."},` +
				`"conversation":{"type":"string","maxLength":200,"description":"Messages of one conversation share a context. Omit it to continue the default conversation."},` +
				`"deviceId":{"type":"string","maxLength":200,"description":"ID of the device that asks, for bots that are open to one device only"}},` +
				`"required":["botId","message"]}`),
			Hints: tool.Hints{ReadOnly: &no, Destructive: &no, OpenWorld: &yes},
		},
		{
			Name: toolInfo, Title: "Get a bot",
			Description: "Get a bot's name, kind and status, and whether it is online.",
			Input: json.RawMessage(`{"type":"object","properties":{` +
				`"botId":{"type":"string","description":"Number or name of the bot"},` +
				`"deviceId":{"type":"string","maxLength":200}},"required":["botId"]}`),
			Hints: tool.ReadOnlyHints(),
		},
		{
			Name: toolList, Title: "List the bots", Description: "List the bots that can be asked with send_message.",
			Input: json.RawMessage(`{"type":"object","properties":{}}`), Hints: tool.ReadOnlyHints(),
		},
	}
}

// arguments holds the arguments of all the tools.
type arguments struct {
	BotID        string `json:"botId"`
	Message      string `json:"message"`
	Wait         *bool  `json:"wait"`
	Conversation string `json:"conversation"`
	DeviceID     string `json:"deviceId"`
}

// EndsWithContext implements [hub.Cancellable].
func (*Provider) EndsWithContext() {}

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

// find returns the bot that a names if the caller may ask it, and sets a.DeviceID to the caller's
// device if it is empty. An anonymous caller must give the bot's number.
func (p *Provider) find(ctx context.Context, who tool.Caller, a *arguments) (store.Bot, error) {
	missing := tool.Fail(tool.BadArgs, "Bot not found: "+a.BotID, nil)
	var bot store.Bot
	var err error
	if who.Anonymous {
		number, bad := strconv.ParseInt(a.BotID, 10, 64)
		if bad != nil {
			return bot, missing
		}
		bot, err = p.Hub.Store.Bots.ByNumber(ctx, number)
	} else {
		bot, err = p.Hub.Registry.FindUsable(ctx, who.Person, a.BotID)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return bot, missing
	case err != nil:
		return bot, tool.Fail(tool.Failed, "The bot could not be looked up.", err)
	}
	var s Settings
	if err := p.Hub.Registry.Settings(bot, &s); err != nil {
		return bot, tool.Fail(tool.Failed, "The bot's settings cannot be read.", err)
	}
	if who.Anonymous && !s.MCPOpen || who.OnlyBot != 0 && who.OnlyBot != bot.Number {
		return bot, missing
	}
	device := a.DeviceID
	if device == "" {
		device = who.Device
	}
	asDevice := who.Anonymous || who.Channel == "rokid-mcp" || device != ""
	if s.RokidDeviceID != "" && asDevice && subtle.ConstantTimeCompare([]byte(device), []byte(s.RokidDeviceID)) != 1 {
		return bot, tool.Fail(tool.Denied, "Device unauthorized", nil)
	}
	a.DeviceID = device
	return bot, nil
}

// Info is the result of get_bot_info, and an entry of list_bots.
type Info struct {
	ID          int64     `json:"id"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Kind        string    `json:"kind"`
	Status      string    `json:"status"` // "active" (reachable) or "offline"
	Online      bool      `json:"online"`
	Sessions    int       `json:"active_sessions"`
	LastSeen    time.Time `json:"last_seen"`
}

func (p *Provider) info(b store.Bot) Info {
	i := Info{ID: b.Number, Name: b.Name, Description: b.Description, Kind: b.Kind,
		Status: "offline", Online: p.Hub.IsReachable(b), LastSeen: b.Seen}
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
	bots, err := p.allowedBots(ctx, who)
	if err != nil {
		return nil, tool.Fail(tool.Failed, "The bots could not be looked up.", err)
	}
	infos := make([]Info, len(bots))
	for i, b := range bots {
		infos[i] = p.info(b)
	}
	return tool.JSON(map[string]any{"bots": infos}), nil
}

// allowedBots returns the bots that a caller may ask; an anonymous caller gets none.
func (p *Provider) allowedBots(ctx context.Context, who tool.Caller) ([]store.Bot, error) {
	if who.Anonymous || who.Person == "" {
		return nil, nil
	}
	all, err := p.Hub.Store.Bots.Usable(ctx, who.Person)
	var out []store.Bot
	for _, b := range all {
		if who.OnlyBot == 0 || who.OnlyBot == b.Number {
			out = append(out, b)
		}
	}
	return out, err
}

// SendResult is the result of send_message.
type SendResult struct {
	Status    string    `json:"status"` // "answered", or "sent" for wait=false
	BotID     int64     `json:"bot_id"`
	BotName   string    `json:"bot_name"`
	Message   string    `json:"message"`
	Reply     string    `json:"reply,omitempty"`
	Commands  []string  `json:"commands,omitempty"` // names of the device commands in the reply
	Turn      string    `json:"turn,omitempty"`
	Timestamp time.Time `json:"timestamp"`
}

// send puts a message to a bot and, unless wait is false, waits for the reply.
func (p *Provider) send(ctx context.Context, c *tool.Call, bot store.Bot, a *arguments) (*tool.Result, error) {
	if strings.TrimSpace(a.Message) == "" {
		return nil, tool.Fail(tool.BadArgs, "Missing required parameter: message", nil)
	}
	if c.Caller.Bot == bot.Number && bot.Number != 0 {
		return nil, tool.Fail(tool.Denied, "A bot cannot ask itself; answer without this tool.", nil)
	}
	turn := &talk.Turn{
		Bot: bot.Number, Channel: "mcp", Person: person(c.Caller, a, bot.Owner), Conversation: a.Conversation,
		Asker: c.Caller.Person, Depth: c.Caller.Depth, KeyRules: c.Caller.KeyRules, Address: c.Caller.Address,
		Lang: i18n.ParseLang(c.Caller.Lang, i18n.Chinese), Parts: []talk.Part{{Text: a.Message}},
	}
	told := SendResult{Status: "answered", BotID: bot.Number, BotName: bot.Name, Message: a.Message}
	if a.Wait != nil && !*a.Wait {
		p.work.Go(func() { p.ask(p.ctx, turn, nil) }) //nolint:errcheck // the trace records the error
		told.Status, told.Timestamp = "sent", time.Now().UTC().Truncate(time.Second)
		return tool.JSON(told), nil
	}
	answer, err := p.ask(ctx, turn, c.Progress)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return tool.ErrorResult(talk.AsFailure(err).Sentence(turn.Lang)), nil
	}
	told.Reply, told.Commands, told.Turn = answer.text.String(), answer.commands, turn.ID
	told.Timestamp = time.Now().UTC().Truncate(time.Second)
	res := tool.JSON(told)
	if told.Reply != "" {
		res.Content = tool.Text(told.Reply).Content
	}
	return res, nil
}

// person returns the partner of a bot with this owner in the conversation with a caller: its
// device, bot or key, or "" for an anonymous caller without a device. A bot that acts for others is
// as many partners.
func person(who tool.Caller, a *arguments, owner string) string {
	switch {
	case who.Anonymous && a.DeviceID != "":
		return "mcp:device:" + a.DeviceID
	case who.Anonymous:
		return ""
	case who.Bot != 0 && who.Actor != "": // for somebody with whom that bot is shared
		return "bot:" + strconv.FormatInt(who.Bot, 10) + ":" + who.Actor
	case who.Bot != 0 && who.Person != owner:
		return "bot:" + strconv.FormatInt(who.Bot, 10) + ":" + who.Person
	case who.Bot != 0:
		return "bot:" + strconv.FormatInt(who.Bot, 10)
	}
	return "mcp:key:" + who.Key
}

// answer is the reply received from a bot so far.
type answer struct {
	text     strings.Builder
	commands []string
}

// progressInterval is the minimum time between two progress messages with text.
const progressInterval = 200 * time.Millisecond

// maxReply is the size limit of a reply in bytes, so that an endless answer cannot exhaust memory.
const maxReply = 1 << 20

var errReplyTooLong = errors.New("the reply is too long")

// ask sends a turn to its bot and collects the answer. progress, which may be nil, gets the text
// as it arrives.
func (p *Provider) ask(ctx context.Context, turn *talk.Turn, progress func(tool.Progress)) (*answer, error) {
	var a answer
	var told time.Time
	from := 0
	err := p.Hub.Answer(ctx, turn, func(e talk.Event) error {
		switch e.Kind {
		case talk.KindText:
			if a.text.Len()+len(e.Text) > maxReply {
				return errReplyTooLong
			}
			a.text.WriteString(e.Text)
		case talk.KindCommand:
			a.commands = append(a.commands, e.Command.Name)
		case talk.KindNote:
			if progress != nil {
				progress(tool.Progress{Done: float64(a.text.Len()) + .5, Message: e.Text})
			}
		}
		if progress != nil && a.text.Len() > from && time.Since(told) >= progressInterval {
			progress(tool.Progress{Done: float64(a.text.Len()), Message: a.text.String()[from:]})
			told, from = time.Now(), a.text.Len()
		}
		return nil
	})
	return &a, err
}
