package app

import (
	"context"
	"sync"
	"time"

	"patchbay/internal/plug/bots"
)

// openBots returns a function that reports whether there is a bot that anybody may ask by the
// legacy MCP endpoint.
func openBots(b *Base) func(context.Context) (bool, error) {
	var mu sync.Mutex
	var known bool
	var until time.Time
	return func(ctx context.Context) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Now().Before(until) {
			return known, nil // strangers must not load the database
		}
		open, err := anyOpen(ctx, b)
		if err == nil {
			known, until = open, time.Now().Add(time.Second)
		}
		return open, err
	}
}

func anyOpen(ctx context.Context, b *Base) (bool, error) {
	list, err := b.Store.Bots.ByOwner(ctx, "")
	for _, bot := range list {
		var s bots.Settings
		if err := b.Registry.Settings(bot, &s); err == nil && s.MCPOpen {
			return true, nil
		}
	}
	return false, err
}
