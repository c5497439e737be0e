package cli

import (
	"context"
	"strconv"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type unbindCmd struct {
	Bot         string `arg:"" help:"Number or name of the bot."`
	UserID      string `name:"user-id" help:"Id of the wearer, as listed by bind --list; optional if there is only one wearer." placeholder:"ID" xor:"who"`
	All         bool   `help:"Unbind all wearers." xor:"who"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (unbindCmd) Help() string {
	return `Examples:

    patchbay unbind lobster
    patchbay unbind 1 --user-id 0123456789ABCDEF0123456789ABCDEF
    patchbay unbind 1 --all`
}

const msgUnbound = i18n.Message("%d unbound from %s.")

// Run unbinds one wearer or all.
func (c *unbindCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		bot, err := at.findBot(ctx, c.Bot)
		if err != nil {
			return err
		}
		ref := strconv.FormatInt(bot.Number, 10)
		wearers, err := api.Wearers.Call(ctx, at.Client, control.BotRef{Bot: ref})
		if err != nil {
			return err
		}
		chosen, err := c.choose(bot, wearers.Wearers)
		if err != nil {
			return err
		}
		for _, w := range chosen {
			_, err := api.Unbind.Call(ctx, at.Client, control.WearerRef{Bot: ref, User: w.UserID,
				Publisher: w.Publisher})
			if err != nil && !isMissing(err) {
				return err
			}
		}
		return sh.result(control.UnboundWearers{Bot: bot.Number, Unbound: len(chosen)},
			func() { sh.say(msgUnbound, len(chosen), bot.Name) })
	})
}

// choose selects the wearers to unbind.
func (c *unbindCmd) choose(bot control.BotView, wearers []control.Wearer) ([]control.Wearer, error) {
	if c.UserID == "" {
		switch {
		case len(wearers) == 0:
			return nil, i18n.Message("no wearer is bound to %s").Errorf(bot.Name)
		case len(wearers) > 1 && !c.All:
			return nil,
				usage(i18n.Message("%d wearers are bound to %s; choose one with --user-id (patchbay bind %d --list lists them), or use --all"), len(wearers), bot.Name, bot.Number)
		}
		return wearers, nil
	}
	var chosen []control.Wearer
	for _, w := range wearers {
		if w.UserID == c.UserID {
			chosen = append(chosen, w) // the same ID under two publishers: both
		}
	}
	if len(chosen) == 0 {
		return nil, i18n.Message("no wearer with the id %q is bound to %s; patchbay bind %d --list lists the wearers").
			Errorf(c.UserID, bot.Name, bot.Number)
	}
	return chosen, nil
}
