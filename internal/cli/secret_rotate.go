package cli

import (
	"context"
	"os"
	"strings"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type secretRotateCmd struct {
	From        string `help:"File that contains the new secret; default: a generated secret." placeholder:"FILE"`
	Now         bool   `help:"Drop the old secret immediately: boards must be restarted, and nodes paired again."`
	Lost        bool   `help:"Start with a new secret because the old one is lost. Credentials encrypted with the old one must be entered again."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (secretRotateCmd) Help() string {
	return `All stored credentials are re-encrypted while the servers run. Credentials that boards, nodes and programs got under the old secret stay valid for 30 days, in which they are renewed automatically. If the secret may have been stolen, use --now.

A secret.key in the data folder is replaced. A configured secret has to be replaced manually: the command prints the new one, and both are valid until then. If the command is interrupted, run it again.

Examples:

    patchbay secret rotate
    patchbay secret rotate --now
    patchbay secret rotate --from /run/secrets/new --config /etc/patchbay.yaml`
}

const (
	msgSecretRotated  = i18n.Message("The installation has a new secret, and %d values were re-encrypted here. The old one is valid until %s; to remove it at once: patchbay secret forget%s")
	msgSecretOnlyOne  = i18n.Message("The installation has a new secret, and %d values were re-encrypted here. The old one is no longer valid: restart the boards, and pair the nodes again.")
	msgSecretConfig   = i18n.Message("Set secret to this value in the settings of every instance and restart the instances; until then, the old one is valid.")
	msgSecretReplaced = i18n.Message("There is a new secret. Values encrypted with the old one can no longer be read: enter the keys of bots, tool servers and gateways again, and restart all instances.")
	msgSecretLostAt   = i18n.Message("--lost works on the data folder of this machine and cannot be used with --server")
)

// Run replaces the secret of the installation.
func (c *secretRotateCmd) Run(ctx context.Context, sh *shell) error {
	if c.Lost {
		return c.replaceLost(ctx, sh)
	}
	in := control.SecretRotation{Now: c.Now}
	if c.From != "" {
		text, err := os.ReadFile(c.From)
		if err != nil {
			return err
		}
		if in.Secret = strings.TrimSpace(string(text)); in.Secret == "" {
			return i18n.Message("%s is empty").Errorf(c.From)
		}
	}
	return c.connect(ctx, sh, func(at *conn) error {
		out, err := api.RotateSecret.Call(ctx, at.Client, in)
		if err != nil {
			return err
		}
		return sh.result(out, func() {
			if c.Now {
				sh.say(msgSecretOnlyOne, out.Sealed)
				return
			}
			sh.say(msgSecretRotated, out.Sealed, sh.when(time.Now().Add(app.SecretLife)), c.retryFlags())
			if out.Configured {
				sh.say(msgSecretConfig)
			}
			if out.Secret != "" {
				sh.printf("%s\n", out.Secret)
			}
		})
	})
}

// replaceLost replaces a lost secret with a new one. No server can run without the secret, and
// nothing can open the data.
func (c *secretRotateCmd) replaceLost(ctx context.Context, sh *shell) error {
	named, err := c.named(sh)
	if err != nil {
		return err
	}
	if named != nil {
		return usage(msgSecretLostAt)
	}
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
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.Secrets.Call(ctx, at.Client, control.SecretQuery{})
		if err != nil {
			return err
		}
		return sh.result(control.RotatedSecret{Secrets: list.Secrets}, func() { sh.say(msgSecretReplaced) })
	})
}
