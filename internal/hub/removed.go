package hub

import (
	"context"
	"errors"
	"sync"

	"patchbay/internal/store"
)

// errRemoved ends the answer of a bot that was removed meanwhile, or whose owner was.
var errRemoved = errors.New("the bot was removed")

// runSet are the active runs of this instance, limited by the number of slots.
type runSet struct {
	mu   sync.Mutex
	runs map[*run]bool
}

// begin adds a turn until end is called.
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

// ofBot returns the turns of a bot.
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

// endRemoved ends the active turns of a bot that was removed: their records could not be stored.
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

// isBotRemoved reports whether the turn ended because of that.
func (r *run) isBotRemoved() bool { return errors.Is(context.Cause(r.ctx), errRemoved) }
