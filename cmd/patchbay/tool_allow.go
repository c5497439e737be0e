package main

import (
	"context"

	"patchbay/internal/control"
)

type toolAllowCmd struct {
	ruleFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolAllowCmd) Help() string {
	return `Tools may be used unless they are dangerous: those that reboot a device, replace its firmware, or call themselves destructive. Programs and bots get none that are for people either, such as those by which a voice board records. This allows such tools to all programs and bots of their owner. One key alone is allowed them by patchbay key rules. A rule that denies counts more than one that allows. If a server runs, the rule holds on all instances when the command returns.

Examples:

    patchbay tool allow lamp_reset
    patchbay tool allow 'lamp_*' --user ada`
}

// Run allows the tool.
func (c *toolAllowCmd) Run(ctx context.Context, sh *shell) error {
	return c.set(ctx, sh, control.RuleAllow, msgRuleAllow)
}
