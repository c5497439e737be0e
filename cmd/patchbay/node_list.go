package main

import (
	"context"
	"strconv"

	"patchbay/internal/app"
	"patchbay/internal/talk"
)

type nodeListCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (nodeListCmd) Help() string {
	return `Nodes are programs on other machines that OpenClaw's operators call, as OpenClaw's own node host is one. Whatever is plugged in here, boards and servers of tools, appears among them, as long as a server runs; without one, nobody knows which nodes are connected.

Examples:

    patchbay node list
    patchbay node list --json
    patchbay node list --server https://board.example.org --key $KEY`
}

// Run lists the nodes.
func (c *nodeListCmd) Run(ctx context.Context, sh *shell) error {
	var rows []nodeRow
	err := c.withTarget(ctx, sh, func(r *remote) (err error) {
		rows, err = r.nodes(ctx)
		return err
	}, func(b *app.Base) (err error) {
		rows, err = localNodes(ctx, b)
		return err
	})
	if err != nil {
		return err
	}
	return sh.nodeTable(rows, c.retryFlags())
}

var (
	sayPlatform     = talk.Say{Zh: "系统", En: "PLATFORM"}
	sayApproval     = talk.Say{Zh: "批准", En: "APPROVAL"}
	sayCommandCount = talk.Say{Zh: "命令", En: "COMMANDS"}
	sayNoNodes      = talk.Say{
		Zh: "还没有节点。给节点一个密钥：patchbay key add --name 节点 --scope node；然后让它连接本服务；试一试：patchbay simulate node",
		En: "There are no nodes yet. Make a key for one (patchbay key add --name node --scope node) and let it connect to this server; to try it: patchbay simulate node",
	}
	sayToApprove = talk.Say{Zh: "批准：patchbay pair approve %s%s", En: "approve it: patchbay pair approve %s%s"}
)

func (sh *shell) nodeTable(rows []nodeRow, again string) error {
	if rows == nil {
		rows = []nodeRow{}
	}
	return sh.result(rows, func() {
		if len(rows) == 0 {
			sh.say(sayNoNodes)
			return
		}
		var cells [][]string
		for _, n := range rows {
			note, seen := "", "–"
			if n.PendingRequest != "" {
				note = sayToApprove.In(sh.lang, shortID(n.PendingRequest, shortRequest), again)
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
		sh.table([]talk.Say{sayID, sayName, sayPlatform, sayState, sayApproval, sayCommandCount, sayHeard, {}}, cells)
	})
}
