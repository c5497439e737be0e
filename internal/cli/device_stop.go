package cli

import "context"

type deviceStopCmd struct {
	deviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceStopCmd) Help() string {
	return `Example:

    patchbay device stop kitchen`
}

// Run stops the device's speech or playback.
func (c *deviceStopCmd) Run(ctx context.Context, sh *shell) error {
	return c.callTool(ctx, sh, toolStop, nil)
}
