package main

import (
	"context"
	"net/http"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type deviceApproveCmd struct {
	Code        []string `arg:"" help:"The six digits that the device shows and says; spaces and dashes do not matter."`
	Name        string   `help:"What to call it; without a name it gets one." placeholder:"NAME"`
	Bot         string   `help:"Number or name of the bot that answers it." placeholder:"BOT"`
	User        string   `help:"Whose device it is to be; may be left out while there is one person." placeholder:"NAME"`
	dataFlags   `embed:""`
	serverFlags `embed:""`
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
	code := strings.Join(c.Code, "")
	r, err := c.remote(sh)
	if err != nil {
		return err
	}
	if r != nil {
		var d control.Device
		if err := r.do(ctx, http.MethodPost, "/api/v1/devices/approve",
			control.Approval{Code: code, Name: c.Name, Bot: c.Bot, User: c.User}, &d); err != nil {
			return err
		}
		return sh.approved(liveDevice(d))
	}
	return c.withData(ctx, sh, func(b *app.Base) error {
		p, err := person(ctx, b, c.User)
		if err != nil {
			return err
		}
		bot, err := deviceBot(ctx, b, p.ID, c.Bot)
		if err != nil {
			return err
		}
		d, err := b.Accounts.ApproveDevice(ctx, account.NewDevice{Person: p.ID, Code: code, Name: c.Name, Bot: bot})
		if err != nil {
			return deviceError(err)
		}
		rows, err := deviceRows(ctx, b, []store.Device{d})
		if err != nil {
			return err
		}
		return sh.approved(rows[0])
	})
}

func (sh *shell) approved(r deviceRow) error {
	return sh.result(r, func() {
		sh.say(msgApproved, r.Number, r.Name, r.OwnerName)
		if r.Bot == 0 {
			sh.say(msgNoAnswers, r.Number)
		} else {
			sh.say(msgAnswersIt, r.BotName)
		}
		sh.say(msgRepeats)
	})
}
