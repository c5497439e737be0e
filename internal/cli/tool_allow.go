package cli

import (
	"context"

	"patchbay/internal/control"
)

type toolAllowCmd struct {
	ruleFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolAllowCmd) Help() string {
	return `Tools are allowed by default unless they are dangerous: those that reboot a device, replace its firmware, or are declared destructive. Tools intended for people, such as recording with a voice board, are not available to programs and bots either. This command allows such tools to all programs and bots of their owner; to allow them to a single key, use patchbay key rules. Deny rules take precedence over allow rules. If a server runs, the rule applies on all instances when the command returns.

Examples:

    patchbay tool allow lamp_reset
    patchbay tool allow 'lamp_*' --user ada`
}

// Run allows the tool.
func (c *toolAllowCmd) Run(ctx context.Context, sh *shell) error {
	return c.set(ctx, sh, control.RuleAllow, msgRuleAllow)
}
