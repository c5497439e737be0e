package remote

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

const (
	// maxTool limits the JSON of a tool, in bytes. Firmware cannot list a tool longer than a page
	// (wire.MaxList).
	maxTool = 16 << 10
	// maxName limits the name of a tool or of an argument, in bytes.
	maxName = 128
)

var truncatedTooMany = fmt.Sprintf("the board has more than %d tools", maxTools)

// Catalog is what is known about a board's tools. It can be stored as JSON.
type Catalog struct {
	Board    string `json:"board,omitempty"`    // its name for itself, such as "bread-compact-wifi"
	Firmware string `json:"firmware,omitempty"` // the version; empty if unknown
	Build    string `json:"build,omitempty"`    // hash of the firmware; empty if unknown
	// Page is the hash of the first page of the list.
	Page string `json:"page,omitempty"`
	// Tools are in the board's order.
	Tools []tool.Tool `json:"tools,omitempty"`
	// Truncated is why the list may be incomplete; empty if it is complete.
	Truncated string `json:"cut,omitempty"`
	// Skipped counts unusable tools.
	Skipped int `json:"skipped,omitempty"`
}

// setServerInfo stores name and version from the result of initialize.
func (k *Catalog) setServerInfo(result []byte) {
	for in := jsonrpc.Scan(result); in.Next(); {
		if string(in.Key) != "serverInfo" {
			continue
		}
		for info := jsonrpc.Scan(in.Value); info.Next(); {
			text := jsonrpc.Text(info.Value)
			switch {
			case text == "" || len(text) > maxName:
			case string(info.Key) == "name":
				k.Board = text
			case string(info.Key) == "version":
				k.Firmware = text
			}
		}
	}
}

// isCurrent reports whether the catalog is complete and of the same board and firmware version.
// Custom builds may keep the version, so this does not prove that the tools are the same.
func (k *Catalog) isCurrent(now *Catalog) bool {
	return len(k.Tools) > 0 && k.Truncated == "" && k.Firmware != "" && k.Firmware == now.Firmware &&
		k.Board == now.Board
}

// Same reports whether everything but the tools is equal.
func (k *Catalog) Same(as *Catalog) bool {
	return k.Board == as.Board && k.Firmware == as.Firmware && k.Build == as.Build && k.Page == as.Page &&
		k.Truncated == as.Truncated && k.Skipped == as.Skipped
}

func sameTools(a, b []tool.Tool) bool {
	return slices.EqualFunc(a, b, func(x, y tool.Tool) bool { return reflect.DeepEqual(x, y) })
}

func (k *Catalog) find(name string) *tool.Tool {
	i := slices.IndexFunc(k.Tools, func(t tool.Tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &k.Tools[i]
}

// addTools adds the tools of a page. Tools that are present already come from a repeated page.
func (k *Catalog) addTools(list []json.RawMessage) {
	for _, raw := range list {
		t, ok := readTool(raw)
		switch {
		case !ok:
			k.Skipped++
		case k.find(t.Name) != nil:
		case len(k.Tools) == maxTools:
			k.Truncated = truncatedTooMany
			return
		default:
			k.Tools = append(k.Tools, t)
		}
	}
}

// readTool parses a tool; it returns false if the tool is unusable.
func readTool(raw []byte) (t tool.Tool, ok bool) {
	if len(raw) > maxTool {
		return t, false
	}
	var input []byte
	for in := jsonrpc.Scan(raw); in.Next(); {
		switch string(in.Key) {
		case "name":
			t.Name = jsonrpc.Text(in.Value)
		case "title":
			t.Title = jsonrpc.Text(in.Value)
		case "description":
			t.Description = jsonrpc.Text(in.Value)
		case "inputSchema":
			input = in.Value
		case "annotations":
			t.Audience, t.Hints = readAnnotations(in.Value)
		}
	}
	if !isValidName(t.Name) {
		return t, false
	}
	s := readSchema(input)
	t.Input = s.append(nil)
	t.Dangerous = s.hasNetworkAccess() || isDangerous(t.Name) || t.Hints.Destructive != nil && *t.Hints.Destructive
	if t.Hints == (tool.Hints{}) && !t.Dangerous && isGetter(t.Name) {
		t.Hints = tool.ReadOnlyHints()
	}
	return t, true
}

func isValidName(name string) bool {
	control := func(r rune) bool { return r < 0x20 || r == 0x7f }
	return strings.TrimSpace(name) != "" && len(name) <= maxName && !strings.ContainsFunc(name, control)
}

// readAnnotations parses the audience, and the hints that forks of the firmware send.
func readAnnotations(raw []byte) (audience string, h tool.Hints) {
	for in := jsonrpc.Scan(raw); in.Next(); {
		switch string(in.Key) {
		case "audience":
			user, model := false, false
			for _, who := range jsonrpc.Elements(in.Value) {
				user = user || jsonrpc.Text(who) == "user"
				model = model || jsonrpc.Text(who) == "assistant"
			}
			if user && !model {
				audience = "user"
			}
		case "readOnlyHint":
			h.ReadOnly = readBool(in.Value)
		case "destructiveHint":
			h.Destructive = readBool(in.Value)
		case "idempotentHint":
			h.Idempotent = readBool(in.Value)
		case "openWorldHint":
			h.OpenWorld = readBool(in.Value)
		}
	}
	return audience, h
}

func readBool(raw []byte) *bool {
	yes := string(raw) == "true"
	if !yes && string(raw) != "false" {
		return nil
	}
	return &yes
}

// dangerWords are words in the names of tools that can make a board unusable for its owner:
// self.reboot, self.upgrade_firmware (xiaozhi-esp32 main/mcp_server.cc,
// McpServer::AddUserOnlyTools), self.system.reconfigure_wifi (main/boards/).
var dangerWords = []string{"reboot", "restart", "shutdown", "upgrade", "ota", "reconfigure", "factory", "erase"}

func isDangerous(name string) bool {
	for _, word := range words(name) {
		if slices.Contains(dangerWords, word) {
			return true
		}
	}
	return false
}

// words splits a name into words: self.system.reconfigure_wifi, or reconfigureWifi.
func words(name string) []string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		if 'A' <= r && r <= 'Z' && lower {
			b.WriteByte(' ')
		}
		lower = 'a' <= r && r <= 'z'
		switch r {
		case '.', '_', '-', '/', ':':
			r = ' '
		}
		b.WriteRune(r)
	}
	return strings.Fields(strings.ToLower(b.String()))
}

// lastPart returns the name after the last dot, such as set_volume.
func lastPart(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

func isGetter(name string) bool {
	part := lastPart(name)
	return part == "get" || strings.HasPrefix(part, "get_")
}

// TakesPhoto reports whether a tool takes a photo with a camera.
func TakesPhoto(name string) bool { return strings.Contains(lastPart(name), "photo") }

// TakesPicture reports whether a tool takes and uploads a picture, which takes long.
func TakesPicture(name string) bool {
	return TakesPhoto(name) || strings.Contains(lastPart(name), "snapshot")
}
