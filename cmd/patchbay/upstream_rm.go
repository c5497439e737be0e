package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/store"
	"patchbay/internal/talk"
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

var (
	sayRemoveUpstream  = talk.Say{Zh: "移除上游 %s？", En: "Remove the upstream %s?"}
	sayUpstreamRemoved = talk.Say{Zh: "上游 %s 已移除。", En: "The upstream %s is removed."}
)

// Run removes the upstream.
func (c *upstreamRmCmd) Run(ctx context.Context, sh *shell) error {
	return c.resolve(ctx, sh, func(b *app.Base, u store.Upstream) error {
		if !c.Yes && !sh.confirm(ctx, sayRemoveUpstream, u.Slug) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return talk.Say{Zh: "没有移除任何东西；请回答 y，或加上 --yes", En: "nothing was removed; answer y, or give --yes"}.Wrong()
		}
		if err := b.Store.Upstreams.Remove(ctx, u.Number); err != nil {
			return err
		}
		return sh.result(map[string]any{"id": u.Number, "name": u.Slug, "removed": true},
			func() { sh.say(sayUpstreamRemoved, u.Slug) })
	})
}
