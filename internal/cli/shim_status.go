package cli

import (
	"context"

	"patchbay/internal/control"
)

type shimStatusCmd struct {
	shimFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (shimStatusCmd) Help() string {
	return `TOOLS is the number of tools that a node publishes, and ACCEPTED the number that the gateway has accepted. The commands that the gateway's owner has to run are printed.

Examples:

    patchbay shim status home
    patchbay shim status home --json`
}

// Run prints the state of the nodes at the gateway.
func (c *shimStatusCmd) Run(ctx context.Context, sh *shell) error {
	return c.find(ctx, sh, func(_ *conn, u control.Upstream) error {
		return sh.result(u, func() {
			sh.shimTitle(u)
			sh.showShimNodes(u, c.dataFlags.retryFlags(), c.retryFlags())
		})
	})
}
