package app

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"patchbay/internal/board"
	"patchbay/internal/plug/openai"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// botTools is where bots that call tools find the board, which is made after
// them.
type botTools struct{ board atomic.Pointer[board.Board] }

// toolbox is what one bot may call: what its owner allows it, as far as whoever asks, and
// whoever made its settings, may call that too.
type toolbox struct {
	tools *botTools
	bot   store.Bot
}

// access is the bot as a caller, in one turn; false if it may call nothing.
func (t toolbox) access(ctx context.Context, turn *talk.Turn) (*board.Board, board.Access, bool, error) {
	b := t.tools.board.Load()
	if b == nil {
		return nil, board.Access{}, false, nil
	}
	var c board.Common
	if err := b.Registry.Settings(t.bot, &c); err != nil || len(c.AllowTools) == 0 {
		return nil, board.Access{}, false, err
	}
	if turn.Door == learnDoor {
		return nil, board.Access{}, false, nil // what it judges is text of anybody's
	}
	bound, err := t.bound(ctx, b, turn)
	if err != nil {
		return nil, board.Access{}, false, err
	}
	own := board.Rules{Allow: c.AllowTools, Deny: c.DenyTools, Dangerous: c.DangerousTools}.String()
	return b, board.Access{Caller: tool.Caller{
		Person: t.bot.Owner, Bot: t.bot.Number, Bound: bound, Turn: turn.ID, Address: turn.Address, Depth: turn.Depth + 1, Door: "bot", Program: t.bot.Name, Lang: string(turn.Lang),
	}, Rules: board.Join(own, bound)}, true, nil
}

// bound are the rules of those for whom the bot acts in a turn: who asks, and who made its
// settings, if either did so by a key that is narrow.
func (t toolbox) bound(ctx context.Context, b *board.Board, turn *talk.Turn) (string, error) {
	set := ""
	if t.bot.SetBy != "" {
		k, err := b.Store.Keys.ByID(ctx, t.bot.SetBy)
		if err != nil && !errors.Is(err, store.ErrNotFound) { // its person was removed, and with them what they could change
			return "", err
		}
		set = k.Rules
	}
	return board.Join("", turn.Bound, set), nil
}

// List implements [openai.Toolbox].
func (t toolbox) List(ctx context.Context, turn *talk.Turn) ([]openai.Offered, error) {
	b, who, ok, err := t.access(ctx, turn)
	if !ok {
		return nil, err
	}
	v, err := b.View(who.Person, who.Rules)
	if err != nil {
		return nil, err
	}
	var out []openai.Offered
	for _, o := range v.Tools {
		out = append(out, openai.Offered{Name: o.Name, Tool: *o.Tool})
	}
	return out, nil
}

// Call implements [openai.Toolbox].
func (t toolbox) Call(ctx context.Context, turn *talk.Turn, name string, args json.RawMessage, progress func(tool.Progress)) (*tool.Result, error) {
	b, who, ok, err := t.access(ctx, turn)
	if !ok {
		return nil, tool.Fail(tool.Unknown, "Unknown tool: "+name, err)
	}
	return b.Call(ctx, who, name, &tool.Call{Args: args, Progress: progress})
}
