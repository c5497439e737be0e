package main

import (
	"context"
	"net/http"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
)

type nodeRmCmd struct {
	Yes       bool `short:"y" help:"Do not ask."`
	nodeFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (nodeRmCmd) Help() string {
	return `Its connection ends, and its own token is refused from now on. If it comes again with a key, it has to be paired again: to keep it away, revoke its key too.

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
	return c.resolve(ctx, sh, func(r *remote, n nodeRow) error {
		return c.remove(ctx, sh, n, func() error {
			return r.do(ctx, http.MethodDelete, nodePath(n.NodeID), nil,
				&struct{}{})
		})
	}, func(b *app.Base, n nodeRow) error {
		return c.remove(ctx, sh, n, func() error { return nodeError(b.Store.Peers.Remove(ctx, n.NodeID)) })
	})
}

func (c *nodeRmCmd) remove(ctx context.Context, sh *shell, n nodeRow, do func() error) error {
	id := shortID(n.NodeID, shortNode)
	if !c.Yes && !sh.confirm(ctx, msgRemoveNode, n.called(), id) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return i18n.Message("nothing was removed; answer y, or give --yes").Errorf()
	}
	if err := do(); err != nil {
		return err
	}
	return sh.result(map[string]any{"nodeId": n.NodeID, "removed": true},
		func() { sh.say(msgNodeRemoved, n.called(), id) })
}
