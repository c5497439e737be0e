package cli

import (
	"context"
	"errors"

	"patchbay/internal/i18n"
)

type learnRmCmd struct {
	IDs        []string `arg:"" name:"id" help:"The knowledge points: their ids, or the ends of their ids as shown by learn list."`
	Undo       bool     `help:"Restore them instead."`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnRmCmd) Help() string {
	return `Deleted knowledge points are kept for 30 days: patchbay learn list --trash

Examples:

    patchbay learn rm 3b1f5e77
    patchbay learn rm --undo 3b1f5e77`
}

const (
	msgLearnRemoved  = i18n.Message("Deleted: %s. To restore it within 30 days: patchbay learn rm --undo %s%s")
	msgLearnRestored = i18n.Message("Restored (%s): %s")
)

// Run deletes or restores points. An error with one point does not stop the others.
func (c *learnRmCmd) Run(ctx context.Context, sh *shell) error {
	return c.open(ctx, sh, func(l learnCaller) error {
		done := []string{}
		var wrong []error
		for _, id := range c.IDs {
			each := c.remove
			if c.Undo {
				each = c.restore
			}
			id, err := each(ctx, sh, l, id)
			if err != nil {
				wrong = append(wrong, err)
				continue
			}
			done = append(done, id)
		}
		err := errors.Join(wrong...)
		if sh.json {
			what := "deleted"
			if c.Undo {
				what = "restored"
			}
			err = errors.Join(err, sh.writeJSON(map[string]any{what: done}, "  "))
		}
		return err
	})
}

func (c *learnRmCmd) remove(ctx context.Context, sh *shell, l learnCaller, id string) (string, error) {
	id, err := learnID(ctx, l, id)
	if err != nil {
		return id, err
	}
	var p learnPoint
	if err := l.call(ctx, "get_knowledge_point", map[string]any{"id": id}, &p); err != nil {
		return id, err
	}
	if err := l.call(ctx, "delete_knowledge_point", map[string]any{"id": id}, nil); err != nil {
		return id, err
	}
	if !sh.json {
		sh.say(msgLearnRemoved, learnHeading(p.Question), learnShort(id), c.retryFlags())
	}
	return id, nil
}

func (c *learnRmCmd) restore(ctx context.Context, sh *shell, l learnCaller, id string) (string, error) {
	whole, err := learnFind(ctx, l, learnTrash, id)
	if err != nil {
		return id, err
	}
	var p learnPoint
	if err := l.call(ctx, "restore_knowledge_point", map[string]any{"id": whole}, &p); err != nil {
		return whole, err
	}
	if !sh.json {
		sh.say(msgLearnRestored, sh.learnState(p.State), learnHeading(p.Question))
	}
	return whole, nil
}
