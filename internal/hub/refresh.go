package hub

import (
	"context"
	"time"
)

// refreshInterval is the interval at which an instance checks for changes of upstreams and of rules
// about tools, by the command line or by other instances.
const refreshInterval = time.Second

// OnToolsChanged sets the function to call when upstreams or rules may have changed, and calls it
// once. It returns the error of that call.
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

// RefreshTools applies changes of upstreams and rules. This happens by itself within a second;
// whoever has made a change need not wait that long. Of several concurrent calls the last one reads
// last.
func (h *Hub) RefreshTools(ctx context.Context) error {
	h.refreshMu.Lock()
	defer h.refreshMu.Unlock()
	rows, err := h.Store.ToolRules.All(ctx)
	if err != nil {
		return err
	}
	sets, err := h.Store.ToolSets.All(ctx)
	if err != nil {
		return err
	}
	words, err := h.Store.ToolWordings.All(ctx)
	if err != nil {
		return err
	}
	people, err := h.Store.People.Restricted(ctx)
	if err != nil {
		return err
	}
	h.restricted.Store((*restricted)(&people))
	h.catalog.setRules(rulesByOwner(rows, sets, words, people))
	if h.onToolsChanged == nil {
		return nil
	}
	return h.onToolsChanged(ctx)
}
