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
	Set         []string `arg:"" name:"k=v" help:"room=NAME, where it is (empty: none); transport=websocket, transport=mqtt, or transport=default (chosen by the server)."`
}

// Help returns the command's detailed help with examples.
func (deviceSetCmd) Help() string {
	return `The device uses a new transport after its next restart.

Examples:

    patchbay device set kitchen transport=mqtt
    patchbay device set kitchen transport=default
    patchbay device set speaker "room=living room"`
}

const (
	msgDeviceSet  = i18n.Message("Device %d (%s) uses this transport after its next restart: %s.")
	msgDeviceRoom = i18n.Message("Device %d (%s) is in this room now: %s.")
	msgDeviceFree = i18n.Message("Device %d (%s) is in no room now.")
)

// Run changes the device.
func (c *deviceSetCmd) Run(ctx context.Context, sh *shell) error {
	set, err := sh.pairs(c.Set)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if name != "transport" && name != "room" {
			return usage(i18n.Message("devices have no setting %q; there are room and transport"), name)
		}
	}
	var change control.DeviceChange
	if room, given := set["room"]; given {
		change.Room = &room
	}
	if transport, given := set["transport"]; given {
		transport = cmp.Or(transport, control.DefaultTransport)
		change.Transport = &transport
	}
	err = c.change(ctx, sh, change, func(r deviceRow) { sh.sayDeviceSet(r, change) })
	if e, ok := errors.AsType[*api.ServerError](err); ok && e.Status == http.StatusBadRequest {
		return usageError{err}
	}
	return err
}

// sayDeviceSet tells what was set.
func (sh *shell) sayDeviceSet(r deviceRow, change control.DeviceChange) {
	switch {
	case change.Room == nil:
	case r.Room == "":
		sh.say(msgDeviceFree, r.Number, r.Name)
	default:
		sh.say(msgDeviceRoom, r.Number, r.Name, r.Room)
	}
	if change.Transport != nil {
		sh.say(msgDeviceSet, r.Number, r.Name, *change.Transport)
	}
}
