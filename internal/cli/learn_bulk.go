package cli

import (
	"context"

	"patchbay/internal/i18n"
)

type learnBulkCmd struct {
	Query     string   `arg:"" optional:"" help:"The knowledge points, such as \"tag:verbs is:new\"."`
	IDs       []string `name:"id" help:"Knowledge points by their ids, or the ends of their ids as shown by learn list; repeatable." placeholder:"ID"`
	Deck      string   `help:"Move them to this deck; created if it does not exist." placeholder:"DECK"`
	AddTag    []string `help:"Add this tag; repeatable." placeholder:"TAG"`
	RemoveTag []string `help:"Remove this tag; repeatable." placeholder:"TAG"`
	Suspend   bool     `help:"Suspend them." xor:"suspended"`
	Resume    bool     `help:"Resume them." xor:"suspended"`
	Flag      *int     `help:"Flag from 1 to 7; 0 removes it." placeholder:"N"`
	Bury      bool     `help:"Hide them until tomorrow." xor:"buried"`
	Unbury    bool     `help:"Show them again." xor:"buried"`
	Date      string   `help:"Let them come on this date." xor:"due" placeholder:"DATE"`
	InDays    *int     `help:"Let them come in this number of days; 0: today." xor:"due" placeholder:"N"`
	Delete    bool     `help:"Put them into the trash." xor:"trash"`
	Restore   bool     `help:"Take them out of the trash." xor:"trash"`
	DryRun    bool     `help:"Only say how many match."`
	Undo      bool     `help:"Undo the last change of this kind; possible for a day."`

	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnBulkCmd) Help() string {
	return `A query is made of words and conditions, all of which must hold; a - before a condition negates it:

    tag:x  deck:"My deck"  flag:1
    is:new  is:learning  is:review  is:due  is:suspended  is:buried  is:draft  is:leech  is:unplanned
    forgotten:7d  reviewed:2w  added:today  due:3d  lapses:4

Examples:

    patchbay learn bulk "is:leech" --suspend --dry-run
    patchbay learn bulk "deck:default tag:verbs" --deck German --add-tag grammar
    patchbay learn bulk "forgotten:7d" --in-days 0
    patchbay learn bulk --undo`
}

const (
	msgBulkDone    = i18n.Message("Changed %d of %d. To undo this within a day: patchbay learn bulk --undo%s")
	msgBulkSkipped = i18n.Message("%d could not be changed.")
	msgBulkMatches = i18n.Message("%d match.")
	msgBulkUndone  = i18n.Message("Undone for %d (%s).")
	msgBulkKept    = i18n.Message("%d were changed since, and stay as they are.")
)

// Run changes points.
func (c *learnBulkCmd) Run(ctx context.Context, sh *shell) error {
	switch {
	case c.Undo && (c.Query != "" || len(c.IDs) > 0):
		return usage(i18n.Message("--undo is used alone"))
	case !c.Undo && c.Query == "" && len(c.IDs) == 0:
		return usage(i18n.Message("give a query or --id"))
	}
	return c.open(ctx, sh, func(l learnCaller) error {
		if c.Undo {
			return c.undo(ctx, sh, l)
		}
		args, err := c.args(ctx, l)
		if err != nil {
			return err
		}
		var out struct {
			Matched int `json:"matched"`
			Changed int `json:"changed"`
			Skipped int `json:"skipped"`
		}
		if err := l.call(ctx, "edit_knowledge_points", args, &out); err != nil {
			return err
		}
		return sh.result(out, func() {
			if c.DryRun {
				sh.say(msgBulkMatches, out.Matched)
				return
			}
			sh.say(msgBulkDone, out.Changed, out.Matched, c.retryFlags())
			if out.Skipped > 0 {
				sh.say(msgBulkSkipped, out.Skipped)
			}
		})
	})
}

// args returns the arguments of the tool.
func (c *learnBulkCmd) args(ctx context.Context, l learnCaller) (map[string]any, error) {
	args := map[string]any{}
	set := func(given bool, name string, value any) {
		if given {
			args[name] = value
		}
	}
	list := "list_knowledge_points"
	if c.Restore {
		list = learnTrash
	}
	var ids []string
	for _, id := range c.IDs {
		whole, err := learnFind(ctx, l, list, id)
		if err != nil {
			return nil, err
		}
		ids = append(ids, whole)
	}
	set(len(ids) > 0, "ids", ids)
	set(c.Query != "", "query", c.Query)
	set(c.DryRun, "dry_run", true)
	set(c.Deck != "", "deck", c.Deck)
	set(len(c.AddTag) > 0, "add_tags", c.AddTag)
	set(len(c.RemoveTag) > 0, "remove_tags", c.RemoveTag)
	set(c.Suspend || c.Resume, "suspended", c.Suspend)
	set(c.Flag != nil, "flag", c.Flag)
	set(c.Bury || c.Unbury, "bury", c.Bury)
	set(c.Date != "", "date", c.Date)
	set(c.InDays != nil, "in_days", c.InDays)
	set(c.Delete || c.Restore, "deleted", c.Delete)
	return args, nil
}

func (c *learnBulkCmd) undo(ctx context.Context, sh *shell, l learnCaller) error {
	var out struct {
		Undone string `json:"undone"`
		Points int    `json:"points"`
		Kept   int    `json:"kept"`
	}
	if err := l.call(ctx, "undo_edit", map[string]any{}, &out); err != nil {
		return err
	}
	return sh.result(out, func() {
		sh.say(msgBulkUndone, out.Points, out.Undone)
		if out.Kept > 0 {
			sh.say(msgBulkKept, out.Kept)
		}
	})
}
