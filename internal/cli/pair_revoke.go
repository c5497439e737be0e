package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

type pairRevokeCmd struct {
	Device      string `arg:"" help:"Name or id of the device, or a prefix of its id."`
	Role        string `enum:"node,operator" default:"node" help:"Role whose token is revoked: node or operator."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (pairRevokeCmd) Help() string {
	return `Ends the token with which a paired device connects, and its connections. The device stays paired: with a valid key it gets another token. To remove it: patchbay node rm.

Examples:

    patchbay pair revoke Desktop
    patchbay pair revoke laptop --role operator`
}

const msgTokenRevoked = i18n.Message("The token of %s as %s is revoked.")

// Run revokes the token.
func (c *pairRevokeCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		r, err := callNodes[wire.TokenRevoked](ctx, at, api.RevokeDevice,
			api.DeviceToken{Device: c.Device, Role: c.Role})
		if err != nil {
			return err
		}
		return sh.result(r, func() { sh.say(msgTokenRevoked, shortID(r.DeviceID, shortNode), r.Role) })
	})
}
