package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type upstreamRotateCmd struct {
	upstreamFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamRotateCmd) Help() string {
	return `Applies to upstreams that connect to this server (--endpoint). The old token is invalid from now on.

Example:

    patchbay upstream rotate robot`
}

const msgUpstreamRotated = i18n.Message("The upstream %s has a new token; the old one is refused.")

// Run replaces the token of the upstream.
func (c *upstreamRotateCmd) Run(ctx context.Context, sh *shell) error {
	return c.find(ctx, sh, func(at *conn, u control.Upstream) error {
		rotated, err := api.RotateUpstream.Call(ctx, at.Client, control.UpstreamRef{Upstream: u.Number})
		if err != nil {
			return err
		}
		out := upstreamAdded{ID: u.Number, Name: u.Slug, Kind: u.Kind, Token: rotated.Token,
			URL: at.endpointURL(ctx, rotated.Token)}
		return sh.result(out, func() {
			sh.say(msgUpstreamRotated, u.Slug)
			sh.say(msgEndpointURL)
			sh.printf("  %s\n", out.URL)
		})
	})
}
