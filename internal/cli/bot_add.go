package cli

import (
	"cmp"
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/eyeclaw"
	"patchbay/internal/plug/eyeclaw/connector"
)

type botAddCmd struct {
	Name        string   `help:"Name of the bot; optional with --role." placeholder:"NAME"`
	Kind        string   `help:"Kind of the bot: echo (repeats the question), openai (any OpenAI-compatible model), connector (an OpenClaw agent connects to here), openclaw (an OpenClaw gateway is connected to), eyeclaw (an EyeClaw plugin connects)." placeholder:"KIND" required:""`
	Set         []string `help:"A setting as name=value, or name=@FILE to read the value from a file (@- from standard input). Repeatable." sep:"none" placeholder:"K=V"`
	Role        string   `help:"Role to start from: companion, teacher, storyteller, kitchen, tutor or expert. It sets name, description, prompt, greeting and manner where nothing else is given." placeholder:"ROLE"`
	RoleLang    string   `help:"Language of the role; optional: that of this command." placeholder:"LANG"`
	Description string   `help:"Description of the bot." placeholder:"TEXT"`
	User        string   `help:"Owner of the bot; optional if there is only one account." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (botAddCmd) Help() string {
	return `Examples:

    patchbay bot add --name parrot --kind echo
    patchbay bot add --name qwen --kind openai --set base_url=http://localhost:11434/v1 --set model=qwen3:8b
    patchbay bot add --role storyteller --role-lang ja --kind openai --set base_url=http://localhost:11434/v1 --set model=qwen3:8b
    patchbay bot add --name gpt --kind openai --set base_url=https://api.openai.com/v1 --set model=gpt-4o-mini --set api_key=@key.txt
    patchbay bot add --name lobster --kind connector
    patchbay bot add --name claw --kind openclaw --set url=ws://127.0.0.1:18789 --set token=@token.txt`
}

// Run adds the bot.
func (c *botAddCmd) Run(ctx context.Context, sh *shell) error {
	set, err := sh.pairs(c.Set)
	if err != nil {
		return err
	}
	return c.connect(ctx, sh, func(at *conn) error {
		bot, err := api.AddBot.Call(ctx, at.Client, control.NewBot{User: c.User, Name: c.Name, Kind: c.Kind,
			Description: c.Description, Settings: set, Role: c.Role, RoleLang: cmp.Or(c.RoleLang, string(sh.lang))})
		if err != nil {
			return err
		}
		return sh.result(struct {
			ID         int64  `json:"id"`
			SDKToken   string `json:"sdk_token,omitempty"`
			Connection string `json:"connection,omitempty"`
		}{bot.Number, bot.SDKToken, at.connection(ctx, bot.Kind, bot.SDKToken)}, func() {
			sh.say(msgBotAdded, bot.Number, bot.Name)
			if bot.SDKToken == "" {
				sh.say(msgTryBot, bot.Number, c.retryFlags())
				return
			}
			sh.showToken(at.publicURL(ctx), bot.Kind, bot.Number, bot.SDKToken)
		})
	})
}

const (
	msgBotAdded  = i18n.Message("Bot %d (%s) is added.")
	msgTryBot    = i18n.Message("Try it:\n  patchbay ask %d \"hello\"%s")
	msgToken     = i18n.Message("Its token (save it now; it is shown only once):")
	msgConnector = i18n.Message("On the computer where OpenClaw runs (save these now: the key in them is shown only once):")
	msgPlugin    = i18n.Message("On the computer where OpenClaw runs:")
)

// connection returns the setting of the connector for OpenClaw for a bot, if that answers it.
func (c *conn) connection(ctx context.Context, kind, token string) string {
	if kind != eyeclaw.ConnectorKind {
		return ""
	}
	return connector.Connection(c.publicURL(ctx), token)
}

// showToken prints the token of an inbound bot, and how to configure its peer.
func (sh *shell) showToken(url, kind string, bot int64, token string) {
	if kind == eyeclaw.ConnectorKind {
		sh.say(msgConnector)
		for _, command := range connector.Commands(url, token) {
			sh.printf("  %s\n", command)
		}
		return
	}
	sh.say(msgToken)
	sh.printf("  %s\n", token)
	sh.say(msgPlugin)
	sh.printf(`  openclaw plugins install @eyeclaw/eyeclaw
  openclaw config set plugins.entries.eyeclaw.config.sdkToken %s
  openclaw config set plugins.entries.eyeclaw.config.botId %d
  openclaw config set plugins.entries.eyeclaw.config.serverUrl %s
  openclaw config set gateway.http.endpoints.chatCompletions.enabled true
  openclaw gateway restart
`, token, bot, url)
}
