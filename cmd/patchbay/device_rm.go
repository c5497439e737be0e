package main

import (
	"context"
	"net/http"

	"patchbay/internal/app"
	"patchbay/internal/store"
	"patchbay/internal/talk"
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

var (
	sayRemoveDevice  = talk.Say{Zh: "移除设备 %d（%s）？", En: "Remove device %d (%s)?"}
	sayDeviceRemoved = talk.Say{Zh: "设备 %d（%s）已移除。", En: "Device %d (%s) is removed."}
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
	if !c.Yes && !sh.confirm(ctx, sayRemoveDevice, d.Number, d.Name) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return talk.Say{Zh: "没有移除任何东西；请回答 y，或加上 --yes", En: "nothing was removed; answer y, or give --yes"}.Wrong()
	}
	if err := do(); err != nil {
		return err
	}
	return sh.result(map[string]any{"id": d.Number, "removed": true},
		func() { sh.say(sayDeviceRemoved, d.Number, d.Name) })
}
