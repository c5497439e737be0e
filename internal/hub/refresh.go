package hub

import (
	"context"
	"time"
)

// refreshInterval is how often an instance looks whether upstreams or rules about
// tools have changed: by the command line, or on another instance.
const refreshInterval = time.Second

// OnToolsChanged sets what is done when upstreams or rules may have changed, and does
// it once. It returns what went wrong the first time.
func (h *Hub) OnToolsChanged(ctx context.Context, f func(context.Context) error) error {
	version, err := h.Store.ToolsVersion(ctx)
	if err != nil {
		return err
	}
	h.refreshMu.Lock()
	h.onToolsChanged = f
	h.refreshMu.Unlock()
	if err := h.RefreshTools(ctx); err != nil {
		return err
	}
	h.refreshing.Go(func() { h.pollTools(version) })
	return nil
}

func (h *Hub) pollTools(version int64) {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(h.ctx, writeTimeout)
		now, err := h.Store.ToolsVersion(ctx)
		if err == nil && now != version {
			if err = h.RefreshTools(ctx); err == nil {
				version = now
			}
		}
		cancel()
		if err != nil && h.ctx.Err() == nil {
			h.Logger.Warn("whether tools have changed could not be found out", "error", err)
		}
	}
}

// RefreshTools takes up what was changed about upstreams and rules. It is done by
// itself within a second; whoever has changed something need not wait that long. Of
// several at a time, the last one has read last.
func (h *Hub) RefreshTools(ctx context.Context) error {
	h.refreshMu.Lock()
	defer h.refreshMu.Unlock()
	rows, err := h.Store.ToolRules.All(ctx)
	if err != nil {
		return err
	}
	h.catalog.setRules(rulesByOwner(rows))
	if h.onToolsChanged == nil {
		return nil
	}
	return h.onToolsChanged(ctx)
}
