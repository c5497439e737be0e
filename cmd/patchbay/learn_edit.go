package main

import (
	"context"
	"encoding/json"

	"patchbay/internal/i18n"
)

type learnEditCmd struct {
	ID         string   `arg:"" name:"id" help:"The knowledge point: its id, or the last letters of that, as learn list shows them."`
	Question   *string  `help:"What is asked instead." placeholder:"TEXT"`
	Answer     *string  `help:"Its answer instead." placeholder:"TEXT"`
	Deck       *string  `help:"Deck to move it to; one that does not exist is made." placeholder:"DECK"`
	Tag        []string `help:"A tag; those that are given replace what it had, and \"\" takes all away. Can be given again." placeholder:"TAG"`
	Suspend    bool     `help:"Let it rest." xor:"rest"`
	Resume     bool     `help:"Let it rest no more." xor:"rest"`
	Confirm    bool     `help:"Confirm a draft, which is reviewed from then on."`
	Plan       *bool    `help:"Whether it is reviewed at all." negatable:""`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnEditCmd) Help() string {
	return `Its plan and its history stay, whatever is written anew.

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
