package main

import (
	"context"

	"patchbay/internal/board"
)

type toolDenyCmd struct {
	ruleFlags `embed:""`
}

// Help is the command's examples.
func (toolDenyCmd) Help() string {
	return `No program and no bot of its owner sees the tool from now on. If a server runs, the rule holds on all instances when the command returns.

Examples:

    patchbay tool deny files_delete
    patchbay tool deny '*_delete'`
}

// Run denies the tool.
func (c *toolDenyCmd) Run(ctx context.Context, sh *shell) error {
	return c.set(ctx, sh, board.RuleDeny, sayRuleDeny)
}
