package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type keyRevokeCmd struct {
	ID          string `arg:"" name:"id" help:"Id of the key, as listed by key list."`
	Devices     bool   `help:"Revoke also the tokens that OpenClaw's programs have got with the key."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (keyRevokeCmd) Help() string {
	return `A running server rejects the key from its next use on. Nodes and operators of OpenClaw's that were paired with the key have tokens of their own and go on; the command names them. With --devices their tokens are revoked too.

Examples:

    patchbay key revoke 0198c4d2-7a51-7c3e-9d2f-0d6a3b1f5e77
    patchbay key revoke 0198c4d2-7a51-7c3e-9d2f-0d6a3b1f5e77 --devices`
}

const (
	msgKeyRevoked      = i18n.Message("The key %s is revoked.")
	msgKeyDevices      = i18n.Message("These paired devices go on with tokens of their own: %s")
	msgKeyDevicesHow   = i18n.Message("To end them too: patchbay key revoke %s --devices%s")
	msgKeyDevicesEnded = i18n.Message("The tokens of these devices are revoked, too: %s")
)

// keyRevoked is the result of a revocation.
type keyRevoked struct {
	ID      string              `json:"id"`
	Revoked bool                `json:"revoked"`
	Devices []control.KeyDevice `json:"devices"`
	Ended   bool                `json:"devices_ended"`
}

// Run revokes the key.
func (c *keyRevokeCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		r, err := api.RevokeKey.Call(ctx, at.Client, control.KeyRevocation{Key: c.ID, Devices: c.Devices})
		if isMissing(err) {
			return i18n.Message("there is no key with the id %q; patchbay key list lists the keys").Errorf(c.ID)
		}
		if err != nil {
			return err
		}
		return sh.result(keyRevoked{c.ID, true, r.Devices, r.Ended}, func() {
			sh.say(msgKeyRevoked, c.ID)
			names := make([]string, len(r.Devices))
			for i, d := range r.Devices {
				names[i] = called(d.Name, d.ID) + " (" + plain(d.Role) + ")"
			}
			switch {
			case r.Ended && len(names) > 0:
				sh.say(msgKeyDevicesEnded, join(names))
			case len(names) > 0:
				sh.say(msgKeyDevices, join(names))
				sh.say(msgKeyDevicesHow, c.ID, c.retryFlags())
			}
		})
	})
}
