package main

import (
	"context"
	"encoding/json"

	"patchbay/internal/talk"
)

type learnUndoCmd struct {
	Review     string `help:"The review to take back, by its id, as learn show --json shows it; without it, the last one." placeholder:"ID"`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnUndoCmd) Help() string {
	return `The knowledge point is due again as it was before. What was written anew since stays.

Examples:

    patchbay learn undo
    patchbay learn undo --review 0198c4d2-7a51-7c3e-9d2f-0d6a3b1f5e77`
}

var (
	sayLearnUndone  = talk.Say{Zh: "已撤销“%s”：%s", En: "Taken back (%s): %s"}
	sayLearnAlready = talk.Say{Zh: "之前已经撤销：%s", En: "It was taken back before: %s"}
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
				sh.say(sayLearnAlready, learnHeading(undone.Card.Question))
				return
			}
			sh.say(sayLearnUndone, sh.learnGrade(undone.Grade), learnHeading(undone.Card.Question))
		})
	})
}
