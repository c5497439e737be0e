package main

import (
	"context"
	"net/http"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
)

type nodeRenameCmd struct {
	nodeFlags `embed:""`
	Name      string `arg:"" help:"The new name."`
}

// Help returns the command's detailed help with examples.
func (nodeRenameCmd) Help() string {
	return `The names under which its commands join the board change with it. A board is renamed by: patchbay device rename.

Examples:

    patchbay node rename 3f2a91c0 Desktop
    patchbay node rename Desktop "study computer"`
}

const msgNodeRenamed = i18n.Message("The node %s is called %s now.")

// Run renames the node.
func (c *nodeRenameCmd) Run(ctx context.Context, sh *shell) error {
	told := func(n nodeRow) error {
		return sh.result(map[string]string{"nodeId": n.NodeID, "displayName": c.Name},
			func() { sh.say(msgNodeRenamed, shortID(n.NodeID, shortNode), c.Name) })
	}
	return c.resolve(ctx, sh, func(r *remote, n nodeRow) error {
		if err := r.do(ctx, http.MethodPatch, nodePath(n.NodeID), map[string]string{"name": c.Name},
			&struct{}{}); err != nil {
			return err
		}
		return told(n)
	}, func(b *app.Base, n nodeRow) error {
		if err := b.Accounts.RenamePeer(ctx, n.NodeID, c.Name); err != nil {
			return nodeError(err)
		}
		return told(n)
	})
}
