package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type secretShowCmd struct {
	Reveal      bool `help:"Print the secret itself, to configure it. It decrypts all stored credentials."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (secretShowCmd) Help() string {
	return `The secret encrypts the credentials of bots, tool servers and gateways, and generates those of boards and nodes. Each secret has an id, which reveals nothing about it.

Examples:

    patchbay secret show
    patchbay secret show --reveal`
}

const (
	msgHeadSecret  = i18n.Message("SECRET")
	msgHeadMade    = i18n.Message("CREATED")
	msgHeadHow     = i18n.Message("STATE")
	msgSecretUsed  = i18n.Message("in use")
	msgSecretUntil = i18n.Message("holds until %s")
	msgSecretWaits = i18n.Message("pending activation")
	msgSecretOwn   = i18n.Message("%s; this instance starts with it")
)

// Run prints all secrets, or only the current one.
func (c *secretShowCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		out, err := api.Secrets.Call(ctx, at.Client, control.SecretQuery{Reveal: c.Reveal})
		if err != nil {
			return err
		}
		return sh.result(out, func() {
			if c.Reveal {
				sh.printf("%s\n", out.Secret)
				return
			}
			var rows [][]string
			for i, x := range out.Secrets {
				state := msgSecretUsed.In(sh.lang)
				switch {
				case x.Used.IsZero():
					state = msgSecretWaits.In(sh.lang)
				case i > 0:
					state = msgSecretUntil.In(sh.lang, sh.when(x.Until))
				}
				if x.Own {
					state = msgSecretOwn.In(sh.lang, state)
				}
				rows = append(rows, []string{x.ID, sh.when(x.Made), state})
			}
			sh.table([]i18n.Message{msgHeadSecret, msgHeadMade, msgHeadHow}, rows)
		})
	})
}
