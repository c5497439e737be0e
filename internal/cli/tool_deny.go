package cli

import (
	"context"

	"patchbay/internal/control"
)

type toolDenyCmd struct {
	ruleFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolDenyCmd) Help() string {
	return `The tool is hidden from all programs and bots of its owner. If a server runs, the rule applies on all instances when the command returns.

Examples:

    patchbay tool deny files_delete
    patchbay tool deny '*_delete'`
}

// Run denies the tool.
func (c *toolDenyCmd) Run(ctx context.Context, sh *shell) error {
	return c.set(ctx, sh, control.RuleDeny, msgRuleDeny)
}
