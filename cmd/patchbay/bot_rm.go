package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/talk"
)

type botRmCmd struct {
	Bot       string `arg:"" help:"Number or name of the bot."`
	Yes       bool   `short:"y" help:"Do not ask."`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (botRmCmd) Help() string {
	return `Its bindings, conversations and keys of its own go with it; the records of its turns stay. Its number is not given again.

Examples:

    patchbay bot rm parrot
    patchbay bot rm 3 --yes`
}

var (
	sayRemoveBot = talk.Say{Zh: "移除机器人 %d（%s），连同它的 %d 个绑定和全部对话？",
		En: "Remove bot %d (%s) with its %d bindings and all conversations?"}
	sayBotRemoved = talk.Say{Zh: "机器人 %d（%s）已移除。", En: "Bot %d (%s) is removed."}
)

// Run removes the bot.
func (c *botRmCmd) Run(ctx context.Context, sh *shell) error {
	return c.withData(ctx, sh, func(b *app.Base) error {
		bot, err := findBot(ctx, b, c.Bot)
		if err != nil {
			return err
		}
		wearers, err := b.Store.Bindings.ByBot(ctx, bot.Number)
		if err != nil {
			return err
		}
		if !c.Yes && !sh.confirm(ctx, sayRemoveBot, bot.Number, bot.Name, len(wearers)) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return talk.Say{Zh: "没有移除任何东西；请回答 y，或加上 --yes", En: "nothing was removed; answer y, or give --yes"}.Wrong()
		}
		if err := b.Store.Bots.Remove(ctx, bot.Number); err != nil {
			return err
		}
		sh.disconnect(ctx, b.Config, bot)
		return sh.result(map[string]any{"id": bot.Number, "removed": true},
			func() { sh.say(sayBotRemoved, bot.Number, bot.Name) })
	})
}
