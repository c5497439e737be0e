package upstream

import (
	"context"
	"slices"

	"patchbay/internal/pin"
	"patchbay/internal/tool"
)

// pinOff is the value of [Settings].Pin of servers whose changes need no approval.
const pinOff = "off"

// Pins stores what the owners of upstreams have approved of what their servers offer. Upstream is a
// spec's id.
type Pins interface {
	// Record stores what a server offers now. The first list of an upstream is approved, and
	// everything that is not in a list is no longer offered, except of the kinds that are partial.
	// stale means that Record has to be called again later although nothing changes.
	Record(ctx context.Context, upstream string, list pin.List) (marks map[pin.Key]pin.Mark, stale bool, err error)
	// Marks returns what is stored.
	Marks(ctx context.Context, upstream string) (map[pin.Key]pin.Mark, error)
}

// pinned reports whether changes of the server need the owner's approval.
func (u *upstream) pinned() bool { return u.m.opt.Pins != nil && u.spec.Settings.Pin != pinOff }

// checkPins compares a new list with what the owner has approved, and marks the tools whose change
// is held back. If the store fails, the marks of the list before decide, and without those
// everything is held back until the list is read again.
func (u *upstream) checkPins(ctx context.Context, s *session, c *catalog) {
	forms := []pin.Form{pin.OfServer(clip(s.instructions, maxDescription))}
	c.fingerprints = make(map[pin.Key]string, len(c.tools)+len(c.offeredPrompts))
	for i := range c.tools {
		f := pin.OfTool(s.approvable(&c.tools[i]))
		c.fingerprints[f.Key] = f.Fingerprint
		forms = append(forms, f)
	}
	for i := range c.unselected {
		forms = append(forms, pin.OfTool(s.approvable(&c.unselected[i])))
	}
	for _, p := range c.offeredPrompts {
		f := pin.OfPrompt(p.Name, p.Raw)
		c.fingerprints[f.Key] = f.Fingerprint
		forms = append(forms, f)
	}
	c.unselected = nil
	if !u.pinned() {
		return
	}
	content, partial := u.contentForms(ctx, s)
	// A server that has no tools yet has not shown what it offers.
	if len(forms) == 1 && len(content) <= 1 && len(u.pins) == 0 {
		return
	}
	if c.truncated || c.promptsTruncated {
		partial = append(partial, pin.Tool, pin.Server, pin.Prompt)
	}
	u.record(ctx, pin.List{Forms: append(forms, content...), Partial: partial})
	u.hold(c)
}

// record compares a list with what is approved. It returns false if the store failed.
func (u *upstream) record(ctx context.Context, list pin.List) bool {
	marks, stale, err := u.m.opt.Pins.Record(ctx, u.spec.ID, list)
	if err != nil {
		u.log.Warn("upstream: what the owner has approved could not be read, so changes are held back", "error", err)
		u.pinsStale = true
		return false
	}
	u.pins, u.pinsStale = marks, stale
	return true
}

// hold marks the tools that are held back, and leaves out the prompts that are.
func (u *upstream) hold(c *catalog) {
	c.prompts = slices.DeleteFunc(slices.Clone(c.offeredPrompts), func(p tool.Prompt) bool {
		return u.holdsForm(c, pin.Key{Kind: pin.Prompt, Name: p.Name})
	})
	c.held = map[string]bool{}
	for i := range c.tools {
		t := &c.tools[i]
		t.Held = u.holdsForm(c, pin.Key{Kind: pin.Tool, Name: t.Name})
		if t.Held {
			c.held[t.Name] = true
		}
	}
	u.m.metrics.setHeld(u, len(c.held)+len(c.offeredPrompts)-len(c.prompts)+u.holdContent(c))
}

// holdsForm reports whether the form in which a catalog has something is held back.
func (u *upstream) holdsForm(c *catalog, k pin.Key) bool { return u.pins[k].Holds(c.fingerprints[k]) }

// applyApproval offers what the owner has approved meanwhile.
func (u *upstream) applyApproval() {
	if !u.pinned() {
		return
	}
	marks, err := u.m.opt.Pins.Marks(u.ctx, u.spec.ID)
	if err != nil {
		u.log.Warn("upstream: what the owner has approved could not be read", "error", err)
		u.pinsStale = true
		return
	}
	u.mu.Lock()
	c := *u.catalog
	u.mu.Unlock()
	u.pins, c.tools = marks, slices.Clone(c.tools)
	u.hold(&c)
	u.publishCatalog(&c)
}

// holds reports whether a tool is held back.
func (u *upstream) holds(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.catalog.held[name]
}
