package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/store"
)

type upstreamCheckCmd struct {
	upstreamFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamCheckCmd) Help() string {
	return `It connects to the server once, from here, and reads its list of tools. The exit code is 1 if that fails.

Examples:

    patchbay upstream check weather
    patchbay upstream check weather --json`
}

// Run checks the server.
func (c *upstreamCheckCmd) Run(ctx context.Context, sh *shell) error {
	return c.resolve(ctx, sh, func(b *app.Base, u store.Upstream) error {
		s, err := b.ReadUpstream(u)
		if err != nil {
			return err
		}
		m, ok := s.(*upstream.Settings)
		if !ok {
			return i18n.Message("only a running server knows how %s is connected; see: patchbay upstream list%s").
				Errorf(u.Slug,
					c.retryFlags())
		}
		owner, err := b.Store.People.ByID(ctx, u.Owner)
		if err != nil {
			return err
		}
		found, err := checkUpstream(ctx, sh, b, owner, u.Slug, m)
		if err != nil {
			return err
		}
		return sh.result(found, func() { sh.showFound(found) })
	})
}
