package cli

import (
	"context"
	"strconv"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgSetSaved   = i18n.Message("The set %s has %s. Tools in it now: %d.")
	msgSetRemoved = i18n.Message("The set %s is removed. Keys and addresses that name it have no tools now.")
	msgNoSets     = i18n.Message("There are no sets.")
	msgSetHead    = i18n.Message("SET")
	msgSetTools   = i18n.Message("TOOLS")
	msgSetNow     = i18n.Message("NOW")
)

type toolSetAddCmd struct {
	Name        string   `arg:"" help:"Name of the set: lower-case letters, digits, _ and -."`
	Tools       []string `arg:"" help:"Names of tools, and patterns with the wildcard *."`
	Replace     bool     `help:"Replace the tools of the set, instead of adding to them."`
	User        string   `help:"Owner of the tools; optional if there is only one account." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolSetAddCmd) Help() string {
	return `Puts tools together under a name, or adds them to those that have that name. A program that is given the address /mcp?set=home, or a key with --set home, sees the tools of the set alone, as far as the rules allow them.

Examples:

    patchbay tool set add home 'lamp_*' 'kitchen_*'
    patchbay tool set add home 'lamp_*' --replace
    patchbay key rules desk --set home`
}

// Run saves the set.
func (c *toolSetAddCmd) Run(ctx context.Context, sh *shell) error {
	change := control.SetAdd
	if c.Replace {
		change = ""
	}
	return saveToolSet(ctx, sh, c.targetFlags,
		control.ToolSetChange{Set: c.Name, Tools: c.Tools, User: c.User, Change: change})
}

func saveToolSet(ctx context.Context, sh *shell, target targetFlags, in control.ToolSetChange) error {
	return target.connect(ctx, sh, func(at *conn) error {
		row, err := api.SaveToolSet.Call(ctx, at.Client, in)
		if err != nil {
			return err
		}
		return sh.result(row, func() { sh.say(msgSetSaved, row.Name, strings.Join(row.Tools, " "), row.Matches) })
	})
}

type toolSetListCmd struct {
	User        string `help:"Account whose sets are listed; default: all accounts." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolSetListCmd) Help() string {
	return `Examples:

    patchbay tool set list
    patchbay tool set list --json`
}

// Run lists the sets.
func (c *toolSetListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.ToolSets.Call(ctx, at.Client, control.ToolRuleQuery{User: c.User})
		if err != nil {
			return err
		}
		return sh.result(list, func() {
			if len(list.Sets) == 0 {
				sh.say(msgNoSets)
				return
			}
			var cells [][]string
			for _, r := range list.Sets {
				cells = append(cells, []string{r.Name, strings.Join(r.Tools, " "), strconv.Itoa(r.Matches),
					r.OwnerName})
			}
			sh.table([]i18n.Message{msgSetHead, msgSetTools, msgSetNow, msgOwner}, cells)
		})
	})
}

type toolSetRmCmd struct {
	Name        string   `arg:"" help:"Name of the set."`
	Tools       []string `arg:"" optional:"" help:"Names and patterns to take out of the set; none: the whole set is removed."`
	User        string   `help:"Owner of the set; optional if there is only one account." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolSetRmCmd) Help() string {
	return `Examples:

    patchbay tool set rm home lamp_on 'kitchen_*'
    patchbay tool set rm home`
}

// Run removes the set, or tools of it.
func (c *toolSetRmCmd) Run(ctx context.Context, sh *shell) error {
	if len(c.Tools) > 0 {
		return saveToolSet(ctx, sh, c.targetFlags,
			control.ToolSetChange{Set: c.Name, Tools: c.Tools, User: c.User, Change: control.SetRemove})
	}
	return c.connect(ctx, sh, func(at *conn) error {
		row, err := api.RemoveToolSet.Call(ctx, at.Client, control.ToolSetRef{Set: c.Name, User: c.User})
		if err != nil {
			return err
		}
		return sh.result(row, func() { sh.say(msgSetRemoved, row.Name) })
	})
}
