package cli

import (
	"context"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type shimRmCmd struct {
	Yes       bool `short:"y" help:"Do not ask for confirmation."`
	shimFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (shimRmCmd) Help() string {
	return `A running server disconnects its nodes within seconds. The keys that identify them to the gateway are deleted: if you add the gateway again, its owner has to approve them again.

Examples:

    patchbay shim rm home
    patchbay shim rm home --yes`
}

const (
	msgLeaveShim   = i18n.Message("Remove the gateway %s?")
	msgShimRemoved = i18n.Message("The gateway %s is removed.")
)

// Run leaves the gateway.
func (c *shimRmCmd) Run(ctx context.Context, sh *shell) error {
	return c.find(ctx, sh, func(at *conn, u control.Upstream) error {
		return sh.removeUpstream(ctx, at, u, c.Yes, msgLeaveShim, msgShimRemoved)
	})
}
