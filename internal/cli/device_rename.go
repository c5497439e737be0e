package cli

import (
	"context"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type deviceRenameCmd struct {
	deviceFlags `embed:""`
	Name        string `arg:"" help:"The new name."`
}

// Help returns the command's detailed help with examples.
func (deviceRenameCmd) Help() string {
	return `The names of its tools change accordingly.

Examples:

    patchbay device rename 3 kitchen
    patchbay device rename kitchen "living room"`
}

const msgRenamed = i18n.Message("Device %d is now called %s.")

// Run renames the device.
func (c *deviceRenameCmd) Run(ctx context.Context, sh *shell) error {
	return c.change(ctx, sh, control.DeviceChange{Name: &c.Name},
		func(r deviceRow) { sh.say(msgRenamed, r.Number, r.Name) })
}
