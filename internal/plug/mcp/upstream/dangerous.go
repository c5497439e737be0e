package upstream

import (
	"context"
	"slices"

	"patchbay/internal/tool"
)

// MaxDangerous limits the tools of one server that are remembered as dangerous; names have at
// most 256 bytes. If a server exceeds it, all its tools count as dangerous.
const MaxDangerous = 4000

// markDangerous marks every tool as dangerous that its server has ever called destructive,
// whatever the server claims now: a hint makes a tool more dangerous, never less. The owner can
// override this by allowing the tool by name. If the history cannot be read, every tool counts
// as dangerous until the list is read again.
func (u *upstream) markDangerous(ctx context.Context, c *catalog) {
	var now []string
	for i := range c.tools {
		if t := &c.tools[i]; t.Dangerous && !slices.Contains(u.dangerous, t.Name) {
			now = append(now, t.Name)
		}
	}
	all := false
	if remember := u.m.opt.Dangerous; remember != nil && (len(now) > 0 || !u.dangerousLoaded) {
		known, err := remember(ctx, u.spec.ID, now)
		if err != nil {
			u.log.Warn("upstream: which tools were dangerous could not be looked up, so all are for now", "error", err)
			all = true
		} else {
			u.dangerousLoaded, now = true, known
		}
	}
	for _, name := range now {
		if len(u.dangerous) < MaxDangerous && !slices.Contains(u.dangerous, name) {
			u.dangerous = append(u.dangerous, name)
		}
	}
	all = all || len(u.dangerous) >= MaxDangerous
	no, yes := false, true
	for i := range c.tools {
		if t := &c.tools[i]; all || !t.Dangerous && slices.Contains(u.dangerous, t.Name) {
			t.Dangerous = true
			t.Hints = tool.Hints{ReadOnly: &no, Destructive: &yes, Idempotent: t.Hints.Idempotent,
				OpenWorld: t.Hints.OpenWorld}
		}
	}
}
