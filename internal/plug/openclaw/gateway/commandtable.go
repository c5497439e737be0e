package gateway

import (
	"encoding/json"
	"maps"

	"patchbay/internal/plug/openclaw/mcpnode"
	"patchbay/internal/plug/openclaw/wire"
)

// knownCommand describes a command of OpenClaw's own nodes to models.
type knownCommand struct {
	about  string
	params json.RawMessage
}

// knownCommands are the commands of OpenClaw's own nodes of 2026.9.6. A model that has only these
// texts can call them.
var knownCommands = func() map[string]knownCommand {
	all := map[string]knownCommand{}
	for _, table := range []map[string]knownCommand{desktopTable, mediaTable, phoneTable, mcpTable} {
		maps.Copy(all, table)
	}
	return all
}()

const (
	aboutFolder  = "Absolute path of the folder."
	aboutFile    = "Absolute path of the file."
	aboutBase64  = "The content, in Base64."
	aboutLinks   = "Follow symbolic links; false if not given."
	aboutStart   = "Beginning of the time, such as 2026-11-27T09:00:00Z."
	aboutEnd     = "End of the time, such as 2026-11-27T18:00:00Z."
	aboutLimit   = "How many at most."
	aboutTimeout = "How long it may take, in milliseconds."
	aboutWidth   = "Largest width of the picture, in pixels."
	aboutQuality = "Quality of the JPEG picture, from 0 to 1."
	aboutCamera  = "Id of the camera, from camera.list; instead of facing."
	aboutScreen  = "Number of the screen; 0 is the first."
	aboutAudio   = "With sound; true if not given."
	aboutLength  = "Length of the recording, in milliseconds."
)

// desktopTable has the commands of computers: the parameters are those that the node host parses
// (src/node-host/invoke.ts, invoke-system-run.ts, invoke-file-commands.ts, invoke-device-apps.ts;
// extensions/file-transfer/src/node-host; extensions/ollama/src/node-inference-contract.ts;
// extensions/browser/src/node-host/invoke-browser.ts; src/plugins/computer-use-contract.ts).
var desktopTable = map[string]knownCommand{
	"system.run": {`Runs a program on the computer and returns exitCode, stdout and stderr. There is no shell: for pipes or variables run one, such as ["sh","-c","ls | wc -l"]. The computer's policy may ask its owner first. Example: {"command":["git","status"],"cwd":"/home/ada/project"}`,
		paramsSchema(runCommand, runFolder,
			param("env", "object", "Further environment variables, except PATH; shells do not get them.", "additionalProperties", `{"type":"string"}`),
			intParam("timeoutMs", "The program is ended after this time, in milliseconds.", 1, 0))},
	"system.run.prepare": {`Checks whether a program could be run, without running it: returns how it would be run, and the computer's policy. Example: {"command":["git","status"]}`,
		paramsSchema(runCommand, runFolder)},
	"system.which": {`Finds programs on the computer: returns the absolute path of each that is installed. Example: {"bins":["git","ffmpeg"]}`,
		paramsSchema(listParam("bins", "Names of the programs.").needed())},
	"system.execApprovals.get": {"Returns the computer's policy for running programs.",
		paramsSchema(flagParam("includeResolvedDefaults", "Also return the policy that holds for programs without one."))},
	"system.execApprovals.set": {"Replaces the computer's policy for running programs.",
		paramsSchema(objectParam("file", "The whole policy, as system.execApprovals.get returns it.").needed(),
			textParam("baseHash", "The hash of the policy that is replaced."))},
	"system.notify": {`Shows a notification on the device. Example: {"title":"Oven","body":"The cake is done"}`,
		paramsSchema(textParam("title", "").needed(), textParam("body", "").needed(),
			textParam("sound", "Name of a sound of the device."),
			choiceParam("priority", "", "passive", "active", "timeSensitive"),
			choiceParam("delivery", "", "system", "overlay", "auto"))},
	"fs.listDir": {`Lists the folders in a folder of the computer; files are not listed. Example: {"path":"/home/ada"}`,
		paramsSchema(textParam("path", "Absolute path of the folder; the home folder if not given."))},
	"terminal.upload": {"Puts a file into a temporary folder of the computer, and returns its path.",
		paramsSchema(textParam("name", "Name of the file, without a folder.").needed(),
			textParam("contentBase64", aboutBase64).needed())},
	"dir.list": {`Lists the files and folders in a folder of the computer. Example: {"path":"/home/ada"}`,
		paramsSchema(textParam("path", aboutFolder).needed(), intParam("maxEntries", aboutLimit, 1, 5000),
			textParam("pageToken", "nextPageToken of the page before."), flagParam("followSymlinks", aboutLinks))},
	"dir.fetch": {"Returns a folder of the computer with all that is in it, as a compressed archive in Base64.",
		paramsSchema(textParam("path", aboutFolder).needed(), maxBytes, flagParam("followSymlinks", aboutLinks))},
	"file.fetch": {`Reads a file of the computer, and returns its content in Base64. Example: {"path":"/home/ada/notes.txt"}`,
		paramsSchema(textParam("path", aboutFile).needed(), maxBytes, flagParam("followSymlinks", aboutLinks))},
	"file.stat": {"Returns the size and the type of a file of the computer.",
		paramsSchema(textParam("path", aboutFile).needed(), flagParam("followSymlinks", aboutLinks))},
	"file.write": {`Writes a file of the computer. Example: {"path":"/home/ada/hello.txt","contentBase64":"aGVsbG8K"}`,
		paramsSchema(textParam("path", aboutFile).needed(), textParam("contentBase64", aboutBase64).needed(),
			flagParam("overwrite", "Replace a file that exists; false if not given."),
			flagParam("createParents", "Create folders that are missing; false if not given."),
			flagParam("followSymlinks", aboutLinks))},
	"device.apps": {`Lists the apps on the device. Example: {"query":"mail","limit":20}`,
		paramsSchema(textParam("query", "Part of the app's name."), intParam("limit", aboutLimit, 1, 200),
			flagParam("includeSystem", "Also those of the operating system; false if not given."))},
	"computer.act": {`Uses the mouse and the keyboard of the computer. Take a picture with screen.snapshot first: coordinates are pixels of it. Examples: {"action":"left_click","x":120,"y":80}, {"action":"type","text":"hello"}, {"action":"key","keys":"ctrl+s"}`,
		paramsSchema(computerAction,
			numberParam("x", "", "0", ""), numberParam("y", "", "0", ""),
			numberParam("fromX", "Where left_click_drag begins.", "0", ""), numberParam("fromY", "", "0", ""),
			textParam("text", "What type writes."), textParam("keys", "Keys of key and hold_key, such as ctrl+s."),
			choiceParam("scrollDirection", "", "up", "down", "left", "right"), intParam("scrollAmount", "", 1, 0),
			intParam("durationMs", aboutTimeout, 0, 0), textParam("modifiers", "Keys that are held, such as ctrl."),
			intParam("screenIndex", aboutScreen, 0, 0),
			intParam("refWidth", "Width of the picture that the coordinates are of, in pixels.", 1, 0),
			textParam("app", "Name of the app, for launch_app and kill_app."),
			textParam("windowRef", "Window, from list_windows."),
			textParam("displayFrameId", "displayFrameId that screen.snapshot returned with the picture."))},
	"browser.proxy": {`Calls the browser on the computer. Example: {"method":"GET","path":"/tabs"}`,
		paramsSchema(choiceParam("method", "", "GET", "POST", "DELETE").needed(),
			textParam("path", "Path of the browser control API, such as /tabs or /snapshot.").needed(),
			objectParam("query", "Parameters of the address."), objectParam("body", "JSON body of a POST."),
			textParam("profile", "Profile of the browser."), intParam("timeoutMs", aboutTimeout, 1, 0))},
	"browser.proxy.upload.v1": {"Passes a file to the browser on the computer, in a form that only OpenClaw's own programs know.",
		paramsSchema()},
	"agent.cli.claude.run.v1": {`Runs Claude Code on the computer. Example: {"argv":["-p","--output-format","json"],"stdin":"What is in this folder?","cwd":"/home/ada/project"}`,
		paramsSchema(listParam("argv", "Arguments of the program claude.").needed(), textParam("stdin", "What it is asked."),
			runFolder, intParam("timeoutMs", aboutTimeout, 1, 86_400_000))},
	"desktop.stream": {"Streams the desktop of the computer to OpenClaw's own gateway.", paramsSchema()},
	"ollama.models":  {"Lists the models on the computer.", paramsSchema()},
	"ollama.chat": {`Asks a model on the computer. Example: {"model":"llama3.2","prompt":"Say hello"}`,
		paramsSchema(textParam("model", "Name of the model, from ollama.models.").needed(),
			textParam("prompt", "What it is asked.").needed(), textParam("system", "Instructions for the model."),
			numberParam("temperature", "", "0", "2"), intParam("maxTokens", "Length of the answer, in tokens.", 1, 8192),
			intParam("timeoutMs", aboutTimeout, 1, 600_000))},
}

var (
	runCommand = listParam("command",
		"The program, as a name or an absolute path, and its arguments: one element each.").needed()
	runFolder = textParam("cwd", "Absolute path of the folder in which it runs.")
	maxBytes  = intParam("maxBytes", "Largest size, in bytes.", 1, 16<<20)

	// computerAction has the actions that all desktops know (COMPUTER_ACT_V1_ACTION_NAMES), and of
	// the newer ones those about apps and windows.
	computerAction = choiceParam("action", "", "left_click", "right_click", "middle_click", "double_click",
		"triple_click", "mouse_move", "left_click_drag", "left_mouse_down", "left_mouse_up", "scroll", "type", "key",
		"hold_key", "list_apps", "list_windows", "get_cursor_position", "get_window_state", "launch_app", "kill_app",
		"bring_to_front").needed()
)

// mcpTable has the commands of MCP servers behind nodes. The first is OpenClaw's; the others are
// those of bridges between OpenClaw and MCP.
var mcpTable = map[string]knownCommand{
	wire.CommandTool: {`Calls a tool of an MCP server behind the node. Example: {"server":"demo","tool":"lamp.set","arguments":{"on":true}}`,
		paramsSchema(textParam("server", "Name of the server, as in the node's settings.").needed(),
			textParam("tool", "Name of the tool.").needed(), objectParam("arguments", "Arguments of the tool."))},
	mcpnode.CommandList: {"Lists the tools of the MCP server behind the node.",
		paramsSchema(textParam("cursor", "nextCursor of the page before."))},
	mcpnode.CommandCall: {`Calls a tool of the MCP server behind the node. Example: {"name":"lamp.set","arguments":{"on":true}}`,
		paramsSchema(textParam("name", "Name of the tool.").needed(), objectParam("arguments", "Arguments of the tool."))},
	mcpnode.CommandInitialize: {"Initializes the connection to the MCP server behind the node.",
		paramsSchema(objectParam("capabilities", "Capabilities of the caller, for the server."))},
	mcpnode.CommandNotify: {`Sends a notification to the MCP server behind the node. Example: {"method":"notifications/lights","params":{"on":true}}`,
		paramsSchema(textParam("method", "Begins with notifications/.").needed(),
			objectParam("params", "Parameters of the notification."))},
}
