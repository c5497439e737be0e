package cli

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type deviceSetCmd struct {
	deviceFlags `embed:""`
	Set         []string `arg:"" name:"k=v" help:"transport=websocket, transport=mqtt, or transport=default (chosen by the server)."`
}

// Help returns the command's detailed help with examples.
func (deviceSetCmd) Help() string {
	return `The device uses the new transport after its next restart.

Examples:

    patchbay device set kitchen transport=mqtt
    patchbay device set kitchen transport=default`
}

const msgDeviceSet = i18n.Message("Device %d (%s) uses this transport after its next restart: %s.")

// Run changes the device.
func (c *deviceSetCmd) Run(ctx context.Context, sh *shell) error {
	set, err := sh.pairs(c.Set)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if name != "transport" {
			return usage(i18n.Message("devices have no setting %q; the only one is transport"),
				name)
		}
	}
	chosen := cmp.Or(set["transport"], control.DefaultTransport)
	err = c.change(ctx, sh, control.DeviceChange{Transport: &chosen},
		func(r deviceRow) { sh.say(msgDeviceSet, r.Number, r.Name, chosen) })
	if e, ok := errors.AsType[*api.ServerError](err); ok && e.Status == http.StatusBadRequest {
		return usageError{err}
	}
	return err
}
