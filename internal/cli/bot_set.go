package cli

import (
	"context"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type botSetCmd struct {
	Bot         string   `arg:"" help:"Number or name of the bot."`
	Set         []string `arg:"" optional:"" name:"k=v" help:"Settings as name=value; name= removes a setting, name=@FILE reads the value from a file."`
	Name        *string  `help:"A new name." placeholder:"NAME"`
	Description *string  `help:"A new description." placeholder:"TEXT"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (botSetCmd) Help() string {
	return `A running server applies the change to the next question; active answers are not affected.

Examples:

    patchbay bot set qwen model=qwen3:14b temperature=0.3
    patchbay bot set 1 shared=true max_chars=120
    patchbay bot set gpt api_key=@new-key.txt
    patchbay bot set gpt system= --name "GPT at home"`
}

const (
	msgBotChanged = i18n.Message("Bot %d (%s) is changed.")
)

// showDropped prints which settings were removed with an address, if any.
func (sh *shell) showDropped(dropped []string) {
	if len(dropped) > 0 {
		sh.say(control.MsgDropped, strings.Join(dropped, ", "))
	}
}

// Run changes the bot.
func (c *botSetCmd) Run(ctx context.Context, sh *shell) error {
	if len(c.Set) == 0 && c.Name == nil && c.Description == nil {
		return usage(i18n.Message("no changes are given; write name=value, --name or --description"))
	}
	set, err := sh.pairs(c.Set)
	if err != nil {
		return err
	}
	return c.connect(ctx, sh, func(at *conn) error {
		changed, err := api.ChangeBot.Call(ctx, at.Client, control.BotChange{Bot: c.Bot, Name: c.Name,
			Description: c.Description, Settings: set})
		if err != nil {
			return explainNoBot(err, c.Bot)
		}
		return sh.result(struct {
			botRow
			Dropped []string `json:"dropped,omitempty"`
		}{newBotRow(changed.BotStatus, at.local), changed.Dropped}, func() {
			sh.say(msgBotChanged, changed.Number, changed.Name)
			sh.showDropped(changed.Dropped)
		})
	})
}
