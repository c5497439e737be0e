package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

type nodeRenameCmd struct {
	nodeFlags `embed:""`
	Name      string `arg:"" help:"The new name."`
}

// Help returns the command's detailed help with examples.
func (nodeRenameCmd) Help() string {
	return `The tool names of its commands change accordingly. To rename a board, use: patchbay device rename.

Examples:

    patchbay node rename 3f2a91c0 Desktop
    patchbay node rename Desktop "study computer"`
}

const msgNodeRenamed = i18n.Message("The node %s is now called %s.")

// Run renames the node.
func (c *nodeRenameCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		n, err := callNodes[wire.Node](ctx, at, api.RenameNode, api.NodeName{Node: c.Node, Name: c.Name})
		if err != nil {
			return err
		}
		return sh.result(map[string]string{"nodeId": n.NodeID, "displayName": n.DisplayName},
			func() { sh.say(msgNodeRenamed, shortID(n.NodeID, shortNode), n.DisplayName) })
	})
}
