package board

import (
	"context"
	"slices"
	"time"

	"patchbay/internal/tool"
)

// What another instance held, and nobody holds now, stays listed for a while: its
// instance has died or restarts, or its connection broke, and it is on its way to this or
// another one. A model that is told of an unknown tool forgets it; one that is told that the
// tool is offline calls again.

// AbsentFor is how long an outlet that nobody holds stays listed.
const AbsentFor = 2 * time.Minute

// absentPlace is where calls go of an outlet that nobody holds. If it is plugged in here,
// as devices are that sleep, its provider knows more.
type absentPlace struct {
	catalog *catalog
	outlet  Outlet
}

// Call refuses the call.
func (p *absentPlace) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	p.catalog.mu.Lock()
	s := p.catalog.here[p.outlet.ID]
	p.catalog.mu.Unlock()
	if s != nil {
		return s.provider.Call(ctx, c)
	}
	return nil, notConnected(p.outlet.Title)
}

// notConnected is why something is offline that was connected a moment ago.
func notConnected(title string) *tool.Error {
	if title == "" {
		title = "This"
	}
	return tool.Fail(tool.Offline, title+" is not connected at the moment; nothing was done. It may be back in some seconds: call again then.", nil)
}

// missed keeps an outlet listed for a while that an instance does not hold any more, and
// says whether something has changed by that. With catalog.mu held.
func (x *exchanger) missed(instance, id string) bool {
	c := x.board.catalog
	a := c.away[instance][id]
	switch {
	case a == nil || !a.until.IsZero():
		return false
	case a.offer == nil, covers(c.here[id], a.offer.list):
		return x.unlearn(instance, id)
	}
	o := a.offer.Outlet
	o.Held = false
	a.offer = a.offer.as(o)
	a.offer.at = &absentPlace{c, o}
	a.until, a.current = time.Now().Add(AbsentFor), false
	c.stale(o.Owner)
	return true
}

// covers reports whether a socket offers all tools of a list, so that nothing is missed of
// it. With catalog.mu held.
func covers(s *Socket, list []tool.Tool) bool {
	if s == nil {
		return len(list) == 0
	}
	have := make(map[string]bool, len(s.offer.list))
	for i := range s.offer.list {
		have[s.offer.list[i].Name] = true
	}
	return !slices.ContainsFunc(list, func(t tool.Tool) bool { return !have[t.Name] })
}

// expire forgets the outlets that were missed for long enough.
func (x *exchanger) expire(now time.Time) {
	c := x.board.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := false
	for instance, outlets := range c.away {
		for id, a := range outlets {
			if !a.until.IsZero() && now.After(a.until) {
				changed = x.unlearn(instance, id) || changed
			}
		}
		if len(outlets) == 0 && !x.board.Bus.Lives(instance) {
			delete(c.away, instance)
		}
	}
	if changed {
		c.wake()
	}
}

// dropAbsent forgets an outlet that was missed: it was removed. With mu held.
func (c *catalog) dropAbsent(id string) {
	if c.unlearn == nil {
		return
	}
	for instance, outlets := range c.away {
		if a := outlets[id]; a != nil && !a.until.IsZero() {
			c.unlearn(instance, id)
		}
	}
}
