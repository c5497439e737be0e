package cli

import (
	"context"
	"strconv"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type botRotateCmd struct {
	Bot         string `arg:"" help:"Number or name of the bot."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (botRotateCmd) Help() string {
	return `The old token is invalid from now on, and connections that use it are closed.

Example:

    patchbay bot rotate lobster`
}

const msgRotated = i18n.Message("Bot %d (%s) has a new token; the old one is refused.")

// Run replaces the token of the bot.
func (c *botRotateCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		bot, err := at.findBot(ctx, c.Bot)
		if err != nil {
			return err
		}
		rotated, err := api.RotateBot.Call(ctx, at.Client, control.BotRef{Bot: strconv.FormatInt(bot.Number, 10)})
		if err != nil {
			return err
		}
		return sh.result(rotated, func() {
			sh.say(msgRotated, bot.Number, bot.Name)
			sh.showToken(at.publicURL(ctx), bot.Kind, bot.Number, rotated.SDKToken)
		})
	})
}
