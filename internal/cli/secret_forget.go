package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type secretForgetCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (secretForgetCmd) Help() string {
	return `After "patchbay secret rotate" the old secret stays valid for 30 days and is then dropped automatically. This command drops it now. Credentials that boards and nodes got under it become invalid: boards get new ones when they restart; nodes that have not connected since the rotation must be paired again.

Example:

    patchbay secret forget`
}

const (
	msgSecretForgotten = i18n.Message("Old secrets removed: %d.")
	msgSecretNoneOld   = i18n.Message("There is no old secret.")
)

// Run deletes the old secrets.
func (c *secretForgetCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		out, err := api.ForgetSecrets.Call(ctx, at.Client, control.Empty{})
		if err != nil {
			return err
		}
		return sh.result(out, func() {
			if out.Dropped == 0 {
				sh.say(msgSecretNoneOld)
				return
			}
			sh.say(msgSecretForgotten, out.Dropped)
		})
	})
}
