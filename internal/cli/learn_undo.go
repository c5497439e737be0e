package cli

import (
	"context"
	"encoding/json"

	"patchbay/internal/i18n"
)

type learnUndoCmd struct {
	Review     string `help:"Id of the review to undo, as shown by learn show --json; default: the last one." placeholder:"ID"`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnUndoCmd) Help() string {
	return `Restores the schedule from before the review. Later changes of the texts are kept.

Examples:

    patchbay learn undo
    patchbay learn undo --review 0198c4d2-7a51-7c3e-9d2f-0d6a3b1f5e77`
}

const (
	msgLearnUndone  = i18n.Message("Undone (%s): %s")
	msgLearnAlready = i18n.Message("It was already undone: %s")
)

// Run undoes a review.
func (c *learnUndoCmd) Run(ctx context.Context, sh *shell) error {
	return c.open(ctx, sh, func(l learnCaller) error {
		args := map[string]any{}
		if c.Review != "" {
			args["review_id"] = c.Review
		}
		var raw json.RawMessage
		if err := l.call(ctx, "undo_review", args, &raw); err != nil {
			return err
		}
		var undone learnUndone
		if err := json.Unmarshal(raw, &undone); err != nil {
			return err
		}
		return sh.result(raw, func() {
			if undone.Already {
				sh.say(msgLearnAlready, learnHeading(undone.Card.Question))
				return
			}
			sh.say(msgLearnUndone, sh.learnGrade(undone.Grade), learnHeading(undone.Card.Question))
		})
	})
}
