package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
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

const (
	msgRemoveBot  = i18n.Message("Remove bot %d (%s) with its %d bindings and all conversations?")
	msgBotRemoved = i18n.Message("Bot %d (%s) is removed.")
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
		if !c.Yes && !sh.confirm(ctx, msgRemoveBot, bot.Number, bot.Name, len(wearers)) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return i18n.Message("nothing was removed; answer y, or give --yes").Errorf()
		}
		if err := b.Store.Bots.Remove(ctx, bot.Number); err != nil {
			return err
		}
		sh.disconnect(ctx, b.Config, bot)
		return sh.result(map[string]any{"id": bot.Number, "removed": true},
			func() { sh.say(msgBotRemoved, bot.Number, bot.Name) })
	})
}
