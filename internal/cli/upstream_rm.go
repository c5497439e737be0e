package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type upstreamRmCmd struct {
	Yes           bool `short:"y" help:"Do not ask for confirmation."`
	upstreamFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamRmCmd) Help() string {
	return `Its tools are removed within seconds, and its token is invalid. The rules of its tools are kept, and apply again to an upstream with the same name.

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
	return c.find(ctx, sh, func(at *conn, u control.Upstream) error {
		return sh.removeUpstream(ctx, at, u, c.Yes, msgRemoveUpstream, msgUpstreamRemoved)
	})
}

// removeUpstream removes an upstream after a question.
func (sh *shell) removeUpstream(ctx context.Context, at *conn, u control.Upstream, yes bool,
	ask, done i18n.Message) error {
	if !yes && !sh.confirm(ctx, ask, u.Slug) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return i18n.Message("nothing was removed; answer y, or give --yes").Errorf()
	}
	removed, err := api.RemoveUpstream.Call(ctx, at.Client, control.UpstreamRef{Upstream: u.Number})
	if err != nil {
		return err
	}
	return sh.result(removed, func() { sh.say(done, u.Slug) })
}
