package main

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

type pairRejectCmd struct {
	Request     string `arg:"" help:"Id of the request or the beginning of it, or name or id of the device if it asks for one thing."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (pairRejectCmd) Help() string {
	return `A device that wants in asks again when it tries the next time; to keep it away, revoke its key. A node that wants to run something asks again when it connects the next time, and may run what was approved before.

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
