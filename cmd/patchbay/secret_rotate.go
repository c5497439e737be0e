package main

import (
	"context"
	"os"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/seal"
)

type secretRotateCmd struct {
	From      string `help:"File that has the new secret; without it, one is made." placeholder:"FILE"`
	Now       bool   `help:"Drop the old secret at once: boards have to be switched off and on, nodes to be paired anew."`
	Lost      bool   `help:"Begin with a new secret because the old one is lost. What it sealed has to be given once more."`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (secretRotateCmd) Help() string {
	return `Everything that is sealed is sealed anew, while the servers run. What boards, nodes and programs were given with the old secret holds for 30 days more, in which they get something new by themselves. If the secret may have been stolen, use --now.

A secret.key in the data folder is replaced. A configured secret has to be replaced by hand: the command prints the new one, and both hold until that is done. If the command is broken off, run it again.

Examples:

    patchbay secret rotate
    patchbay secret rotate --now
    patchbay secret rotate --from /run/secrets/new --config /etc/patchbay.yaml`
}

const (
	msgSecretRotated  = i18n.Message("The installation has a new secret, and %d values were sealed anew here. The old one holds until %s; to drop it at once: patchbay secret forget%s")
	msgSecretOnlyOne  = i18n.Message("The installation has a new secret, and %d values were sealed anew here. The old one is worth nothing any more: switch boards off and on, and pair nodes anew.")
	msgSecretConfig   = i18n.Message("Put this line as secret into the settings of every instance and restart them; until then the old one holds.")
	msgSecretNowHand  = i18n.Message("secret is in the settings, where the new one has to be before the old one can go: run this without --now, change the settings, restart, and run patchbay secret forget")
	msgSecretReplaced = i18n.Message("There is a new secret. What was sealed before cannot be read any more: give the keys of bots, tool servers and gateways once more, and restart all instances.")
)

// Run replaces the secret of the installation.
func (c *secretRotateCmd) Run(ctx context.Context, sh *shell) error {
	if c.Lost {
		return c.replaceLost(ctx, sh)
	}
	return c.withData(ctx, sh, func(b *app.Base) error {
		configured := b.Config.Secret != ""
		if configured && c.Now {
			return msgSecretNowHand.Errorf()
		}
		var next *seal.Key
		if c.From != "" {
			text, err := os.ReadFile(c.From)
			if err != nil {
				return err
			}
			if next, err = seal.NewKey(string(text)); err != nil {
				return err
			}
		}
		n, err := b.Secrets.Rotate(ctx, next)
		if err != nil {
			return err
		}
		if err := recordAdminEvent(ctx, b, control.EventSecretRotated, b.Box.Key().ID); err != nil {
			return err
		}
		if c.Now {
			if err := forgetSecrets(ctx, b); err != nil {
				return err
			}
		}
		out := rotatedSecret{Secrets: b.Secrets.State(), Sealed: n}
		if configured && next == nil {
			out.Secret = b.Box.Key().Secret()
		}
		return sh.result(out, func() {
			if c.Now {
				sh.say(msgSecretOnlyOne, n)
				return
			}
			sh.say(msgSecretRotated, n, sh.when(time.Now().Add(app.SecretLife)), c.retryFlags())
			if configured {
				sh.say(msgSecretConfig)
			}
			if out.Secret != "" {
				sh.printf("%s\n", out.Secret)
			}
		})
	})
}

// rotatedSecret is the result of secret rotate.
type rotatedSecret struct {
	Secrets []app.SecretState `json:"secrets"`
	Sealed  int               `json:"sealed_anew"`      // number of values that this command encrypted again
	Secret  string            `json:"secret,omitempty"` // to be configured
}

// replaceLost replaces a lost secret with a new one.
func (c *secretRotateCmd) replaceLost(ctx context.Context, sh *shell) error {
	settings, err := c.load(sh)
	if err != nil {
		return err
	}
	if !hasData(settings) {
		return c.noData(settings)
	}
	if err := app.DiscardSecret(ctx, settings, sh.logger()); err != nil {
		return err
	}
	return c.withData(ctx, sh, func(b *app.Base) error {
		if err := recordAdminEvent(ctx, b, control.EventSecretLost, b.Box.Key().ID); err != nil {
			return err
		}
		return sh.result(rotatedSecret{Secrets: b.Secrets.State()}, func() { sh.say(msgSecretReplaced) })
	})
}
