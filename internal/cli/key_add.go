package cli

import (
	"context"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

type keyAddCmd struct {
	User         string   `help:"Account that the key acts for; optional if there is only one account." placeholder:"NAME"`
	Name         string   `help:"Name of the key." placeholder:"NAME" required:""`
	Scope        []string `help:"Scope of the key: lingzhu (glasses platform), learn (the account's knowledge points only), mcp (call tools over MCP), node (connect as a node and request pairing), operator (manage the account's data over the API), admin (manage all accounts). Repeatable." placeholder:"SCOPE" required:""`
	Bot          string   `help:"Restrict the key to one bot, by number or name." placeholder:"BOT"`
	Expires      string   `help:"Validity of the key, such as 12h or 90d; default: unlimited." placeholder:"TIME"`
	keyRuleFlags `embed:""`
	targetFlags  `embed:""`
}

// Help returns the command's detailed help with examples.
func (keyAddCmd) Help() string {
	return `The key is shown only once. Only its hash is stored.

Examples:

    patchbay key add --name lingzhu --scope lingzhu --bot 1
    patchbay key add --name editor --scope mcp --allow-tool 'files_*' --rate 60
    patchbay key add --name study --scope learn
    patchbay key add --name desktop --scope node
    patchbay key add --user ada --name laptop --scope operator --expires 90d --json`
}

const (
	msgKeyAdded   = i18n.Message("The key “%[2]s” of %[1]s (%[3]s):")
	msgKeyOnce    = i18n.Message("Save it now; it is shown only once.")
	msgItsRules   = i18n.Message("Its rules: %s.")
	msgKeyExpires = i18n.Message("It is valid until %s.")
)

// Run creates the key.
func (c *keyAddCmd) Run(ctx context.Context, sh *shell) error {
	in := control.NewKey{User: c.User, Name: c.Name, Scopes: c.Scope}
	lifetime, err := c.expires()
	if err != nil {
		return err
	}
	if lifetime > 0 {
		in.Expire = time.Now().Add(lifetime)
	}
	c.change(&in.Rules)
	return c.connect(ctx, sh, func(at *conn) error {
		if c.Bot != "" {
			bot, err := at.findBot(ctx, c.Bot)
			if err != nil {
				return err
			}
			in.Bot = bot.Number
		}
		k, err := api.AddKey.Call(ctx, at.Client, in)
		if err != nil {
			return err
		}
		return sh.result(struct {
			ID  string `json:"id"`
			Key string `json:"key"`
		}{k.ID, k.Secret}, func() {
			sh.say(msgKeyAdded, k.PersonName, k.Name, join(k.Scopes))
			sh.printf("  %s\n", k.Secret)
			if text := sh.rules(k.Rules); text != "" {
				sh.say(msgItsRules, text)
			}
			if !k.Expires.IsZero() {
				sh.say(msgKeyExpires, sh.when(k.Expires))
			}
			sh.say(msgKeyOnce)
		})
	})
}

func (c *keyAddCmd) expires() (time.Duration, error) {
	if c.Expires == "" {
		return 0, nil
	}
	d, err := settings.ParseDuration(c.Expires)
	if err != nil || d <= 0 {
		return 0, usage(i18n.Message("--expires is %q; give a time such as 12h or 90d"), c.Expires)
	}
	return d, nil
}
