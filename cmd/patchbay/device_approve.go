package main

import (
	"context"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type deviceApproveCmd struct {
	Code        []string `arg:"" help:"The six digits that the device shows and says; spaces and dashes do not matter."`
	Name        string   `help:"What to call it; without a name it gets one." placeholder:"NAME"`
	Bot         string   `help:"Number or name of the bot that answers it." placeholder:"BOT"`
	User        string   `help:"Whose device it is to be; may be left out while there is one person." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceApproveCmd) Help() string {
	return `A device that nobody owns shows a code when it is turned on. Who types it in is its owner from then on, and the device connects within half a minute. One that was erased shows a code too; it keeps its name and its bot.

Examples:

    patchbay device approve 123456
    patchbay device approve 123 456 --name kitchen --bot qwen
    patchbay device approve 123-456 --user ada --json`
}

const (
	msgApproved  = i18n.Message("Device %d (%s) belongs to %s now.")
	msgRepeats   = i18n.Message("For now a board repeats what it hears when you talk to it; bots cannot talk through it yet.")
	msgAnswersIt = i18n.Message("The bot %s answers it.")
	msgNoAnswers = i18n.Message("No bot answers it yet: patchbay device bind %d BOT")
)

// Run approves the device.
func (c *deviceApproveCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		d, err := api.ApproveDevice.Call(ctx, at.Client,
			control.Approval{Code: strings.Join(c.Code, ""), Name: c.Name, Bot: c.Bot, User: c.User})
		if err != nil {
			return err
		}
		return sh.result(at.deviceRow(d), func() {
			sh.say(msgApproved, d.Number, d.Name, d.OwnerName)
			if d.Bot == 0 {
				sh.say(msgNoAnswers, d.Number)
			} else {
				sh.say(msgAnswersIt, d.BotName)
			}
			sh.say(msgRepeats)
		})
	})
}
