package main

import (
	"context"
	"slices"
	"strings"

	"patchbay/internal/app"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

type nodeDescribeCmd struct {
	nodeFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (nodeDescribeCmd) Help() string {
	return `Its tools are known while it is connected.

Examples:

    patchbay node describe Desktop
    patchbay node describe 3f2a91c0 --json`
}

// Run prints the node.
func (c *nodeDescribeCmd) Run(ctx context.Context, sh *shell) error {
	var row nodeRow
	err := c.resolve(ctx, sh, func(_ *remote, n nodeRow) error {
		row = n
		return nil
	}, func(_ *app.Base, n nodeRow) error {
		row = n
		return nil
	})
	if err != nil {
		return err
	}
	return sh.result(row, func() { sh.showNode(row, c.retryFlags()) })
}

var (
	sayHeadNode     = talk.Say{Zh: "节点 %s：%s", En: "Node %s: %s"}
	sayItsID        = talk.Say{Zh: "ID", En: "id"}
	sayItsPlatform  = talk.Say{Zh: "系统", En: "platform"}
	sayItsProgram   = talk.Say{Zh: "程序", En: "program"}
	sayItsCaps      = talk.Say{Zh: "能力", En: "can"}
	sayItsSince     = talk.Say{Zh: "连接于", En: "connected"}
	sayItsSurface   = talk.Say{Zh: "批准", En: "approval"}
	sayItsMachine   = talk.Say{Zh: "机器", En: "machine"}
	sayHeadCommands = talk.Say{Zh: "\n可以调用的命令", En: "\nCommands that can be called"}
	sayHeadPending  = talk.Say{Zh: "\n等待批准（patchbay pair approve %s%s）",
		En: "\nTo be approved (patchbay pair approve %s%s)"}
	sayHeadTools  = talk.Say{Zh: "\n工具", En: "\nTools"}
	sayNoCommands = talk.Say{Zh: "\n没有可以调用的命令。", En: "\nThere is no command that can be called."}
	sayCallTool   = talk.Say{
		Zh: "调用：patchbay node invoke %s %s server=服务器 tool=工具 arguments='{}'%s",
		En: "To call one: patchbay node invoke %s %s server=SERVER tool=TOOL arguments='{}'%s",
	}
	sayMarked = talk.Say{Zh: "%s（危险）", En: "%s (dangerous)"}
)

// commandLabel returns a command's name, with a warning if it is dangerous.
func (sh *shell) commandLabel(command string) string {
	name := short(command, maxCommand)
	if gateway.IsDangerous(command) {
		return sayMarked.In(sh.lang, name)
	}
	return name
}

const (
	// maxCommand is how many columns of a command's name are shown: nodes choose them.
	maxCommand = 60
	// maxAbout is how many columns of a tool's description are shown.
	maxAbout = 70
)

func (sh *shell) showNode(n nodeRow, again string) {
	sh.say(sayHeadNode, n.called(), sh.nodeState(n))
	platform := n.Platform
	if n.DeviceFamily != "" && !strings.EqualFold(n.DeviceFamily, n.Platform) {
		platform += " (" + n.DeviceFamily + ")"
	}
	approval := sh.nodeApproval(n)
	if n.ApprovedAtMS != 0 {
		approval += " · " + sh.when(timeOf(n.ApprovedAtMS))
	}
	var rows [][]string
	for _, line := range []struct {
		name  talk.Say
		value string
	}{
		{sayItsID, n.NodeID}, {sayItsPlatform, platform}, {sayItsProgram,
			strings.TrimSpace(n.ClientID + " " + n.Version)}, {sayItsAddress, n.RemoteIP},
		{sayItsCaps, join(n.Caps)}, {sayItsSurface, approval}, {sayItsSince, sh.whenMillis(n.ConnectedAtMS)},
		{sayItsLast, sh.whenMillis(millisOf(n.seen()))},
		{sayItsMachine, string(n.HostStats)},
	} {
		if line.value != "" {
			rows = append(rows, []string{line.name.In(sh.lang), singleLine(plain(line.value))})
		}
	}
	sh.grid("  ", rows)
	sh.showCommands(n, again)
	if len(n.PluginTools) > 0 {
		sh.say(sayHeadTools)
		var tools [][]string
		for _, t := range n.PluginTools {
			tools = append(tools, []string{short(toolOwnName(t), maxCommand), short(t.Description, maxAbout)})
		}
		sh.grid("  ", tools)
		sh.say(sayCallTool, shortID(n.NodeID, shortNode), wire.CommandTool, again)
	}
}

func (sh *shell) showCommands(n nodeRow, again string) {
	if len(n.Commands) == 0 {
		sh.say(sayNoCommands)
	} else {
		sh.say(sayHeadCommands)
	}
	for _, command := range n.Commands {
		sh.printf("  %s\n", sh.commandLabel(command))
	}
	if n.PendingRequest == "" {
		return
	}
	sh.say(sayHeadPending, shortID(n.PendingRequest, shortRequest), again)
	for _, command := range n.PendingCmds {
		if !slices.Contains(n.Commands, command) {
			sh.printf("  %s\n", sh.commandLabel(command))
		}
	}
}

// toolOwnName returns how a tool is named in a call of the command mcp.tools.call.v1: by its server
// and its own name.
func toolOwnName(t wire.PluginTool) string {
	if t.MCP == nil {
		return t.Name
	}
	return t.MCP.Server + "/" + t.MCP.Tool
}

// whenMillis formats Unix milliseconds; "" for none.
func (sh *shell) whenMillis(ms int64) string {
	if ms == 0 {
		return ""
	}
	return sh.when(timeOf(ms))
}
