package main

import (
	"context"
	"slices"

	"patchbay/internal/control"
	"patchbay/internal/store"
)

type shimStatusCmd struct {
	Name        string `arg:"" help:"Name of the gateway, as shim add was told it."`
	User        string `help:"Whose, if several people have one of that name." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (shimStatusCmd) Help() string {
	return `TOOLS counts what a node publishes, and TAKEN what the gateway has taken of that. Commands that the gateway's owner has to run are printed as they have to be typed.

Examples:

    patchbay shim status home
    patchbay shim status home --json`
}

// Run prints the state of the nodes at the gateway.
func (c *shimStatusCmd) Run(ctx context.Context, sh *shell) error {
	rows, err := c.shims(ctx, sh)
	if err != nil {
		return err
	}
	if c.User != "" {
		rows = slices.DeleteFunc(rows, func(u control.Upstream) bool { return u.OwnerName != c.User })
	}
	u, err := onlyShim(rows, c.Name, func(u control.Upstream) store.Upstream { return u.Upstream })
	if err != nil {
		return err
	}
	return sh.result(u, func() {
		sh.shimTitle(u)
		sh.showShimNodes(u, c.dataFlags.retryFlags())
	})
}
