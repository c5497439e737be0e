package cli

import (
	"context"
	"strconv"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type botRmCmd struct {
	Bot         string `arg:"" help:"Number or name of the bot."`
	Yes         bool   `short:"y" help:"Do not ask for confirmation."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (botRmCmd) Help() string {
	return `Its bindings, conversations and own keys are deleted; the records of its turns are kept. Its number is not reused.

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
	return c.connect(ctx, sh, func(at *conn) error {
		bot, err := at.findBot(ctx, c.Bot)
		if err != nil {
			return err
		}
		ref := control.BotRef{Bot: strconv.FormatInt(bot.Number, 10)}
		wearers, err := api.Wearers.Call(ctx, at.Client, ref)
		if err != nil {
			return err
		}
		if !c.Yes && !sh.confirm(ctx, msgRemoveBot, bot.Number, bot.Name, len(wearers.Wearers)) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return i18n.Message("nothing was removed; answer y, or give --yes").Errorf()
		}
		removed, err := api.RemoveBot.Call(ctx, at.Client, ref)
		if err != nil {
			return err
		}
		return sh.result(removed, func() { sh.say(msgBotRemoved, bot.Number, bot.Name) })
	})
}
