package upstream

import (
	"context"
	"slices"

	"patchbay/internal/tool"
)

// MaxDangerous bounds how many tools of one server are remembered as dangerous, by names
// of 256 bytes at most. A server that has called more so is trusted with none.
const MaxDangerous = 4000

// wary keeps tools dangerous that their server has called destructive before, whatever it
// says of them now: a hint makes a tool more dangerous, and never less. Its owner decides,
// by allowing the tool by name. If what was said before cannot be looked up, every tool
// counts as dangerous until the list is read again.
func (u *upstream) wary(ctx context.Context, c *catalog) {
	var now []string
	for i := range c.tools {
		if t := &c.tools[i]; t.Dangerous && !slices.Contains(u.dangerous, t.Name) {
			now = append(now, t.Name)
		}
	}
	all := false
	if remember := u.m.opt.Dangerous; remember != nil && (len(now) > 0 || !u.recalled) {
		known, err := remember(ctx, u.spec.ID, now)
		if err != nil {
			u.log.Warn("upstream: which tools were dangerous could not be looked up, so all are for now", "error", err)
			all = true
		} else {
			u.recalled, now = true, known
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
			t.Hints = tool.Hints{ReadOnly: &no, Destructive: &yes, Idempotent: t.Hints.Idempotent, OpenWorld: t.Hints.OpenWorld}
		}
	}
}
