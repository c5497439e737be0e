package gateway

import (
	"slices"
	"strings"

	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// Descriptions of the commands of OpenClaw's own nodes.
var commandDescriptions = map[string]string{
	"camera.list":           "Lists the cameras of the device.",
	"camera.snap":           "Takes a picture with a camera of the device.",
	"camera.clip":           "Records a short video with a camera of the device.",
	"camera.ptz.status":     "Returns the direction of a camera of the device.",
	"camera.ptz.control":    "Pans, tilts and zooms a camera of the device.",
	"screen.record":         "Records the screen of the device.",
	"screen.snapshot":       "Takes a picture of the screen of the device.",
	"location.get":          "Returns the location of the device.",
	"device.info":           "Returns information about the device.",
	"device.status":         "Returns the status of the device: battery, storage, network.",
	"device.permissions":    "Returns the permissions of the program on the device.",
	"device.health":         "Returns the health status of the device.",
	"device.apps":           "Lists the apps on the device.",
	"contacts.search":       "Searches the contacts on the device.",
	"contacts.add":          "Adds a contact on the device.",
	"calendar.events":       "Lists events in the calendar of the device.",
	"calendar.add":          "Adds an event to the calendar of the device.",
	"reminders.list":        "Lists the reminders on the device.",
	"reminders.add":         "Adds a reminder on the device.",
	"callLog.search":        "Searches the call log of the device.",
	"sms.send":              "Sends a text message from the device.",
	"sms.search":            "Searches the text messages on the device.",
	"photos.latest":         "Shows the latest photos on the device.",
	"motion.activity":       "Returns the current motion of the device.",
	"motion.pedometer":      "Returns the number of steps counted by the device.",
	"health.summary":        "Returns health data of the device's owner.",
	"notifications.list":    "Lists the notifications on the device.",
	"notifications.actions": "Performs an action on a notification of the device.",
	"system.notify":         "Shows a notification on the device.",
	"system.which":          "Finds the paths of programs on the computer (bins: their names).",
	"system.run":            "Runs a program on the computer.",
	"system.run.prepare":    "Prepares to run a program on the computer.",
	"fs.listDir":            "Lists a folder of the computer.",
	"dir.list":              "Lists a folder of the computer.",
	"file.fetch":            "Reads a file of the computer.",
	"computer.act":          "Uses the mouse and the keyboard of the computer.",
	"mobile.ui.observe":     "Reads the contents of the phone's screen.",
	"mobile.ui.act":         "Performs an action on the screen of the phone.",
	"browser.proxy":         "Uses the browser on the computer.",
	"watch.status":          "Returns the status of the watch.",
	"watch.notify":          "Shows a notification on the watch.",
	"ollama.models":         "Lists the models on the computer.",
	"ollama.chat":           "Asks a model on the computer.",
	wire.CommandTool:        "Calls a tool of an MCP server behind the node (server, tool, arguments).",
	"mcp.tools.list":        "Lists the tools of the MCP server behind the node.",
	"mcp.tools.call":        "Calls a tool of the MCP server behind the node (name, arguments).",
	"mcp.initialize":        "Initializes the connection to the MCP server behind the node.",
	"mcp.notify":            "Sends a notification to the MCP server behind the node.",
}

// readOnlyCommands are commands that change nothing.
var readOnlyCommands = []string{
	"camera.list", "camera.ptz.status", "location.get", "device.info", "device.status", "device.permissions",
	"device.health", "device.apps",
	"contacts.search", "calendar.events", "reminders.list", "callLog.search", "sms.search", "photos.latest",
	"motion.activity", "motion.pedometer",
	"health.summary", "notifications.list", "system.which", "fs.listDir", "dir.list", "mobile.ui.observe",
	"watch.status", "ollama.models",
	"mcp.tools.list", "mcp.initialize", "screen.snapshot",
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
	t := tool.Tool{Name: command, Description: commandDescriptions[command], Input: anyObject}
	if t.Description == "" {
		t.Description = "The command " + command + " of the node."
	}
	if slices.Contains(readOnlyCommands, command) {
		t.Hints = tool.ReadOnlyHints()
	}
	t.Dangerous = slices.Contains(dangerousCommands, command) || strings.HasPrefix(command, "browser.proxy") ||
		strings.HasPrefix(command, "file.") || strings.HasPrefix(command, "dir.") ||
		strings.HasPrefix(command, "terminal.")
	if slices.Contains(hiddenCommands, command) {
		t.Audience = "user"
	}
	return t
}
