package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/talk"
)

type secretShowCmd struct {
	Reveal    bool `help:"Print the secret itself, to configure it. Whoever sees it can read everything that is sealed."`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (secretShowCmd) Help() string {
	return `The secret seals the credentials of bots, tool servers and gateways, and makes those of boards and nodes. Each has an id, which gives nothing away.

Examples:

    patchbay secret show
    patchbay secret show --reveal`
}

var (
	sayHeadSecret  = talk.Say{Zh: "密钥", En: "SECRET"}
	sayHeadMade    = talk.Say{Zh: "生成于", En: "MADE"}
	sayHeadHow     = talk.Say{Zh: "状态", En: "STATE"}
	saySecretUsed  = talk.Say{Zh: "在用", En: "in use"}
	saySecretUntil = talk.Say{Zh: "有效至 %s", En: "holds until %s"}
	saySecretWaits = talk.Say{Zh: "等待启用", En: "waits to be put to use"}
	saySecretOwn   = talk.Say{Zh: "%s，这里启动时使用", En: "%s; this instance starts with it"}
)

// shownSecrets is the output of secret show.
type shownSecrets struct {
	Secrets []app.SecretState `json:"secrets"`
	Secret  string            `json:"secret,omitempty"`
}

// Run prints all secrets, or only the current one.
func (c *secretShowCmd) Run(ctx context.Context, sh *shell) error {
	return c.withData(ctx, sh, func(b *app.Base) error {
		out := shownSecrets{Secrets: b.Secrets.State()}
		if c.Reveal {
			out.Secret = b.Box.Key().Secret()
		}
		return sh.result(out, func() {
			if c.Reveal {
				sh.printf("%s\n", out.Secret)
				return
			}
			var rows [][]string
			for i, x := range out.Secrets {
				state := saySecretUsed.In(sh.lang)
				switch {
				case x.Used.IsZero():
					state = saySecretWaits.In(sh.lang)
				case i > 0:
					state = saySecretUntil.In(sh.lang, sh.when(x.Until))
				}
				if x.Own {
					state = saySecretOwn.In(sh.lang, state)
				}
				rows = append(rows, []string{x.ID, sh.when(x.Made), state})
			}
			sh.table([]talk.Say{sayHeadSecret, sayHeadMade, sayHeadHow}, rows)
		})
	})
}
