package cli

import (
	"context"
	"fmt"

	"patchbay/internal/api"
	"patchbay/internal/i18n"
)

type deviceWatchCmd struct {
	Device      string `arg:"" optional:"" help:"Name, number or MAC address of the device; default: all devices."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceWatchCmd) Help() string {
	return `Prints device notifications, one per line, until Ctrl-C: devices that wake (patchbay/awake) or go to sleep, conversations that start (patchbay/conversation_started) or end (patchbay/conversation_ended), received photos, and notifications of the firmware.

Examples:

    patchbay device watch
    patchbay device watch kitchen --json`
}

const msgWatches = i18n.Message("Waiting for notices from devices; press Ctrl-C to stop.")

// Run prints notices until ctx ends, which is not an error.
func (c *deviceWatchCmd) Run(ctx context.Context, sh *shell) error {
	return c.reach(ctx, sh, func(at *conn) error {
		begun := false
		err := at.Notices(ctx, c.Device, func(l api.NoticeLine) error {
			if !begun && !sh.json {
				fmt.Fprintln(sh.stderr, msgWatches.In(sh.lang))
			}
			begun = true
			switch n := l.Notice; {
			case n == nil: // a heartbeat
			case sh.json:
				return sh.writeJSON(n, "")
			default:
				sh.printf("%s  %s  %s  %s\n", n.At.Local().Format("15:04:05"), plain(n.Title), plain(n.Method),
					plain(string(n.Params)))
			}
			return nil
		})
		return listenEnd(ctx, missingDevice(err, c.Device))
	})
}
