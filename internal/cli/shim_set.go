package cli

import (
	"context"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type shimSetCmd struct {
	shimFlags `embed:""`
	Set       []string `arg:"" name:"k=v" help:"Settings as name=value: url, token, tls_fingerprint, mode, title, devices, notices; name= removes a setting, name=@FILE reads the value from a file."`
}

// Help returns the command's detailed help with examples.
func (shimSetCmd) Help() string {
	return `A running server applies the change within seconds and reconnects. Lists are comma-separated.

Examples:

    patchbay shim set home token=@token.txt
    patchbay shim set home 'devices=kitchen,bed*' notices=true
    patchbay shim set home tls_fingerprint=3f8a…
    patchbay shim set home mode=one title=Boards devices=`
}

const msgShimChanged = i18n.Message("The gateway %s is changed.")

// Run changes the settings of the gateway.
func (c *shimSetCmd) Run(ctx context.Context, sh *shell) error {
	set, err := sh.pairs(c.Set)
	if err != nil {
		return err
	}
	return c.find(ctx, sh, func(at *conn, u control.Upstream) error {
		return sh.changeUpstream(ctx, at, u, set, msgShimChanged)
	})
}
