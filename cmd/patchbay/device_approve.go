package main

import (
	"context"
	"net/http"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/store"
	"patchbay/internal/talk"
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

var (
	sayApproved = talk.Say{Zh: "设备 %d（%s）已归 %s。", En: "Device %d (%s) belongs to %s now."}
	sayRepeats  = talk.Say{
		Zh: "目前对语音板说话，它只会复述听到的话；机器人还不能通过它说话。",
		En: "For now a board repeats what it hears when you talk to it; bots cannot talk through it yet.",
	}
	sayAnswersIt = talk.Say{Zh: "由机器人 %s 回答。", En: "The bot %s answers it."}
	sayNoAnswers = talk.Say{Zh: "还没有机器人回答它：patchbay device bind %d 机器人",
		En: "No bot answers it yet: patchbay device bind %d BOT"}
)

// Run approves the device.
func (c *deviceApproveCmd) Run(ctx context.Context, sh *shell) error {
	code := strings.Join(c.Code, "")
	r, err := c.remote(sh)
	if err != nil {
		return err
	}
	if r != nil {
		var d api.Device
		if err := r.do(ctx, http.MethodPost, "/api/v1/devices/approve",
			api.Approval{Code: code, Name: c.Name, Bot: c.Bot, User: c.User}, &d); err != nil {
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
		sh.say(sayApproved, r.Number, r.Name, r.OwnerName)
		if r.Bot == 0 {
			sh.say(sayNoAnswers, r.Number)
		} else {
			sh.say(sayAnswersIt, r.BotName)
		}
		sh.say(sayRepeats)
	})
}
