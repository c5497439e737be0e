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
	if err := b.refresh(ctx, f); err != nil {
		return err
	}
	b.refreshing.Go(func() { b.keepFresh(version, f) })
	return nil
}

func (b *Board) keepFresh(version int64, f func(context.Context) error) {
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
			if err = b.refresh(ctx, f); err == nil {
				version = now
			}
		}
		cancel()
		if err != nil && b.ctx.Err() == nil {
			b.Logger.Warn("whether tools have changed could not be found out", "error", err)
		}
	}
}

func (b *Board) refresh(ctx context.Context, f func(context.Context) error) error {
	rows, err := b.Store.ToolRules.All(ctx)
	if err != nil {
		return err
	}
	b.catalog.setRules(ownersRules(rows))
	if f == nil {
		return nil
	}
	return f(ctx)
}
