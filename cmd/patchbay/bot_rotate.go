package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
)

type botRotateCmd struct {
	Bot       string `arg:"" help:"Number or name of the bot."`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (botRotateCmd) Help() string {
	return `The old token is refused from now on, and whoever is connected with it is disconnected.

Example:

    patchbay bot rotate lobster`
}

const msgRotated = i18n.Message("Bot %d (%s) has a new token; the old one is refused.")

// Run replaces the token of the bot.
func (c *botRotateCmd) Run(ctx context.Context, sh *shell) error {
	return c.withData(ctx, sh, func(b *app.Base) error {
		bot, err := findBot(ctx, b, c.Bot)
		if err != nil {
			return err
		}
		token, err := b.Registry.RotateToken(ctx, bot.Number)
		if err != nil {
			return err
		}
		sh.disconnect(ctx, b.Config, bot)
		return sh.result(struct {
			ID       int64  `json:"id"`
			SDKToken string `json:"sdk_token"`
		}{bot.Number, token}, func() {
			sh.say(msgRotated, bot.Number, bot.Name)
			sh.showToken(b.Config, bot, token)
		})
	})
}
