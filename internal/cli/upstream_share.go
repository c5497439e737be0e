package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type upstreamShareCmd struct {
	upstreamFlags `embed:""`
	With          []string `help:"Account to share it with, or everybody. Repeatable; replaces whom it was shared with." placeholder:"NAME"`
	Nobody        bool     `help:"End the sharing: the connections and sign-ins of others end."`
}

// Help returns the command's detailed help with examples.
func (upstreamShareCmd) Help() string {
	return `Only an administrator shares tool servers, and only those that people sign in to (OAuth): each person signs in alone, has the tools under the same names, and calls them with their own sign-in. Nobody sees the settings, and nobody uses the sign-in of another. Servers with a token, commands and oauth_grant=client_credentials cannot be shared, since all would act as the owner.

Whoever has a tool server of that name keeps it, and does not get the shared one. Changes of tools wait for the approval of the owner, for all.

Examples:

    patchbay upstream share notion --with everybody
    patchbay upstream share notion --with bob --with eve
    patchbay upstream share notion --nobody`
}

const (
	msgNotShared = i18n.Message("The upstream %s is not shared any more; the sign-ins of others are forgotten.")
	msgShareHow  = i18n.Message("Each of them signs in on the page Tools, or with: patchbay upstream signin %s")
	// everybody is the value of --with for all accounts.
	everybody = "everybody"
)

// Run shares the upstream.
func (c *upstreamShareCmd) Run(ctx context.Context, sh *shell) error {
	if c.Nobody == (len(c.With) > 0) {
		return usage(i18n.Message("give --with NAME, --with everybody or --nobody"))
	}
	return c.find(ctx, sh, func(at *conn, u control.Upstream) error {
		d, err := shareUpstream(ctx, at, u.Number, c.With)
		if err != nil {
			return err
		}
		return sh.result(d, func() {
			if d.Shared == nil {
				sh.say(msgNotShared, d.Slug)
				return
			}
			sh.showSharing(d.Shared)
			sh.say(msgShareHow, d.Slug)
		})
	})
}

// shareUpstream shares an upstream with accounts, or with everybody.
func shareUpstream(ctx context.Context, at *conn, number int64, with []string) (control.UpstreamDetail, error) {
	return api.ShareUpstream.Call(ctx, at.Client,
		control.UpstreamSharing{Upstream: number, Sharing: sharingWith(with)})
}
