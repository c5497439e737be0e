package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

type upstreamRotateCmd struct {
	upstreamFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamRotateCmd) Help() string {
	return `It is for upstreams that connect here (--endpoint). The old token is refused from now on.

Example:

    patchbay upstream rotate robot`
}

var sayUpstreamRotated = talk.Say{Zh: "上游 %s 有了新令牌，旧令牌已失效。",
	En: "The upstream %s has a new token; the old one is refused."}

// Run replaces the token of the upstream.
func (c *upstreamRotateCmd) Run(ctx context.Context, sh *shell) error {
	return c.resolve(ctx, sh, func(b *app.Base, u store.Upstream) error {
		token, err := b.RotateUpstream(ctx, u)
		if err != nil {
			return err
		}
		out := upstreamAdded{ID: u.Number, Name: u.Slug, Kind: u.Kind, Token: token, URL: endpointURL(b.Config, token)}
		return sh.result(out, func() {
			sh.say(sayUpstreamRotated, u.Slug)
			sh.say(sayEndpointURL)
			sh.printf("  %s\n", out.URL)
		})
	})
}
