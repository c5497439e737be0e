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
	// maxTool bounds a tool as it is listed, in bytes. What is longer than a page
	// cannot be listed by firmware anyway.
	maxTool = 16 << 10
	// maxName bounds the name of a tool or of an argument, in bytes.
	maxName = 128
)

var cutMany = fmt.Sprintf("the board has more than %d tools", maxTools)

// Catalog is what is known about a board. It can be kept as JSON.
type Catalog struct {
	Board    string `json:"board,omitempty"`    // what it calls itself, such as "bread-compact-wifi"
	Firmware string `json:"firmware,omitempty"` // the version; empty if it did not tell
	Build    string `json:"build,omitempty"`    // the hash of its firmware; empty if it did not tell
	// Page is the hash of the first page of the list.
	Page string `json:"page,omitempty"`
	// Tools are in the order of the board.
	Tools []tool.Tool `json:"tools,omitempty"`
	// Cut says why there may be more tools than these; empty if these are all.
	Cut string `json:"cut,omitempty"`
	// Skipped counts tools that cannot be used.
	Skipped int `json:"skipped,omitempty"`
}

// greeted takes over what a board says about itself.
func (k *Catalog) greeted(result []byte) {
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

// stillGood reports whether a list of the same firmware is complete, as far as its version
// tells: whoever builds firmware need not change that.
func (k *Catalog) stillGood(now *Catalog) bool {
	return len(k.Tools) > 0 && k.Cut == "" && k.Firmware != "" && k.Firmware == now.Firmware && k.Board == now.Board
}

// Same reports whether everything but the tools themselves is the same.
func (k *Catalog) Same(as *Catalog) bool {
	return k.Board == as.Board && k.Firmware == as.Firmware && k.Build == as.Build && k.Page == as.Page &&
		k.Cut == as.Cut && k.Skipped == as.Skipped
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

// take adds the tools of a page. Those that are there already come from a page that
// was sent twice.
func (k *Catalog) take(list []json.RawMessage) {
	for _, raw := range list {
		t, ok := readTool(raw)
		switch {
		case !ok:
			k.Skipped++
		case k.find(t.Name) != nil:
		case len(k.Tools) == maxTools:
			k.Cut = cutMany
			return
		default:
			k.Tools = append(k.Tools, t)
		}
	}
}

// readTool reads a tool as its board lists it, if it can be used.
func readTool(raw []byte) (t tool.Tool, ok bool) {
	if len(raw) > maxTool {
		return t, false
	}
	var input []byte
	for in := jsonrpc.Scan(raw); in.Next(); {
		switch string(in.Key) {
		case "name":
			t.Name = jsonrpc.Text(in.Value)
		case "description":
			t.Description = jsonrpc.Text(in.Value)
		case "inputSchema":
			input = in.Value
		case "annotations":
			t.For, t.Hints = readAnnotations(in.Value)
		}
	}
	if !goodName(t.Name) {
		return t, false
	}
	s := readSchema(input)
	t.Input = s.append(nil)
	t.Dangerous = s.reaches() || dangerous(t.Name) || t.Hints.Destructive != nil && *t.Hints.Destructive
	if t.Hints == (tool.Hints{}) && !t.Dangerous && onlyGets(t.Name) {
		t.Hints = tool.Reads()
	}
	return t, true
}

func goodName(name string) bool {
	control := func(r rune) bool { return r < 0x20 || r == 0x7f }
	return strings.TrimSpace(name) != "" && len(name) <= maxName && !strings.ContainsFunc(name, control)
}

// readAnnotations reads whom a tool is for, and the hints that forks of the
// firmware give.
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

// dangerWords are parts of the names of tools that take a board away from its
// owner: self.reboot, self.upgrade_firmware, self.system.reconfigure_wifi.
var dangerWords = []string{"reboot", "restart", "shutdown", "upgrade", "ota", "reconfigure", "factory", "erase"}

func dangerous(name string) bool {
	for _, word := range words(name) {
		if slices.Contains(dangerWords, word) {
			return true
		}
	}
	return false
}

// words takes a name apart: self.system.reconfigure_wifi, or reconfigureWifi.
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

// lastPart is what a tool does, without what it does it with: set_volume.
func lastPart(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

func onlyGets(name string) bool {
	part := lastPart(name)
	return part == "get" || strings.HasPrefix(part, "get_")
}

// TakesPicture says whether a tool of a board makes and uploads a picture, which takes
// long.
func TakesPicture(name string) bool {
	part := lastPart(name)
	return strings.Contains(part, "photo") || strings.Contains(part, "snapshot")
}
