package board

import (
	"context"
	"errors"
	"sync"

	"patchbay/internal/store"
)

// errRemoved ends the answer of a bot that was removed meanwhile, or whose owner was.
var errRemoved = errors.New("the bot was removed")

// turns are those that are being answered here, as many as there are places.
type turns struct {
	mu sync.Mutex
	of map[*run]bool
}

// begin notes a turn until end is called.
func (t *turns) begin(r *run) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[*run]bool{}
	}
	t.of[r] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.of, r)
	}
}

// with are the turns of a bot.
func (t *turns) with(bot int64) (out []*run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.of {
		if r.turn.Bot == bot {
			out = append(out, r)
		}
	}
	return out
}

// endRemoved ends what a bot is answering here, if it is gone: its owner's things are
// nobody's any more, and what it says could not be kept.
func (b *Board) endRemoved(bot int64) {
	turns := b.turns.with(bot)
	if len(turns) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, writeLimit)
	defer cancel()
	switch _, err := b.Store.Bots.ByNumber(ctx, bot); {
	case errors.Is(err, store.ErrNotFound):
		for _, r := range turns {
			r.cancel(errRemoved)
		}
	case err != nil:
		b.Logger.Warn("whether a bot was removed could not be found out", "bot", bot, "error", err)
	}
}

// removed says whether that has ended the turn.
func (r *run) removed() bool { return errors.Is(context.Cause(r.ctx), errRemoved) }
