package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
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

const msgUpstreamRotated = i18n.Message("The upstream %s has a new token; the old one is refused.")

// Run replaces the token of the upstream.
func (c *upstreamRotateCmd) Run(ctx context.Context, sh *shell) error {
	return c.resolve(ctx, sh, func(b *app.Base, u store.Upstream) error {
		token, err := b.RotateUpstream(ctx, u)
		if err != nil {
			return err
		}
		out := upstreamAdded{ID: u.Number, Name: u.Slug, Kind: u.Kind, Token: token, URL: endpointURL(b.Config, token)}
		return sh.result(out, func() {
			sh.say(msgUpstreamRotated, u.Slug)
			sh.say(msgEndpointURL)
			sh.printf("  %s\n", out.URL)
		})
	})
}
