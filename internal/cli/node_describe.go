package cli

import (
	"context"
	"slices"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/wire"
)

type nodeDescribeCmd struct {
	nodeFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (nodeDescribeCmd) Help() string {
	return `Its tools are known only while it is connected.

Examples:

    patchbay node describe Desktop
    patchbay node describe 3f2a91c0 --json`
}

// Run prints the node.
func (c *nodeDescribeCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		n, err := at.node(ctx, c.Node)
		if err != nil {
			return err
		}
		return sh.result(n, func() { sh.showNode(n, c.retryFlags()) })
	})
}

const (
	msgHeadNode     = i18n.Message("Node %s: %s")
	msgItsID        = i18n.Message("id")
	msgItsPlatform  = i18n.Message("platform")
	msgItsProgram   = i18n.Message("program")
	msgItsCaps      = i18n.Message("can")
	msgItsSince     = i18n.Message("time\x04connected")
	msgItsSurface   = i18n.Message("approval")
	msgItsMachine   = i18n.Message("machine")
	msgHeadCommands = i18n.Message("\nCommands that can be called")
	msgHeadPending  = i18n.Message("\nPending approval (patchbay pair approve %s%s)")
	msgHeadTools    = i18n.Message("\nTools")
	msgNoCommands   = i18n.Message("\nThere are no commands that can be called.")
	msgCallTool     = i18n.Message("To call one: patchbay node invoke %s %s server=SERVER tool=TOOL arguments='{}'%s")
	msgMarked       = i18n.Message("%s (dangerous)")
)

// commandLabel returns a command's name, with a warning if it is dangerous.
func (sh *shell) commandLabel(command string) string {
	name := short(command, maxCommand)
	if gateway.IsDangerous(command) {
		return msgMarked.In(sh.lang, name)
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
	sh.say(msgHeadNode, n.called(), sh.nodeState(n))
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
		name  i18n.Message
		value string
	}{
		{msgItsID, n.NodeID}, {msgItsPlatform, platform}, {msgItsProgram,
			strings.TrimSpace(n.ClientID + " " + n.Version)}, {msgItsAddress, n.RemoteIP},
		{msgItsCaps, join(n.Caps)}, {msgItsSurface, approval}, {msgItsSince, sh.whenMillis(n.ConnectedAtMS)},
		{msgItsLast, sh.whenMillis(millisOf(n.seen()))},
		{msgItsMachine, string(n.HostStats)},
	} {
		if line.value != "" {
			rows = append(rows, []string{line.name.In(sh.lang), singleLine(plain(line.value))})
		}
	}
	sh.grid("  ", rows)
	sh.showCommands(n, again)
	if len(n.PluginTools) > 0 {
		sh.say(msgHeadTools)
		var tools [][]string
		for _, t := range n.PluginTools {
			tools = append(tools, []string{short(toolOwnName(t), maxCommand), short(t.Description, maxAbout)})
		}
		sh.grid("  ", tools)
		sh.say(msgCallTool, shortID(n.NodeID, shortNode), wire.CommandTool, again)
	}
}

func (sh *shell) showCommands(n nodeRow, again string) {
	if len(n.Commands) == 0 {
		sh.say(msgNoCommands)
	} else {
		sh.say(msgHeadCommands)
	}
	for _, command := range n.Commands {
		sh.printf("  %s\n", sh.commandLabel(command))
	}
	if n.PendingRequest == "" {
		return
	}
	sh.say(msgHeadPending, shortID(n.PendingRequest, shortRequest), again)
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
