package cli

import (
	"context"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgToolRenamed = i18n.Message("%[1]s is called %[2]s now. Programs can call it by both names. Rules, keys and records go on with %[1]s.")
	msgNameBack    = i18n.Message("%s has its original name again.")
	msgDescribed   = i18n.Message("%s is described in your words now.")
	msgOriginal    = i18n.Message("%s has the name and the texts of its server again.")
	msgTextsBack   = i18n.Message("%s has the texts of its server again.")
	msgWordsNobody = i18n.Message("there is no tool %s with a name or description of yours; patchbay tool words lists them")
	msgNoToolWords = i18n.Message("All tools have the names and texts of their servers.")
	msgWordsName   = i18n.Message("NAME")
	msgWordsText   = i18n.Message("DESCRIPTION")
	msgToolUnaware = i18n.Message("These instances have not confirmed it: %s. They update automatically.")
)

// wordsFlags are the flags of commands about what a tool is called.
type wordsFlags struct {
	User        string `help:"Owner of the tool; optional if there is only one account." placeholder:"NAME"`
	targetFlags `embed:""`
}

// set changes what a tool is called.
func (f *wordsFlags) set(ctx context.Context, sh *shell, in control.ToolWordsChange,
	done func(control.ToolWordsRow)) error {
	in.User = f.User
	return f.connectTools(ctx, sh, func(at *conn) error {
		row, err := api.SetToolWords.Call(ctx, at.Client, in)
		if err != nil {
			return err
		}
		return sh.result(row, func() {
			done(row)
			sh.unaware(row.Unconfirmed)
		})
	})
}

func (sh *shell) unaware(instances []string) {
	if len(instances) > 0 {
		sh.say(msgToolUnaware, strings.Join(instances, ", "))
	}
}

type toolRenameCmd struct {
	Tool       string `arg:"" help:"Name of the tool."`
	Name       string `arg:"" help:"New name: 1 to 64 letters, digits, _ and -, beginning with a letter."`
	wordsFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolRenameCmd) Help() string {
	return `Gives a tool another name in the lists of your programs and bots, because models choose by names. Who may call the tool stays the same: rules, sets, keys and records go on with its original name, and patterns match that one. Wherever a command or a page asks for the name of one tool, the new name is understood. Programs that know the old name can still call it. If a tool is added later whose original name is the same, that one gets a longer name.

Examples:

    patchbay tool rename home_HassTurnOn lights_on
    patchbay tool rename lights_on home_HassTurnOn`
}

// Run renames the tool.
func (c *toolRenameCmd) Run(ctx context.Context, sh *shell) error {
	return c.set(ctx, sh, control.ToolWordsChange{Tool: c.Tool, Name: &c.Name}, func(row control.ToolWordsRow) {
		if row.Name == "" {
			sh.say(msgNameBack, row.Tool)
			return
		}
		sh.say(msgToolRenamed, row.Tool, row.Name)
	})
}

type toolDescribeCmd struct {
	Tool        string  `arg:"" help:"Name of the tool."`
	Description string  `arg:"" optional:"" help:"What it does, for models and people; empty: as its server says."`
	Title       *string `help:"Title for people; empty: as its server says." placeholder:"TEXT"`
	wordsFlags  `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolDescribeCmd) Help() string {
	return `Gives a tool another description or title in the lists of your programs and bots, because models choose by them. What the tool's server declares stays: its arguments, and whether it is dangerous or only reads. If the server changes its own description, that is held back or shown as before.

Examples:

    patchbay tool describe home_HassTurnOn "Switches lamps and sockets on, by room or by name."
    patchbay tool describe home_HassTurnOn --title "Lights on"
    patchbay tool describe home_HassTurnOn ""`
}

// Run describes the tool.
func (c *toolDescribeCmd) Run(ctx context.Context, sh *shell) error {
	in := control.ToolWordsChange{Tool: c.Tool, Title: c.Title}
	if c.Description != "" || c.Title == nil {
		in.Description = &c.Description
	}
	return c.set(ctx, sh, in, func(row control.ToolWordsRow) {
		if row.Description == "" && row.Title == "" {
			sh.say(msgTextsBack, row.Tool)
			return
		}
		sh.say(msgDescribed, row.Tool)
	})
}

type toolOriginalCmd struct {
	Tool       string `arg:"" help:"Name of the tool: the original one, or yours."`
	wordsFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolOriginalCmd) Help() string {
	return `Takes back what tool rename and tool describe have changed, also for a tool that is not there at the moment. Your name is free then, and programs cannot call the tool by it any more.

Examples:

    patchbay tool original lights_on`
}

// Run gives the tool back its name and texts.
func (c *toolOriginalCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		row, err := api.ClearToolWords.Call(ctx, at.Client, control.ToolWordsRef{Tool: c.Tool, User: c.User})
		if isMissing(err) && c.User == "" { // otherwise there may be no such person
			err = msgWordsNobody.Errorf(c.Tool)
		}
		if err != nil {
			return err
		}
		return sh.result(row, func() {
			sh.say(msgOriginal, row.Tool)
			sh.unaware(row.Unconfirmed)
		})
	})
}

type toolWordsCmd struct {
	User        string `help:"Account whose tools are listed; default: all accounts." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolWordsCmd) Help() string {
	return `Examples:

    patchbay tool words
    patchbay tool words --json`
}

// Run lists the tools.
func (c *toolWordsCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.ToolWords.Call(ctx, at.Client, control.ToolRuleQuery{User: c.User})
		if err != nil {
			return err
		}
		return sh.result(list.Tools, func() {
			if len(list.Tools) == 0 {
				sh.say(msgNoToolWords)
				return
			}
			var cells [][]string
			for _, r := range list.Tools {
				text := r.Title
				if text == "" {
					text = r.Description
				}
				cells = append(cells, []string{r.Tool, r.Name, r.OwnerName, short(text, whatWidth)})
			}
			sh.table([]i18n.Message{msgTool, msgWordsName, msgOwner, msgWordsText}, cells)
		})
	})
}
