package main

import (
	"context"
	"net/http"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type deviceRmCmd struct {
	Yes         bool `short:"y" help:"Do not ask."`
	deviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceRmCmd) Help() string {
	return `Its credentials are refused from now on, and a running server ends its connection. It shows a code again when it calls the next time, and whoever types that in is its owner.

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
	return c.resolve(ctx, sh, func(r *remote) error {
		d, err := r.device(ctx, c.Device)
		if err != nil {
			return err
		}
		return c.remove(ctx, sh, d.Device, func() error {
			return r.do(ctx, http.MethodDelete, devicePath(c.Device), nil, &struct{}{})
		})
	}, func(b *app.Base, d store.Device) error {
		return c.remove(ctx, sh, d, func() error { return deviceError(b.Store.Devices.Remove(ctx, d.Number)) })
	})
}

func (c *deviceRmCmd) remove(ctx context.Context, sh *shell, d store.Device, do func() error) error {
	if !c.Yes && !sh.confirm(ctx, msgRemoveDevice, d.Number, d.Name) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return i18n.Message("nothing was removed; answer y, or give --yes").Errorf()
	}
	if err := do(); err != nil {
		return err
	}
	return sh.result(map[string]any{"id": d.Number, "removed": true},
		func() { sh.say(msgDeviceRemoved, d.Number, d.Name) })
}
