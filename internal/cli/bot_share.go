package cli

import (
	"context"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type botShareCmd struct {
	Bot         string   `arg:"" help:"Number or name of the bot."`
	With        []string `help:"Account to share it with, or everybody. Repeatable; replaces whom it was shared with." placeholder:"NAME"`
	Nobody      bool     `help:"End the sharing."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (botShareCmd) Help() string {
	return `Others then ask the bot in their console, by their devices and programs, each in conversations of their own. Within its own rules, the bot calls the tools of the person who asks. Of your tools, it calls only those in the setting lend_tools. An OpenClaw agent also uses tools of its own for them, so share it only with people who may use the agent. Only an administrator shares bots.

Examples:

    patchbay bot share Home --with everybody
    patchbay bot share Home --with bob --with eve
    patchbay bot set Home lend_tools="lamp_*"
    patchbay bot share Home --nobody`
}

const (
	msgBotNotShared  = i18n.Message("Bot %d (%s) is not shared.")
	msgBotSharedAll  = i18n.Message("Bot %d (%s) is shared with everybody.")
	msgBotSharedSome = i18n.Message("Bot %d (%s) is shared with %s.")
)

// Run shares the bot.
func (c *botShareCmd) Run(ctx context.Context, sh *shell) error {
	if c.Nobody == (len(c.With) > 0) {
		return usage(i18n.Message("give --with NAME, --with everybody or --nobody"))
	}
	return c.connect(ctx, sh, func(at *conn) error {
		b, err := api.ShareBot.Call(ctx, at.Client, control.BotSharing{Bot: c.Bot, Sharing: sharingWith(c.With)})
		if err != nil {
			return explainNoBot(err, c.Bot)
		}
		return sh.result(b, func() {
			switch {
			case b.SharedWith == nil:
				sh.say(msgBotNotShared, b.Number, b.Name)
			case b.SharedWith.Everybody:
				sh.say(msgBotSharedAll, b.Number, b.Name)
			default:
				sh.say(msgBotSharedSome, b.Number, b.Name, strings.Join(b.SharedWith.Users, ", "))
			}
		})
	})
}

// sharingWith reads the values of --with.
func sharingWith(with []string) control.Sharing {
	if len(with) == 1 && with[0] == everybody {
		return control.Sharing{Everybody: true}
	}
	return control.Sharing{Users: with}
}
