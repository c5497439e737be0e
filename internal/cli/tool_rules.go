package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type toolRulesCmd struct {
	User        string `help:"Account whose rules are listed; default: all accounts." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolRulesCmd) Help() string {
	return `Examples:

    patchbay tool rules
    patchbay tool rules --user ada --json`
}

const (
	msgRule    = i18n.Message("RULE")
	msgDecided = i18n.Message("SINCE")
	msgNoRules = i18n.Message("There are no rules: all tools that are not dangerous are allowed.")
)

// Run lists the rules.
func (c *toolRulesCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.ListToolRules.Call(ctx, at.Client, control.ToolRuleQuery{User: c.User})
		if err != nil {
			return err
		}
		return sh.result(list.Rules, func() {
			if len(list.Rules) == 0 {
				sh.say(msgNoRules)
				return
			}
			var cells [][]string
			for _, r := range list.Rules {
				cells = append(cells, []string{r.Tool, r.Rule, r.OwnerName, sh.when(r.Created)})
			}
			sh.table([]i18n.Message{msgTool, msgRule, msgOwner, msgDecided}, cells)
		})
	})
}
