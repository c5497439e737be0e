package cli

import (
	"context"
	"strconv"

	"patchbay/internal/i18n"
)

type nodeListCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (nodeListCmd) Help() string {
	return `Nodes are programs on other machines that OpenClaw operators call, such as OpenClaw's own node host. While a server runs, boards and tool servers appear as nodes too; without a server, the connection status is unknown.

Examples:

    patchbay node list
    patchbay node list --json
    patchbay node list --server https://board.example.org --key $KEY`
}

// Run lists the nodes.
func (c *nodeListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		rows, err := at.nodes(ctx)
		if err != nil {
			return err
		}
		return sh.nodeTable(rows, c.retryFlags())
	})
}

const (
	msgPlatform     = i18n.Message("PLATFORM")
	msgApproval     = i18n.Message("APPROVAL")
	msgCommandCount = i18n.Message("COMMANDS")
	msgNoNodes      = i18n.Message("There are no nodes yet. Create a key for one (patchbay key add --name node --scope node) and connect it to this server; to try it: patchbay simulate node")
	msgToApprove    = i18n.Message("approve it: patchbay pair approve %s%s")
)

func (sh *shell) nodeTable(rows []nodeRow, again string) error {
	return sh.result(rows, func() {
		if len(rows) == 0 {
			sh.say(msgNoNodes)
			return
		}
		var cells [][]string
		for _, n := range rows {
			note, seen := "", "–"
			if n.PendingRequest != "" {
				note = msgToApprove.In(sh.lang, shortID(n.PendingRequest, shortRequest), again)
			}
			if t := n.seen(); !t.IsZero() {
				seen = sh.when(t)
			}
			cells = append(cells, []string{
				shortID(n.NodeID, shortNode), short(n.DisplayName, maxCalled), short(n.Platform, maxCalled),
				sh.nodeState(n), sh.nodeApproval(n),
				strconv.Itoa(len(n.Commands)), seen, note,
			})
		}
		sh.table([]i18n.Message{msgID, msgName, msgPlatform, msgState, msgApproval, msgCommandCount, msgHeard,
			i18n.Message("")}, cells)
	})
}
