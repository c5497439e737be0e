package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type secretForgetCmd struct {
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (secretForgetCmd) Help() string {
	return `After "patchbay secret rotate" the old secret holds for 30 days, then it is dropped without this command. What boards and nodes were given with it is worth nothing afterwards: boards get something new when they are switched on, nodes that have not connected meanwhile have to be paired anew.

Example:

    patchbay secret forget`
}

const (
	msgSecretForgotten = i18n.Message("Old secrets that were dropped: %d.")
	msgSecretNoneOld   = i18n.Message("There is no old secret.")
)

// Run deletes the old secrets.
func (c *secretForgetCmd) Run(ctx context.Context, sh *shell) error {
	return c.withData(ctx, sh, func(b *app.Base) error {
		old := len(b.Secrets.State()) - 1
		if old > 0 {
			if err := forgetSecrets(ctx, b); err != nil {
				return err
			}
		}
		return sh.result(map[string]any{"dropped": old}, func() {
			if old == 0 {
				sh.say(msgSecretNoneOld)
				return
			}
			sh.say(msgSecretForgotten, old)
		})
	})
}

func forgetSecrets(ctx context.Context, b *app.Base) error {
	if err := b.Secrets.Forget(ctx); err != nil {
		return err
	}
	return recordAdminEvent(ctx, b, control.EventSecretForgotten, b.Box.Key().ID)
}
