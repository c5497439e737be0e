package app

import (
	"context"
	"log/slog"
	"time"

	"patchbay/internal/store"
)

// purgeEvery is how often old records are deleted.
const purgeEvery = 10 * time.Minute

// purge deletes old records until ctx ends.
func purge(ctx context.Context, b *Base, trash func(context.Context) (int, error), log *slog.Logger) error {
	tick := time.NewTicker(purgeEvery)
	defer tick.Stop()
	for {
		now := time.Now()
		n, err := b.Store.Purge(ctx, store.Limits{Traces: now.Add(-b.Config.Trace.Keep),
			Exchanges: now.Add(-b.Config.History.Keep), Calls: now.Add(-b.Config.Audit.Keep), Now: now})
		if err == nil {
			var points int
			points, err = trash(ctx)
			n += int64(points)
		}
		if err == nil {
			var pushes int64
			pushes, err = b.Store.Outbox.Expire(ctx, now)
			n += pushes
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			log.Error("old rows were not deleted", "error", err)
		case n > 0:
			log.Debug("old rows were deleted", "rows", n)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
