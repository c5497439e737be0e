package hub

import (
	"context"
	"errors"
	"sync"

	"patchbay/internal/store"
)

// errRemoved ends the answer of a bot that was removed meanwhile, or whose owner was.
var errRemoved = errors.New("the bot was removed")

// runSet are those that are being answered here, as many as there are places.
type runSet struct {
	mu   sync.Mutex
	runs map[*run]bool
}

// begin notes a turn until end is called.
func (t *runSet) begin(r *run) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs == nil {
		t.runs = map[*run]bool{}
	}
	t.runs[r] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.runs, r)
	}
}

// ofBot are the turns of a bot.
func (t *runSet) ofBot(bot int64) (out []*run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.runs {
		if r.turn.Bot == bot {
			out = append(out, r)
		}
	}
	return out
}

// endRemoved ends what a bot is answering here, if it is gone: its owner's things are
// nobody's any more, and what it says could not be kept.
func (h *Hub) endRemoved(bot int64) {
	turns := h.allRuns.ofBot(bot)
	if len(turns) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, writeTimeout)
	defer cancel()
	switch _, err := h.Store.Bots.ByNumber(ctx, bot); {
	case errors.Is(err, store.ErrNotFound):
		for _, r := range turns {
			r.cancel(errRemoved)
		}
	case err != nil:
		h.Logger.Warn("whether a bot was removed could not be found out", "bot", bot, "error", err)
	}
}

// isBotRemoved reports whether that has ended the turn.
func (r *run) isBotRemoved() bool { return errors.Is(context.Cause(r.ctx), errRemoved) }
