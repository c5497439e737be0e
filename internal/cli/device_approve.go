package cli

import (
	"context"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type deviceApproveCmd struct {
	Code        []string `arg:"" help:"The six-digit pairing code that the device shows and says; spaces and dashes are ignored."`
	Name        string   `help:"Name of the device; default: generated." placeholder:"NAME"`
	Room        string   `help:"Room in which the device is." placeholder:"NAME"`
	Bot         string   `help:"Number or name of the bot that answers the device." placeholder:"BOT"`
	User        string   `help:"Owner of the device; optional if there is only one account." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceApproveCmd) Help() string {
	return `A device without an owner shows a pairing code when it starts. Whoever enters the code becomes its owner, and the device connects within 30 seconds. A device that was erased shows a code too; it keeps its name, its room and its bot.

Examples:

    patchbay device approve 123456
    patchbay device approve 123 456 --name speaker --room kitchen --bot qwen
    patchbay device approve 123-456 --user ada --json`
}

const (
	msgApproved  = i18n.Message("Device %d (%s) now belongs to %s.")
	msgAnswersIt = i18n.Message("The bot %s answers it.")
	msgNoAnswers = i18n.Message("No bot answers it yet: patchbay device bind %d BOT")
	msgNeedsEars = i18n.Message("It cannot talk yet: no speech engine hears, or none speaks. Set up voice: patchbay voice setup%s")
	msgNotSpoken = i18n.Message("It cannot talk: the configuration does not let bots answer boards (xiaozhi.voice).")
)

// Run approves the device.
func (c *deviceApproveCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		d, err := api.ApproveDevice.Call(ctx, at.Client,
			control.Approval{Code: strings.Join(c.Code, ""), Name: c.Name, Room: c.Room, Bot: c.Bot,
				User: c.User})
		if err != nil {
			return err
		}
		return sh.result(at.deviceRow(d), func() {
			sh.say(msgApproved, d.Number, d.Name, d.OwnerName)
			if d.Bot == 0 {
				sh.say(msgNoAnswers, d.Number)
				return
			}
			sh.say(msgAnswersIt, d.BotName)
			sh.sayMute(d, c.targetFlags)
		})
	})
}

// sayMute tells why the bot of a device cannot talk, if it cannot.
func (sh *shell) sayMute(d control.Device, f targetFlags) {
	switch d.Mute {
	case "":
	case control.MuteEngines:
		sh.say(msgNeedsEars, f.retryFlags())
	default:
		sh.say(msgNotSpoken)
	}
}
