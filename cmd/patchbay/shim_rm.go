package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type shimRmCmd struct {
	Yes       bool `short:"y" help:"Do not ask."`
	shimFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (shimRmCmd) Help() string {
	return `A running server disconnects its nodes within seconds. The keys by which the gateway knows them are forgotten: if you join it again, its owner has to approve them again.

Examples:

    patchbay shim rm home
    patchbay shim rm home --yes`
}

const (
	msgLeaveShim   = i18n.Message("Leave the gateway %s?")
	msgShimRemoved = i18n.Message("The gateway %s is left.")
)

// Run leaves the gateway.
func (c *shimRmCmd) Run(ctx context.Context, sh *shell) error {
	return c.resolve(ctx, sh, func(b *app.Base, u store.Upstream) error {
		if !c.Yes && !sh.confirm(ctx, msgLeaveShim, u.Slug) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return i18n.Message("nothing was removed; answer y, or give --yes").Errorf()
		}
		if err := b.Store.Upstreams.Remove(ctx, u.Number); err != nil {
			return err
		}
		return sh.result(map[string]any{"id": u.Number, "name": u.Slug, "removed": true},
			func() { sh.say(msgShimRemoved, u.Slug) })
	})
}
