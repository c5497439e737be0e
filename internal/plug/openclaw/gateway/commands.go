package gateway

import (
	"slices"
	"strings"

	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// readOnlyCommands are commands that change nothing.
var readOnlyCommands = []string{
	"camera.list", "camera.ptz.status", "location.get", "device.info", "device.status", "device.permissions",
	"device.health", "device.apps",
	"contacts.search", "calendar.events", "reminders.list", "callLog.search", "sms.search", "photos.latest",
	"motion.activity", "motion.pedometer",
	"health.summary", "notifications.list", "system.which", "fs.listDir", "dir.list", "mobile.ui.observe",
	"watch.status", "ollama.models",
	"mcp.tools.list", "mcp.initialize", "screen.snapshot", "file.stat", "file.fetch", "dir.fetch",
	"system.run.prepare", "system.execApprovals.get",
}

// destructiveCommands are commands that may destroy something.
var destructiveCommands = []string{
	"system.run", "system.execApprovals.set", "file.write", "computer.act", "mobile.ui.act", "browser.proxy",
	"agent.cli.claude.run.v1",
}

// dangerousCommands are available to models and programs only if the owner allows them by name.
var dangerousCommands = []string{
	"camera.snap", "camera.clip", "camera.ptz.control", "screen.record", "screen.snapshot", "contacts.add",
	"calendar.add", "reminders.add", "sms.send",
	"sms.search", "health.summary", "system.run", "system.run.prepare", "system.execApprovals.get",
	"system.execApprovals.set", "fs.listDir", "terminal.upload",
	"desktop.stream", "computer.act", "mobile.ui.act", "agent.cli.claude.run.v1",
}

// hiddenCommands are commands whose tools are offered under their own names instead.
var hiddenCommands = []string{wire.CommandTool, "mcp.tools.list", "mcp.tools.call", "mcp.initialize", "mcp.notify"}

// commandTool returns a command as a tool.
func commandTool(command string) tool.Tool {
	t := tool.Tool{Name: command, Description: "The command " + command + " of the node.", Input: anyObject}
	known, isKnown := knownCommands[command]
	if isKnown {
		t.Description, t.Input = known.about, known.params
	}
	switch {
	case slices.Contains(readOnlyCommands, command):
		t.Hints = tool.ReadOnlyHints()
	case slices.Contains(destructiveCommands, command):
		yes, no := true, false
		t.Hints = tool.Hints{ReadOnly: &no, Destructive: &yes}
	case isKnown && !slices.Contains(hiddenCommands, command):
		no := false
		t.Hints = tool.Hints{ReadOnly: &no, Destructive: &no}
	}
	t.Dangerous = slices.Contains(dangerousCommands, command) || strings.HasPrefix(command, "browser.proxy") ||
		strings.HasPrefix(command, "file.") || strings.HasPrefix(command, "dir.") ||
		strings.HasPrefix(command, "terminal.")
	if slices.Contains(hiddenCommands, command) {
		t.Audience = "user"
	}
	return t
}
