package cli

import (
	"context"
	"strconv"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type deviceRmCmd struct {
	Yes         bool `short:"y" help:"Do not ask for confirmation."`
	deviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceRmCmd) Help() string {
	return `Its credentials are invalid from now on, and a running server closes its connection. At its next request it shows a new pairing code, and whoever enters that becomes its owner.

Examples:

    patchbay device rm kitchen
    patchbay device rm 3 --yes`
}

const (
	msgRemoveDevice  = i18n.Message("Remove device %d (%s)?")
	msgDeviceRemoved = i18n.Message("Device %d (%s) is removed.")
)

// Run removes the device.
func (c *deviceRmCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		d, err := c.find(ctx, at)
		if err != nil {
			return err
		}
		if !c.Yes && !sh.confirm(ctx, msgRemoveDevice, d.Number, d.Name) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return i18n.Message("nothing was removed; answer y, or give --yes").Errorf()
		}
		removed, err := api.RemoveDevice.Call(ctx, at.Client,
			control.DeviceRef{Device: strconv.FormatInt(d.Number, 10)})
		if err != nil {
			return err
		}
		return sh.result(removed, func() { sh.say(msgDeviceRemoved, d.Number, d.Name) })
	})
}
