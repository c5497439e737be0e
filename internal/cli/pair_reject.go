package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

type pairRejectCmd struct {
	Request     string `arg:"" help:"Id of the request or a prefix of it, or name or id of a device with a single request."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (pairRejectCmd) Help() string {
	return `A device whose connection is rejected sends a new request at its next attempt; to block it, revoke its key. A node whose commands are rejected sends a new request at its next connection; earlier approvals remain valid.

Examples:

    patchbay pair reject 3f2a91c0
    patchbay pair reject Desktop --json`
}

const (
	msgNotLetIn  = i18n.Message("The request of %s (%s) to connect is rejected.")
	msgMayNotRun = i18n.Message("The request of %s (%s) to run commands is rejected.")
)

// Run rejects the request.
func (c *pairRejectCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		d, err := at.decide(ctx, c.Request, api.RejectPair, wire.DecisionRejected)
		if err != nil {
			return err
		}
		return sh.result(d, func() {
			said := msgNotLetIn
			if d.surface {
				said = msgMayNotRun
			}
			sh.say(said, called(d.Name, d.Node), shortID(d.Node, shortNode))
		})
	})
}
