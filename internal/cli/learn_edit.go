package cli

import (
	"context"
	"encoding/json"

	"patchbay/internal/i18n"
)

type learnEditCmd struct {
	ID         string   `arg:"" name:"id" help:"The knowledge point: its id, or the end of its id as shown by learn list."`
	Question   *string  `help:"The new question." placeholder:"TEXT"`
	Answer     *string  `help:"The new answer." placeholder:"TEXT"`
	Deck       *string  `help:"Deck to move it to; created if it does not exist." placeholder:"DECK"`
	Tag        []string `help:"A tag; replaces all existing tags, and \"\" removes them. Repeatable." placeholder:"TAG"`
	Suspend    bool     `help:"Suspend it." xor:"rest"`
	Resume     bool     `help:"Resume it." xor:"rest"`
	Confirm    bool     `help:"Confirm a draft, which adds it to the reviews."`
	Plan       *bool    `help:"Include it in reviews." negatable:""`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnEditCmd) Help() string {
	return `Its schedule and history are kept when its texts change.

Examples:

    patchbay learn edit 3b1f5e77 --answer "Paris, since 987"
    patchbay learn edit 3b1f5e77 --deck History --tag france --tag capital
    patchbay learn edit 3b1f5e77 --suspend
    patchbay learn edit 3b1f5e77 --confirm`
}

const msgLearnChanged = i18n.Message("Changed (%s, %s): %s")

// Run changes a point.
func (c *learnEditCmd) Run(ctx context.Context, sh *shell) error {
	args := c.changes()
	if len(args) == 0 {
		return usage(i18n.Message("there is nothing to change; see: patchbay learn edit --help"))
	}
	return c.open(ctx, sh, func(l learnCaller) error {
		id, err := learnID(ctx, l, c.ID)
		if err != nil {
			return err
		}
		args["id"] = id
		var row json.RawMessage
		if err := l.call(ctx, "update_knowledge_point", args, &row); err != nil {
			return err
		}
		var p learnPoint
		if err := json.Unmarshal(row, &p); err != nil {
			return err
		}
		return sh.result(row, func() {
			sh.say(msgLearnChanged, learnShort(p.ID), sh.learnState(p.State),
				learnHeading(p.Question))
		})
	})
}

func (c *learnEditCmd) changes() map[string]any {
	args := map[string]any{}
	for name, text := range map[string]*string{"question": c.Question, "answer": c.Answer, "deck": c.Deck} {
		if text != nil {
			args[name] = *text
		}
	}
	switch {
	case len(c.Tag) == 1 && c.Tag[0] == "":
		args["tags"] = []string{}
	case c.Tag != nil:
		args["tags"] = c.Tag
	}
	if c.Suspend || c.Resume {
		args["suspended"] = c.Suspend
	}
	if c.Confirm {
		args["draft"] = false
	}
	if c.Plan != nil {
		args["is_in_review_plan"] = *c.Plan
	}
	return args
}
