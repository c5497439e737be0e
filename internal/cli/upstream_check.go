package cli

import (
	"context"
	"errors"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type upstreamCheckCmd struct {
	upstreamFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamCheckCmd) Help() string {
	return `Connects once to the server from the machine of Patchbay and lists its tools. The exit code is 1 if that fails.

Examples:

    patchbay upstream check weather
    patchbay upstream check weather --json`
}

// Run checks the server.
func (c *upstreamCheckCmd) Run(ctx context.Context, sh *shell) error {
	return c.find(ctx, sh, func(at *conn, u control.Upstream) error {
		if u.Kind != control.KindServer {
			return i18n.Message("only a running server knows the connection status of %s; see: patchbay upstream list%s").
				Errorf(u.Slug, c.retryFlags())
		}
		found, err := api.CheckUpstream.Call(ctx, at.Client, control.UpstreamChange{Upstream: u.Number})
		if err != nil {
			return err
		}
		if found.NeedsSignIn {
			return msgSignInFirst.Errorf(found.Problem, u.Slug, c.retryFlags())
		}
		if found.Problem != "" {
			return errors.New(problemText(found.Problem, found.Cause))
		}
		return sh.result(found, func() { sh.showFound(&found) })
	})
}
