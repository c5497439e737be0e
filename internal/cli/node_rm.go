package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/i18n"
)

type nodeRmCmd struct {
	Yes       bool `short:"y" help:"Do not ask for confirmation."`
	nodeFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (nodeRmCmd) Help() string {
	return `Its connection is closed, and its own token is invalid from now on. If it connects again with a key, it has to be paired again: to block it, revoke its key too.

Examples:

    patchbay node rm Desktop
    patchbay node rm 3f2a91c0 --yes`
}

const (
	msgRemoveNode  = i18n.Message("Remove the node %s (%s)?")
	msgNodeRemoved = i18n.Message("The node %s (%s) is removed.")
)

// Run removes the node.
func (c *nodeRmCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		n, err := at.node(ctx, c.Node)
		if err != nil {
			return err
		}
		id := shortID(n.NodeID, shortNode)
		if !c.Yes && !sh.confirm(ctx, msgRemoveNode, n.called(), id) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return i18n.Message("nothing was removed; answer y, or give --yes").Errorf()
		}
		if _, err := api.RemoveNode.Call(ctx, at.Client, api.NodeRef{Node: n.NodeID}); err != nil {
			return err
		}
		return sh.result(map[string]any{"nodeId": n.NodeID, "removed": true},
			func() { sh.say(msgNodeRemoved, n.called(), id) })
	})
}
