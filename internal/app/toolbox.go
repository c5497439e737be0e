package app

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"patchbay/internal/hub"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/toolbox"
)

// botTools holds the hub for bots that call tools. The hub is created after the bots.
type botTools struct{ hub atomic.Pointer[hub.Hub] }

// botToolbox is the set of tools that one bot may call: those that its owner allows, limited to
// what the asker's key, and the key that last changed its settings, may call.
type botToolbox struct {
	tools *botTools
	bot   store.Bot
}

// connectorTools returns the tools that the agent of a connector may call.
func (b *Base) connectorTools(ctx context.Context, bot int64) (toolbox.Tools, error) {
	row, err := b.Store.Bots.ByNumber(ctx, bot)
	return botToolbox{b.tools, row}, err
}

// access returns the bot's access in one turn. The bool is false if it may call no tools.
func (t botToolbox) access(ctx context.Context, turn *talk.Turn) (*hub.Hub, hub.Access, bool, error) {
	b := t.tools.hub.Load()
	if b == nil {
		return nil, hub.Access{}, false, nil
	}
	var c hub.Common
	if err := b.Registry.Settings(t.bot, &c); err != nil {
		return nil, hub.Access{}, false, err
	}
	always, err := t.turnTools(ctx, b, turn)
	if err != nil {
		return nil, hub.Access{}, false, err
	}
	if c.AllowTools = append(always, c.AllowTools...); len(c.AllowTools) == 0 {
		return nil, hub.Access{}, false, nil
	}
	if turn.Channel == learnChannel {
		return nil, hub.Access{}, false, nil // it grades text that anybody may have written
	}
	bound, err := t.bound(ctx, b, turn)
	if err != nil {
		return nil, hub.Access{}, false, err
	}
	own := c.Rules().String()
	return b, hub.Access{Caller: tool.Caller{
		Person: t.bot.Owner, Bot: t.bot.Number, KeyRules: bound, Turn: turn.ID, Address: turn.Address,
		Depth: turn.Depth + 1, Channel: "bot", Program: t.bot.Name, Lang: string(turn.Lang),
	}, Rules: hub.JoinRules(own, bound)}, true, nil
}

// turnTools returns the tools of the board that a turn comes from which a bot may use without
// further ado: they do nothing but ring there, or pause music.
func (t botToolbox) turnTools(ctx context.Context, b *hub.Hub, turn *talk.Turn) (names []string, err error) {
	mac, isBoard := strings.CutPrefix(turn.Person, xiaozhi.Kind+":")
	if turn.Channel != xiaozhi.Channel || !isBoard {
		return nil, nil
	}
	d, err := b.Store.Devices.ByHardware(ctx, xiaozhi.Kind, mac)
	if errors.Is(err, store.ErrNotFound) || err == nil && d.Owner != t.bot.Owner {
		return nil, nil
	}
	_, _, tools := b.FindProvider(hub.DeviceProviderID(d.Number))
	for _, o := range tools {
		if slices.Contains(xiaozhi.TurnTools, o.Tool.Name) {
			names = append(names, o.OriginalName())
		}
	}
	return names, err
}

// bound returns the rules of the keys that a turn depends on: that of the asker, and that which
// changed the bot's settings, if they are restricted.
func (t botToolbox) bound(ctx context.Context, b *hub.Hub, turn *talk.Turn) (string, error) {
	set := ""
	if t.bot.SetBy != "" {
		k, err := b.Store.Keys.ByID(ctx, t.bot.SetBy)
		// the person, and the key with them, may have been removed
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", err
		}
		set = k.Rules
	}
	return hub.JoinRules("", turn.KeyRules, set), nil
}

// List implements [toolbox.Tools].
func (t botToolbox) List(ctx context.Context, turn *talk.Turn) ([]toolbox.Named, error) {
	b, who, ok, err := t.access(ctx, turn)
	if !ok {
		return nil, err
	}
	v, err := b.View(who.Person, who.Rules)
	if err != nil {
		return nil, err
	}
	var out []toolbox.Named
	for _, o := range v.Tools {
		out = append(out, toolbox.Named{Name: o.Name, Tool: *o.Tool})
	}
	return out, nil
}

// Call implements [toolbox.Tools].
func (t botToolbox) Call(ctx context.Context, turn *talk.Turn, name string, args json.RawMessage,
	progress func(tool.Progress)) (*tool.Result, error) {
	b, who, ok, err := t.access(ctx, turn)
	if !ok {
		return nil, tool.Fail(tool.Unknown, "Unknown tool: "+name, err)
	}
	if turn.UsesTool == nil {
		return b.Call(ctx, who, name, &tool.Call{Args: args, Progress: progress})
	}
	use := talk.ToolUse{ID: uuid.NewString(), Name: name, Args: args}
	turn.UsesTool(use)
	res, err := b.Call(ctx, who, name, &tool.Call{Args: args, Progress: progress})
	use.Ended = true
	if err != nil {
		use.Result, use.Failed = toolbox.Truncate(tool.AsError(err).Told, talk.MaxToolResult), true
	} else {
		use.Result, use.Failed = toolbox.ResultText(res, talk.MaxToolResult)
	}
	turn.UsesTool(use)
	return res, err
}
