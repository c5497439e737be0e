package main

import (
	"context"
	"errors"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type deviceBindCmd struct {
	deviceFlags `embed:""`
	Bot         string `arg:"" help:"Number or name of a bot of the device's owner; none: nobody answers it."`
}

// Help returns the command's detailed help with examples.
func (deviceBindCmd) Help() string {
	return `A running server takes the change up with the next question.

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
	return c.change(ctx, sh, control.DeviceChange{Bot: &c.Bot}, func(b *app.Base, d store.Device) error {
		bot, err := deviceBot(ctx, b, d.Owner, c.Bot)
		if err != nil {
			return err
		}
		return b.Accounts.BindDevice(ctx, d.Number, bot)
	}, func(r deviceRow) {
		if r.Bot == 0 {
			sh.say(msgBoundNo, r.Number, r.Name)
			return
		}
		sh.say(msgBoundTo, r.Number, r.Name, r.BotName)
	})
}

// deviceBot finds a bot of a device's owner by number or name; it returns 0 for none.
func deviceBot(ctx context.Context, b *app.Base, owner, ref string) (int64, error) {
	if ref == "" || ref == control.NoBot {
		return 0, nil
	}
	bot, err := b.Registry.Find(ctx, owner, ref)
	if errors.Is(err, store.ErrNotFound) {
		return 0, i18n.Message("the owner of the device has no bot %q; patchbay bot list shows those there are").
			Errorf(ref)
	}
	return bot.Number, err
}
