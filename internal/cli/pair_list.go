package cli

import (
	"context"
	"time"

	"patchbay/internal/i18n"
)

type pairListCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (pairListCmd) Help() string {
	return `A node sends two requests: one to connect, and one for the commands that it offers. The first request expires five minutes after its last attempt. Programs on the server's machine are approved automatically, unless the setting nodes.approve_local is false. Waiting voice boards are only counted; approve them with patchbay device approve.

Examples:

    patchbay pair list
    patchbay pair list --json`
}

// Run lists the pending requests.
func (c *pairListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		p, err := at.pairs(ctx)
		if err != nil {
			return err
		}
		return sh.result(p, func() { sh.pairTable(p, c.retryFlags()) })
	})
}

const (
	msgRequest    = i18n.Message("REQUEST")
	msgComesFrom  = i18n.Message("FROM")
	msgAsked      = i18n.Message("SINCE")
	msgWants      = i18n.Message("REQUESTED ACCESS")
	msgNobodyAsks = i18n.Message("There are no pending requests.")
	msgDecide     = i18n.Message("To approve one: patchbay pair approve REQUEST%[1]s. To reject one: patchbay pair reject REQUEST%[1]s")
	msgCodes      = i18n.Message("Voice boards that show a pairing code: %d. To approve one: patchbay device approve CODE%s")
)

func (sh *shell) pairTable(p pairing, again string) {
	if len(p.Devices)+len(p.Nodes) == 0 {
		sh.say(msgNobodyAsks)
	} else {
		var cells [][]string
		row := func(request, peer, name, platform, from, wants string, ms int64) {
			at := time.UnixMilli(ms)
			cells = append(cells, []string{
				shortID(request, shortRequest), shortID(peer, shortNode), short(name, maxCalled),
				short(platform, maxCalled), plain(from), sh.when(at), wants,
			})
		}
		for _, r := range p.Devices {
			row(r.RequestID, r.DeviceID, r.DisplayName, r.Platform, r.RemoteIP, sh.requestedAccess(r.Roles, r.Scopes),
				r.TS)
		}
		for _, r := range p.Nodes {
			row(r.RequestID, r.NodeID, r.DisplayName, r.Platform, r.RemoteIP, sh.requestedCommands(r.Commands), r.TS)
		}
		sh.table([]i18n.Message{msgRequest, msgID, msgName, msgPlatform, msgComesFrom, msgAsked, msgWants}, cells)
		sh.say(msgDecide, again)
	}
	if p.Codes > 0 {
		sh.say(msgCodes, p.Codes, again)
	}
}
