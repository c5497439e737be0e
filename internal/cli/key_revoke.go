package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type keyRevokeCmd struct {
	ID          string `arg:"" name:"id" help:"Id of the key, as listed by key list."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (keyRevokeCmd) Help() string {
	return `A running server rejects the key from its next use on.

Example:

    patchbay key revoke 0198c4d2-7a51-7c3e-9d2f-0d6a3b1f5e77`
}

const msgKeyRevoked = i18n.Message("The key %s is revoked.")

// Run revokes the key.
func (c *keyRevokeCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		_, err := api.RevokeKey.Call(ctx, at.Client, control.KeyRef{Key: c.ID})
		if isMissing(err) {
			return i18n.Message("there is no key with the id %q; patchbay key list lists the keys").Errorf(c.ID)
		}
		if err != nil {
			return err
		}
		return sh.result(map[string]any{"id": c.ID, "revoked": true}, func() { sh.say(msgKeyRevoked, c.ID) })
	})
}
