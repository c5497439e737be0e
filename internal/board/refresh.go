package board

import (
	"context"
	"time"
)

// refreshEvery is how often an instance looks whether upstreams or rules about
// tools have changed: by the command line, or on another instance.
const refreshEvery = time.Second

// OnTools sets what is done when upstreams or rules may have changed, and does
// it once. It returns what went wrong the first time.
func (b *Board) OnTools(ctx context.Context, f func(context.Context) error) error {
	version, err := b.Store.ToolsVersion(ctx)
	if err != nil {
		return err
	}
	b.freshness.Lock()
	b.onTools = f
	b.freshness.Unlock()
	if err := b.RefreshTools(ctx); err != nil {
		return err
	}
	b.refreshing.Go(func() { b.keepFresh(version) })
	return nil
}

func (b *Board) keepFresh(version int64) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-b.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(b.ctx, writeLimit)
		now, err := b.Store.ToolsVersion(ctx)
		if err == nil && now != version {
			if err = b.RefreshTools(ctx); err == nil {
				version = now
			}
		}
		cancel()
		if err != nil && b.ctx.Err() == nil {
			b.Logger.Warn("whether tools have changed could not be found out", "error", err)
		}
	}
}

// RefreshTools takes up what was changed about upstreams and rules. It is done by
// itself within a second; whoever has changed something need not wait that long. Of
// several at a time, the last one has read last.
func (b *Board) RefreshTools(ctx context.Context) error {
	b.freshness.Lock()
	defer b.freshness.Unlock()
	rows, err := b.Store.ToolRules.All(ctx)
	if err != nil {
		return err
	}
	b.catalog.setRules(ownersRules(rows))
	if b.onTools == nil {
		return nil
	}
	return b.onTools(ctx)
}
