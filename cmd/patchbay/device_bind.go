package main

import (
	"context"
	"errors"

	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/store"
	"patchbay/internal/talk"
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

var (
	sayBoundTo = talk.Say{Zh: "设备 %d（%s）现在由机器人 %s 回答。", En: "The bot %[3]s answers device %[1]d (%[2]s) now."}
	sayBoundNo = talk.Say{Zh: "设备 %d（%s）现在没有机器人回答。", En: "No bot answers device %d (%s) now."}
)

// Run binds the device.
func (c *deviceBindCmd) Run(ctx context.Context, sh *shell) error {
	return c.change(ctx, sh, api.DeviceChange{Bot: &c.Bot}, func(b *app.Base, d store.Device) error {
		bot, err := deviceBot(ctx, b, d.Owner, c.Bot)
		if err != nil {
			return err
		}
		return b.Accounts.BindDevice(ctx, d.Number, bot)
	}, func(r deviceRow) {
		if r.Bot == 0 {
			sh.say(sayBoundNo, r.Number, r.Name)
			return
		}
		sh.say(sayBoundTo, r.Number, r.Name, r.BotName)
	})
}

// deviceBot finds a bot of a device's owner by number or name; it returns 0 for none.
func deviceBot(ctx context.Context, b *app.Base, owner, ref string) (int64, error) {
	if ref == "" || ref == api.NoBot {
		return 0, nil
	}
	bot, err := b.Registry.Find(ctx, owner, ref)
	if errors.Is(err, store.ErrNotFound) {
		return 0, talk.Say{Zh: "设备的主人没有机器人 %q；patchbay bot list 会列出现有的",
			En: "the owner of the device has no bot %q; patchbay bot list shows those there are"}.Wrong(ref)
	}
	return bot.Number, err
}
