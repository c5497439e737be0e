package hub

import (
	"context"
	"slices"
	"time"

	"patchbay/internal/tool"
)

// What another instance held, and no instance holds now, stays listed for a while: the instance has
// died or restarts, or the connection broke, and the provider will connect to this or another
// instance. A model that gets "unknown tool" forgets the tool; one that gets "offline" calls again.

// AbsentRetention is how long a provider that no instance holds stays listed.
const AbsentRetention = 2 * time.Minute

// absentBackend gets the calls of a provider that no instance holds. If the provider is registered
// here, as sleeping devices are, it can give a better reason.
type absentBackend struct {
	catalog *catalog
	ref     ProviderRef
}

// Call refuses the call.
func (p *absentBackend) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	p.catalog.mu.Lock()
	s := p.catalog.local[p.ref.ID]
	p.catalog.mu.Unlock()
	if s != nil {
		return s.provider.Call(ctx, c)
	}
	return nil, notConnected(p.ref.Title)
}

func (p *absentBackend) exchange(context.Context, *tool.Call, *contentQuery) (*callResult, error) {
	return nil, notConnected(p.ref.Title)
}

func (p *absentBackend) unwatch(string, string) {}

// notConnected returns the error for a provider that was connected a moment ago.
func notConnected(title string) *tool.Error {
	if title == "" {
		title = "This"
	}
	return tool.Fail(tool.Offline, title+
		" is not connected at the moment; nothing was done. It may be back in some seconds: call again then.", nil)
}

// markAbsent keeps a provider listed for a while that an instance does not hold any more, and
// reports whether that changed something. Requires catalog.mu.
func (x *catalogSync) markAbsent(instance, id string) bool {
	c := x.hub.catalog
	a := c.remote[instance][id]
	switch {
	case a == nil || !a.expiresAt.IsZero():
		return false
	case a.offer == nil, offersAll(c.local[id], a.offer.list):
		return x.forgetProvider(instance, id)
	}
	o := a.offer.ProviderRef
	o.Held = false
	a.offer = a.offer.withRef(o)
	a.offer.backend = withContent(&absentBackend{c, o}, a)
	a.expiresAt, a.current = time.Now().Add(AbsentRetention), false
	c.invalidate(o.Owner)
	return true
}

// offersAll reports whether a registration offers all tools of a list, so that none of them has to
// stay listed as absent. Requires catalog.mu.
func offersAll(s *Registration, list []tool.Tool) bool {
	if s == nil {
		return len(list) == 0
	}
	have := make(map[string]bool, len(s.offer.list))
	for i := range s.offer.list {
		have[s.offer.list[i].Name] = true
	}
	return !slices.ContainsFunc(list, func(t tool.Tool) bool { return !have[t.Name] })
}

// expire forgets the providers that were absent for too long.
func (x *catalogSync) expire(now time.Time) {
	c := x.hub.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := false
	for instance, providers := range c.remote {
		for id, a := range providers {
			if !a.expiresAt.IsZero() && now.After(a.expiresAt) {
				changed = x.forgetProvider(instance, id) || changed
			}
		}
		if len(providers) == 0 && !x.hub.Bus.IsAlive(instance) {
			delete(c.remote, instance)
		}
	}
	if changed {
		c.notifyWatchers()
	}
}

// dropAbsent forgets an absent provider because it was removed. Requires mu.
func (c *catalog) dropAbsent(id string) {
	if c.forgetProvider == nil {
		return
	}
	for instance, providers := range c.remote {
		if a := providers[id]; a != nil && !a.expiresAt.IsZero() {
			c.forgetProvider(instance, id)
		}
	}
}
