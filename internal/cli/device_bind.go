package cli

import (
	"context"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type deviceBindCmd struct {
	deviceFlags `embed:""`
	Bot         string `arg:"" help:"Number or name of a bot of the device's owner; none: no bot."`
}

// Help returns the command's detailed help with examples.
func (deviceBindCmd) Help() string {
	return `A running server applies the change to the next question.

Examples:

    patchbay device bind kitchen qwen
    patchbay device bind 3 none`
}

const (
	msgBoundTo = i18n.Message("The bot %[3]s answers device %[1]d (%[2]s) now.")
	msgBoundNo = i18n.Message("No bot answers device %d (%s) now.")
)

// Run binds the device.
func (c *deviceBindCmd) Run(ctx context.Context, sh *shell) error {
	return c.change(ctx, sh, control.DeviceChange{Bot: &c.Bot}, func(r deviceRow) {
		if r.Bot == 0 {
			sh.say(msgBoundNo, r.Number, r.Name)
			return
		}
		sh.say(msgBoundTo, r.Number, r.Name, r.BotName)
		sh.sayMute(r.Device, c.targetFlags)
	})
}
