package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type toolRulesCmd struct {
	User      string `help:"Whose rules; without it, everybody's." placeholder:"NAME"`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolRulesCmd) Help() string {
	return `Examples:

    patchbay tool rules
    patchbay tool rules --user ada --json`
}

// ruleRow is a rule in the list.
type ruleRow struct {
	store.ToolRule
	OwnerName string `json:"owner_name"`
}

const (
	msgRule    = i18n.Message("RULE")
	msgDecided = i18n.Message("SINCE")
	msgNoRules = i18n.Message("There are no rules: every tool is allowed that is not dangerous.")
)

// Run lists the rules.
func (c *toolRulesCmd) Run(ctx context.Context, sh *shell) error {
	return c.withData(ctx, sh, func(b *app.Base) error {
		rules, err := b.Store.ToolRules.All(ctx)
		if err != nil {
			return err
		}
		people, err := names(ctx, b)
		if err != nil {
			return err
		}
		if c.User != "" {
			if _, err := person(ctx, b, c.User); err != nil {
				return err
			}
		}
		rows := []ruleRow{}
		for _, r := range rules {
			if c.User == "" || people[r.Owner] == c.User {
				rows = append(rows, ruleRow{r, people[r.Owner]})
			}
		}
		return sh.result(rows, func() {
			if len(rows) == 0 {
				sh.say(msgNoRules)
				return
			}
			var cells [][]string
			for _, r := range rows {
				cells = append(cells, []string{r.Tool, r.Rule, r.OwnerName, sh.when(r.Created)})
			}
			sh.table([]i18n.Message{msgTool, msgRule, msgOwner, msgDecided}, cells)
		})
	})
}
