package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"patchbay/internal/jsonrpc"
)

// Tool is something that a board can be told to do.
type Tool struct {
	Name, Description string
	Args              []Arg
	UserOnly          bool // listed only on demand: for people, not for models
	// Do carries it out, in the board's loop, and returns a text: true, a number, or
	// whatever. It must not call the board. Nil means true.
	Do func(ctx context.Context, args Args) (string, error)

	own func(*Board, context.Context, Args) (string, error)
}

// Arg is an argument of a tool.
type Arg struct {
	Name     string
	Type     string // "integer", "string" or "boolean"
	Default  any    // without one the argument is required
	Bounded  bool   // an integer between Min and Max
	Min, Max int
}

// Args are arguments by name: int, string or bool.
type Args map[string]any

// toolError is an error in the words of the firmware.
type toolError string

func (e toolError) Error() string { return string(e) }

// percent is an argument from 0 to 100.
func percent(name string) Arg { return Arg{Name: name, Type: "integer", Bounded: true, Max: 100} }

func text(name string) Arg { return Arg{Name: name, Type: "string"} }

// standard are the tools of every board with a display. Descriptions are as long as
// the firmware's, for the sake of pages.
var standard = []Tool{
	{Name: "self.get_device_status", Description: "Provides the real-time information of the device, including the current status of the audio speaker, screen, battery, network, etc.\nUse this tool for: \n1. Answering questions about current condition (e.g. what is the current volume of the audio speaker?)\n2. As the first step to control the device (e.g. turn up / down the volume of the audio speaker, etc.)", own: (*Board).status},
	{Name: "self.audio_speaker.set_volume", Description: "Set the volume of the audio speaker. If the current volume is unknown, you must call `self.get_device_status` tool first and then call this tool.", Args: []Arg{percent("volume")},
		own: func(b *Board, _ context.Context, a Args) (string, error) {
			b.alter(func() { b.show.volume = a["volume"].(int) })
			return "true", nil
		}},
	{Name: "self.screen.set_brightness", Description: "Set the brightness of the screen.", Args: []Arg{percent("brightness")},
		own: func(b *Board, _ context.Context, a Args) (string, error) {
			b.alter(func() { b.show.brightness = a["brightness"].(int) })
			return "true", nil
		}},
	{Name: "self.screen.set_theme", Description: "Set the theme of the screen. The theme can be `light` or `dark`.", Args: []Arg{text("theme")},
		own: func(b *Board, _ context.Context, a Args) (string, error) {
			b.alter(func() { b.show.theme = a["theme"].(string) })
			return "true", nil
		}},
}

// camera is the tool of boards with one.
var camera = Tool{Name: "self.camera.take_photo", Description: "Always remember you have a camera. If the user asks you to see something, use this tool to take a photo and then explain it.\nArgs:\n  `question`: The question that you want to ask about the photo.\nReturn:\n  A JSON object that provides the photo information.",
	Args: []Arg{text("question")}, own: (*Board).takePhoto}

// forUsers are the tools for people.
func forUsers() []Tool {
	return []Tool{
		{Name: "self.get_system_info", Description: "Get the system information", UserOnly: true,
			own: func(b *Board, _ context.Context, _ Args) (string, error) { return string(b.about()), nil }},
		{Name: "self.reboot", Description: "Reboot the system", UserOnly: true,
			own: func(b *Board, _ context.Context, _ Args) (string, error) {
				b.alter(func() { b.schedule(func(context.Context) { b.reboot() }) })
				return "true", nil
			}},
		{Name: "self.upgrade_firmware", Description: "Upgrade firmware from a specific URL. This will download and install the firmware, then reboot the device.", UserOnly: true,
			// The description of the argument is its default: that is how the firmware has it.
			Args: []Arg{{Name: "url", Type: "string", Default: "The URL of the firmware binary file to download and install"}},
			own: func(b *Board, ctx context.Context, a Args) (string, error) {
				if b.download(ctx, a["url"].(string)) != nil {
					return "false", nil
				}
				b.alter(func() { b.schedule(func(context.Context) { b.reboot() }) })
				return "true", nil
			}},
		{Name: "self.screen.get_info", Description: "Information about the screen, including width, height, etc.", UserOnly: true,
			own: func(*Board, context.Context, Args) (string, error) {
				return `{"width":320,"height":240,"monochrome":false}`, nil
			}},
		{Name: "self.screen.snapshot", Description: "Snapshot the screen and upload it to a specific URL", UserOnly: true,
			Args: []Arg{text("url"), {Name: "quality", Type: "integer", Default: 80, Bounded: true, Min: 1, Max: 100}}, own: (*Board).snapshot},
		{Name: "self.screen.preview_image", Description: "Preview an image on the screen", UserOnly: true, Args: []Arg{text("url")}, own: (*Board).preview},
		{Name: "self.assets.set_download_url", Description: "Set the download url for the assets", UserOnly: true, Args: []Arg{text("url")}},
	}
}

// tools are the board's tools in the order in which it lists them.
func (b *Board) tools() []Tool {
	out := append([]Tool(nil), standard...)
	if b.opt.Picture != nil {
		out = append(out, camera)
	}
	out = append(out, b.opt.Tools...)
	if b.opt.Profile.UserTools {
		out = append(out, forUsers()...)
	}
	return out
}

// alter changes what the board shows.
func (b *Board) alter(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	b.changed()
}

// status is what self.get_device_status tells.
func (b *Board) status(context.Context, Args) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf(`{"audio_speaker":{"volume":%d},"screen":{"brightness":%d,"theme":%s},"battery":{"level":80,"charging":false},"network":{"type":"wifi","ssid":"home","signal":"strong"},"chip":{"temperature":45.1}}`,
		b.show.volume, b.show.brightness, jsonrpc.AppendText(nil, b.show.theme)), nil
}

// appendTool appends a tool as a board lists it.
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

// read checks arguments as the firmware does, in its words. Firmware 2.5 has other
// ones.
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

// value takes a value of the right type; numbers lose what is behind the point.
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
