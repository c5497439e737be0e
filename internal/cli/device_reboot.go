package cli

import "context"

type deviceRebootCmd struct {
	laterFlag   `embed:""`
	deviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceRebootCmd) Help() string {
	return `The reboot tool is dangerous: the device's owner has to allow it once, with patchbay tool allow and the name shown by patchbay device tools.

Examples:

    patchbay device reboot kitchen
    patchbay device reboot kitchen --later`
}

// Run restarts the device.
func (c *deviceRebootCmd) Run(ctx context.Context, sh *shell) error {
	var args map[string]any
	if c.Later {
		args = map[string]any{"later": true}
	}
	return c.callTool(ctx, sh, toolReboot, args)
}
