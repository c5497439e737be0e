package main

import "context"

type deviceRebootCmd struct {
	laterFlag   `embed:""`
	deviceFlags `embed:""`
}

// Help is the command's examples.
func (deviceRebootCmd) Help() string {
	return `The tool that does it counts as dangerous: its owner has to allow it once (patchbay tool allow, with the name that patchbay device tools shows).

Examples:

    patchbay device reboot kitchen
    patchbay device reboot kitchen --later`
}

// Run has the device start again.
func (c *deviceRebootCmd) Run(ctx context.Context, sh *shell) error {
	var args map[string]any
	if c.Later {
		args = map[string]any{"later": true}
	}
	return c.act(ctx, sh, toolReboot, args)
}
