package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type upstreamRmCmd struct {
	Yes           bool `short:"y" help:"Do not ask."`
	upstreamFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamRmCmd) Help() string {
	return `Its tools are gone within seconds, and its token is refused. What was decided about its tools stays, and holds again for an upstream of the same name.

Examples:

    patchbay upstream rm files
    patchbay upstream rm files --yes`
}

const (
	msgRemoveUpstream  = i18n.Message("Remove the upstream %s?")
	msgUpstreamRemoved = i18n.Message("The upstream %s is removed.")
)

// Run removes the upstream.
func (c *upstreamRmCmd) Run(ctx context.Context, sh *shell) error {
	return c.resolve(ctx, sh, func(b *app.Base, u store.Upstream) error {
		if !c.Yes && !sh.confirm(ctx, msgRemoveUpstream, u.Slug) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return i18n.Message("nothing was removed; answer y, or give --yes").Errorf()
		}
		if err := b.Store.Upstreams.Remove(ctx, u.Number); err != nil {
			return err
		}
		return sh.result(map[string]any{"id": u.Number, "name": u.Slug, "removed": true},
			func() { sh.say(msgUpstreamRemoved, u.Slug) })
	})
}
