package cli

import "context"

type toolResetCmd struct {
	ruleFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolResetCmd) Help() string {
	return `Removes a rule of tool allow or tool deny, for exactly the name or pattern that was given there.

Examples:

    patchbay tool reset files_delete
    patchbay tool reset 'lamp_*'`
}

// Run removes a rule.
func (c *toolResetCmd) Run(ctx context.Context, sh *shell) error {
	return c.set(ctx, sh, "", msgRuleReset)
}
