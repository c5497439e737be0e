package app

import (
	"cmp"
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
// what the asker's key, and the key that last changed its settings, may call. They are the owner's
// tools, or those of a person with whom the bot is shared, and then those that the owner lends.
type botToolbox struct {
	tools *botTools
	bot   store.Bot
}

// connectorTools returns the tools that the agent of a connector may call.
func (b *Base) connectorTools(ctx context.Context, bot int64) (toolbox.Tools, error) {
	row, err := b.Store.Bots.ByNumber(ctx, bot)
	return botToolbox{b.tools, row}, err
}

// access returns the bot's access in one turn: to the tools of whom it answers, and then to those
// that its owner lends them. There is none if it may call no tools.
func (t botToolbox) access(ctx context.Context, turn *talk.Turn) (*hub.Hub, []hub.Access, error) {
	b := t.tools.hub.Load()
	if b == nil {
		return nil, nil, nil
	}
	var c hub.Common
	if err := b.Registry.Settings(t.bot, &c); err != nil {
		return nil, nil, err
	}
	always, err := t.turnTools(ctx, b, turn)
	if err != nil {
		return nil, nil, err
	}
	if turn.Channel == learnChannel {
		return nil, nil, nil // it grades text that anybody may have written
	}
	bound, err := t.bound(ctx, b, turn)
	if err != nil {
		return nil, nil, err
	}
	caller := tool.Caller{
		Person: t.bot.Owner, Bot: t.bot.Number, KeyRules: bound, Turn: turn.ID, Address: turn.Address,
		Depth: turn.Depth + 1, Channel: "bot", Program: t.bot.Name, Lang: string(turn.Lang),
	}
	var out []hub.Access
	add := func(rules hub.Rules, bound string) {
		if len(rules.Allow) > 0 {
			out = append(out, hub.Access{Caller: caller, Rules: hub.JoinRules(rules.String(), bound)})
		}
	}
	own := c.Rules()
	own.Allow = append(always, own.Allow...)
	if turn.ActsFor == "" {
		add(own, bound)
		return b, out, nil
	}
	caller.Person = turn.ActsFor
	own.Dangerous = nil // which dangerous tools of theirs it may call is not the owner's to say
	add(own, bound)
	lent := c.Rules()
	lent.Allow = c.LendTools
	caller.Person, caller.Actor = t.bot.Owner, turn.ActsFor
	caller.KeyRules = hub.JoinRules("", bound, hub.LimitRules(b.LimitsOf(turn.ActsFor)))
	add(lent, caller.KeyRules)
	return b, out, nil
}

// turnTools returns the tools of the board that a turn comes from which a bot may use without
// further ado: they do nothing but ring there, or pause music.
func (t botToolbox) turnTools(ctx context.Context, b *hub.Hub, turn *talk.Turn) (names []string, err error) {
	mac, isBoard := strings.CutPrefix(turn.Person, xiaozhi.Kind+":")
	if turn.Channel != xiaozhi.Channel || !isBoard {
		return nil, nil
	}
	d, err := b.Store.Devices.ByHardware(ctx, xiaozhi.Kind, mac)
	if errors.Is(err, store.ErrNotFound) || err == nil && d.Owner != cmp.Or(turn.ActsFor, t.bot.Owner) {
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
	b, access, err := t.access(ctx, turn)
	if err != nil {
		return nil, err
	}
	var out []toolbox.Named
	have := map[string]bool{}
	for _, who := range access {
		v, err := b.View(who.Person, who.Rules)
		if err != nil {
			return nil, err
		}
		for _, o := range v.Tools {
			if !have[o.Name] {
				have[o.Name] = true
				out = append(out, toolbox.Named{Name: o.Name, Tool: *o.Tool})
			}
		}
	}
	return out, nil
}

// Call implements [toolbox.Tools].
func (t botToolbox) Call(ctx context.Context, turn *talk.Turn, name string, args json.RawMessage,
	progress func(tool.Progress)) (*tool.Result, error) {
	b, access, err := t.access(ctx, turn)
	if len(access) == 0 {
		return nil, tool.Fail(tool.Unknown, "Unknown tool: "+name, err)
	}
	who := access[0]
	for _, other := range access[1:] {
		if v, err := b.View(who.Person, who.Rules); err == nil && v.Tool(name) != nil {
			break
		}
		who = other
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
