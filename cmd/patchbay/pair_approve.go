package main

import (
	"context"
	"slices"

	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

type pairApproveCmd struct {
	Request     string `arg:"" help:"Id of the request or the beginning of it, or name or id of the device if it asks for one thing."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (pairApproveCmd) Help() string {
	return `What pair list shows is what is approved. A node that wants to run more later asks again, and may run what was approved before meanwhile. Dangerous commands are marked: they look, listen, or change something. Some of them the setting nodes.allow has to name besides.

Examples:

    patchbay pair approve 3f2a91c0
    patchbay pair approve Desktop
    patchbay pair approve Desktop --server https://board.example.org --key $KEY --json`
}

var (
	sayMayConnect = talk.Say{Zh: "%s（%s）可以作为 %s 连接了。", En: "%s (%s) may connect as %s now."}
	sayNextAsks   = talk.Say{
		Zh: "它连接后（等待中的会在半分钟内连接），它要运行的命令还需批准：patchbay pair approve %s%s",
		En: "Once it has connected, within half a minute if it is waiting, what it wants to run has to be approved too: patchbay pair approve %s%s",
	}
	sayMayRun     = talk.Say{Zh: "%s（%s）可以运行这些命令了：%s", En: "%s (%s) may run these commands now: %s"}
	sayMayNothing = talk.Say{Zh: "节点 %s（%s）已批准；它没有命令。", En: "The node %s (%s) is approved; it has no commands."}
	sayKeptOff    = talk.Say{
		Zh: "设置 nodes.allow 和 nodes.deny 仍不允许：%s",
		En: "The settings nodes.allow and nodes.deny keep these from being called: %s",
	}
	sayNowInvoke = talk.Say{Zh: "调用：patchbay node invoke %s 命令%s", En: "To call one: patchbay node invoke %s COMMAND%s"}
)

// Run approves the request.
func (c *pairApproveCmd) Run(ctx context.Context, sh *shell) error {
	d, err := c.decide(ctx, sh, c.Request, wire.DecisionApproved)
	if err != nil {
		return err
	}
	return sh.result(d, func() { sh.approvedPair(d, c.retryFlags()) })
}

func (sh *shell) approvedPair(d decision, again string) {
	name, id := called(d.Name, d.Node), shortID(d.Node, shortNode)
	if !d.surface {
		sh.say(sayMayConnect, name, id, plain(join(d.Roles)))
		if slices.Contains(d.Roles, wire.RoleNode) && !d.again {
			sh.say(sayNextAsks, id, again)
		}
		return
	}
	if len(d.Commands) > 0 {
		names := make([]string, len(d.Commands))
		for i, command := range d.Commands {
			names[i] = sh.commandLabel(command)
		}
		sh.say(sayMayRun, name, id, join(names))
		sh.say(sayNowInvoke, id, again)
	} else {
		sh.say(sayMayNothing, name, id)
	}
	if len(d.Kept) > 0 {
		sh.say(sayKeptOff, plain(join(d.Kept)))
	}
}
