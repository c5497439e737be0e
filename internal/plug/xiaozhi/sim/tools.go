package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"patchbay/internal/jsonrpc"
)

// Tool is an MCP tool of a board.
type Tool struct {
	Name, Description string
	Args              []Arg
	UserOnly          bool // listed only with withUserTools: for people, not for models
	// Do carries out the tool, in the board's loop, and returns the result's text. It must not call
	// the board. Nil: the text is "true".
	Do func(ctx context.Context, args Args) (string, error)

	builtin  func(*Board, context.Context, Args) (string, error)
	restarts bool // the board restarts after a reply of true
}

// Arg is an argument of a tool.
type Arg struct {
	Name     string
	Type     string // "integer", "string" or "boolean"
	Default  any    // nil: the argument is required
	Bounded  bool   // an integer between Min and Max
	Min, Max int
}

// Args are arguments by name: int, string or bool.
type Args map[string]any

// toolError is an error with the firmware's text.
type toolError string

func (e toolError) Error() string { return string(e) }

// percent returns an integer argument from 0 to 100.
func percent(name string) Arg { return Arg{Name: name, Type: "integer", Bounded: true, Max: 100} }

func text(name string) Arg { return Arg{Name: name, Type: "string"} }

// standardTools are the tools of every board with a display. The descriptions are as long as the
// firmware's (xiaozhi-esp32 main/mcp_server.cc, McpServer::AddCommonTools), so that the pages of
// the list are realistic.
var standardTools = []Tool{
	{Name: "self.get_device_status",
		Description: "Provides the real-time information of the device, including the current status of the audio speaker, screen, battery, network, etc.\nUse this tool for: \n1. Answering questions about current condition (e.g. what is the current volume of the audio speaker?)\n2. As the first step to control the device (e.g. turn up / down the volume of the audio speaker, etc.)", builtin: (*Board).status},
	{Name: "self.audio_speaker.set_volume",
		Description: "Set the volume of the audio speaker. If the current volume is unknown, you must call `self.get_device_status` tool first and then call this tool.", Args: []Arg{percent("volume")},
		builtin: func(b *Board, _ context.Context, a Args) (string, error) {
			b.update(func() { b.shown.volume = a["volume"].(int) })
			return "true", nil
		}},
	{Name: "self.screen.set_brightness", Description: "Set the brightness of the screen.",
		Args: []Arg{percent("brightness")},
		builtin: func(b *Board, _ context.Context, a Args) (string, error) {
			b.update(func() { b.shown.brightness = a["brightness"].(int) })
			return "true", nil
		}},
	{Name: "self.screen.set_theme", Description: "Set the theme of the screen. The theme can be `light` or `dark`.",
		Args: []Arg{text("theme")},
		builtin: func(b *Board, _ context.Context, a Args) (string, error) {
			b.update(func() { b.shown.theme = a["theme"].(string) })
			return "true", nil
		}},
}

// cameraTool is the tool of boards with a camera.
var cameraTool = Tool{Name: "self.camera.take_photo",
	Description: "Always remember you have a camera. If the user asks you to see something, use this tool to take a photo and then explain it.\nArgs:\n  `question`: The question that you want to ask about the photo.\nReturn:\n  A JSON object that provides the photo information.",
	Args:        []Arg{text("question")}, builtin: (*Board).takePhoto}

// userTools returns the user-only tools.
func userTools() []Tool {
	return []Tool{
		{Name: "self.get_system_info", Description: "Get the system information", UserOnly: true,
			builtin: func(b *Board, _ context.Context, _ Args) (string, error) { return string(b.otaBody()), nil }},
		{Name: "self.reboot", Description: "Reboot the system", UserOnly: true, restarts: true,
			builtin: func(*Board, context.Context, Args) (string, error) { return "true", nil }},
		{Name: "self.upgrade_firmware",
			Description: "Upgrade firmware from a specific URL. This will download and install the firmware, then reboot the device.", UserOnly: true,
			restarts: true,
			// The firmware passes the description of the argument as its default value
			// (xiaozhi-esp32 main/mcp_server.cc, McpServer::AddUserOnlyTools).
			Args: []Arg{{Name: "url", Type: "string",
				Default: "The URL of the firmware binary file to download and install"}},
			builtin: func(b *Board, ctx context.Context, a Args) (string, error) {
				if b.download(ctx, a["url"].(string)) != nil {
					return "false", nil
				}
				return "true", nil
			}},
		{Name: "self.screen.get_info", Description: "Information about the screen, including width, height, etc.",
			UserOnly: true,
			builtin: func(*Board, context.Context, Args) (string, error) {
				return `{"width":320,"height":240,"monochrome":false}`, nil
			}},
		{Name: "self.screen.snapshot", Description: "Snapshot the screen and upload it to a specific URL",
			UserOnly: true,
			Args: []Arg{text("url"), {Name: "quality", Type: "integer", Default: 80, Bounded: true, Min: 1,
				Max: 100}},
			builtin: (*Board).snapshot},
		{Name: "self.screen.preview_image", Description: "Preview an image on the screen", UserOnly: true,
			Args: []Arg{text("url")}, builtin: (*Board).preview},
		{Name: "self.assets.set_download_url", Description: "Set the download url for the assets", UserOnly: true,
			Args: []Arg{text("url")}},
	}
}

// tools returns the board's tools in the order of its list.
func (b *Board) tools() []Tool {
	out := append([]Tool(nil), standardTools...)
	if b.opt.Picture != nil {
		out = append(out, cameraTool)
	}
	out = append(out, b.opt.Tools...)
	if b.opt.Profile.UserTools {
		out = append(out, userTools()...)
	}
	return out
}

// update changes the board's state and wakes waiters.
func (b *Board) update(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	b.changed()
}

// status returns the result of self.get_device_status.
func (b *Board) status(context.Context, Args) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf(`{"audio_speaker":{"volume":%d},"screen":{"brightness":%d,"theme":%s},"battery":{"level":80,"charging":false},"network":{"type":"wifi","ssid":"home","signal":"strong"},"chip":{"temperature":45.1}}`,
		b.shown.volume, b.shown.brightness, jsonrpc.AppendText(nil, b.shown.theme)), nil
}

// appendTool appends a tool's JSON as a board lists it.
func appendTool(b []byte, t *Tool) []byte {
	b = jsonrpc.AppendText(append(b, `{"name":`...), t.Name)
	b = jsonrpc.AppendText(append(b, `,"description":`...), t.Description)
	b = append(b, `,"inputSchema":{"type":"object","properties":{`...)
	var required []string
	for i, a := range t.Args {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsonrpc.AppendText(b, a.Name), `:{"type":"`...)
		b = append(append(b, a.Type...), '"')
		if a.Default != nil {
			value, _ := json.Marshal(a.Default)
			b = append(append(b, `,"default":`...), value...)
		} else {
			required = append(required, a.Name)
		}
		if a.Bounded {
			b = strconv.AppendInt(append(b, `,"minimum":`...), int64(a.Min), 10)
			b = strconv.AppendInt(append(b, `,"maximum":`...), int64(a.Max), 10)
		}
		b = append(b, '}')
	}
	b = append(b, '}')
	if required != nil {
		names, _ := json.Marshal(required)
		b = append(append(b, `,"required":`...), names...)
	}
	b = append(b, '}')
	if t.UserOnly {
		b = append(b, `,"annotations":{"audience":["user"]}`...)
	}
	return append(b, '}')
}

// read validates arguments as the firmware does (xiaozhi-esp32 main/mcp_server.cc,
// McpServer::DoToolCall), with its error texts, which differ in firmware 2.5.
func (t *Tool) read(given map[string]json.RawMessage, codes bool) (Args, error) {
	out := Args{}
	for _, a := range t.Args {
		raw, there := given[a.Name]
		value, ok := a.value(raw)
		switch {
		case ok:
		case there && codes:
			return nil, toolError("Invalid type for argument: " + a.Name)
		case a.Default != nil:
			value = a.Default
		case codes:
			return nil, toolError("Missing required argument: " + a.Name)
		default:
			return nil, toolError("Missing valid argument: " + a.Name)
		}
		if n, isInt := value.(int); isInt && a.Bounded {
			if n < a.Min {
				return nil, toolError("Value is below minimum allowed: " + strconv.Itoa(a.Min))
			}
			if n > a.Max {
				return nil, toolError("Value exceeds maximum allowed: " + strconv.Itoa(a.Max))
			}
		}
		out[a.Name] = value
	}
	return out, nil
}

// value parses a value of the argument's type. Fractions are truncated.
func (a *Arg) value(raw json.RawMessage) (any, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, false
	}
	switch a.Type {
	case "integer":
		var f float64
		if json.Unmarshal(raw, &f) != nil {
			return nil, false
		}
		return int(max(-1<<31, min(f, 1<<31-1))), true
	case "boolean":
		var v bool
		err := json.Unmarshal(raw, &v)
		return v, err == nil
	}
	var s string
	ok := json.Unmarshal(raw, &s) == nil
	return s, ok
}
