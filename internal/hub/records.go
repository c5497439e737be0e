package hub

import (
	"context"
	"sync"

	"patchbay/internal/store"
)

// records wakes those who watch the records of turns and calls.
type records struct {
	mu     sync.Mutex
	change chan struct{} // nil while nobody waits
}

// RecordChanges returns a channel that is closed when this instance has stored the next record of a
// turn or of calls. Records of other instances do not close it.
func (h *Hub) RecordChanges() <-chan struct{} {
	r := &h.records
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.change == nil {
		r.change = make(chan struct{})
	}
	return r.change
}

func (r *records) notify() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.change != nil {
		close(r.change)
		r.change = nil
	}
}

// saveCalls stores call records.
func (h *Hub) saveCalls(ctx context.Context, rows []store.Call) error {
	if err := h.Store.Calls.Add(ctx, rows); err != nil {
		return err
	}
	h.records.notify()
	return nil
}

// HeldCounts counts the providers that some instance holds, by owner: devices and nodes that are
// connected.
func (h *Hub) HeldCounts() map[string]int {
	c := h.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for owner, ids := range c.owned {
		for _, id := range ids {
			if o := c.find(id); o != nil && o.Held && o.Owner == owner {
				out[owner]++
			}
		}
	}
	return out
}
