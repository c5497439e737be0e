package main

import "context"

type deviceStopCmd struct {
	deviceFlags `embed:""`
}

// Help is the command's examples.
func (deviceStopCmd) Help() string {
	return `Example:

    patchbay device stop kitchen`
}

// Run has the device stop what it says or plays.
func (c *deviceStopCmd) Run(ctx context.Context, sh *shell) error {
	return c.act(ctx, sh, toolStop, nil)
}
