package cli

import (
	"context"
	"net/netip"
	"net/url"

	"patchbay/internal/api"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

type pairInviteCmd struct {
	URL         string `name:"url" placeholder:"URL" help:"Address by which the node reaches this server; default: public_url, or the address of the server that this command uses."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (pairInviteCmd) Help() string {
	return `Makes a setup code for one node of OpenClaw's. The node that uses it is paired at once, and the commands that it offers first are approved, system.run too if it offers that; what it offers later is asked about as usual. It needs no key. A code is valid for ten minutes. Whoever has it can connect one node, so send it as you would send a password.

Examples:

    patchbay pair invite
    patchbay pair invite --url wss://patchbay.example.org
    patchbay pair invite --server https://patchbay.example.org --key $KEY --json`
}

const (
	msgInvite     = i18n.Message("On the node's computer, before %s:")
	msgInviteMore = i18n.Message("Or, with Node.js and without installing OpenClaw first:")
	msgInviteSee  = i18n.Message("It is in the list then: patchbay node list%s")
	msgInviteStop = i18n.Message("To cancel the code: patchbay pair cancel %s%s")
)

// Run makes the setup code.
func (c *pairInviteCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		if c.URL == "" {
			c.URL = at.publicURL(ctx)
		}
		i, err := callNodes[wire.SetupCode](ctx, at, api.InviteNode, api.NodeInvite{URL: c.URL})
		if err != nil {
			return err
		}
		return sh.result(i, func() {
			sh.say(msgInvite, timeOf(i.ExpiresAtMS).Local().Format("15:04"))
			sh.printf("    openclaw node run --pair %s%s\n", wire.SetupURLPrefix, i.SetupCode)
			if isJoinable(i.JoinURL) {
				sh.say(msgInviteMore)
				sh.printf("    npx openclaw connect %s\n", i.JoinURL)
			}
			sh.say(msgInviteSee, c.retryFlags())
			sh.say(msgInviteStop, shortID(i.SetupID, shortRequest), c.retryFlags())
		})
	})
}

// isJoinable reports whether OpenClaw accepts a join URL: one without TLS leads to its own machine
// (docs/cli/devices.md of OpenClaw 2026.9.6).
func isJoinable(join string) bool {
	u, err := url.Parse(join)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}
