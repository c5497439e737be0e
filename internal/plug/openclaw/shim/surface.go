package shim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"patchbay/internal/plug/openclaw/mcpnode"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

const (
	// maxPublished is how many tools a gateway accepts from one node, in order of their published
	// names; it silently drops the rest (src/gateway/node-plugin-tool-snapshot.ts,
	// NODE_PLUGIN_TOOL_MAX_DESCRIPTORS).
	maxPublished = 128
	// maxDescription limits a description, in characters. Gateways cut it after 1024
	// (src/gateway/node-plugin-tool-snapshot.ts, NODE_PLUGIN_TOOL_DESCRIPTION_MAX_LENGTH).
	maxDescription = 1000
	// maxPublishedBytes limits the list, well below the frame limit.
	maxPublishedBytes = 4 << 20
	// maxName limits a node's name, in characters.
	maxName = 80
)

// surface is what a node offers. It is immutable.
type surface struct {
	name     string
	commands []string
	devices  []Device
	servers  []mcpnode.Server // the devices
	names    *wire.Names
	tools    map[wire.ToolRef]*surfaceTool
	sorted   []*surfaceTool // by their published names

	publishedJSON                json.RawMessage // parameters of node.pluginTools.update
	publishedCount, omittedCount int             // published tools, and tools beyond the limit
}

// surfaceTool is a tool of a device.
type surfaceTool struct {
	*tool.Tool
	device *Device
	ref    wire.ToolRef
	name   string // published name
}

// newSurface returns the surface of some devices. It keeps the slice.
func newSurface(name string, devices []Device) *surface {
	o := &surface{name: clip(name, maxName), commands: mcpnode.Commands(), devices: devices,
		tools: map[wire.ToolRef]*surfaceTool{}}
	var refs []wire.ToolRef
	for i := range devices {
		d := &devices[i]
		o.servers = append(o.servers, mcpnode.Server{ID: d.ID, Slug: d.Slug, Title: d.Title, Media: d.Media,
			Session: d.Session})
		for _, name := range d.Media {
			if more := mcpnode.MediaCommands(name); !slices.Contains(o.commands, more[0]) {
				o.commands = append(o.commands, more...)
			}
		}
		for j := range d.Tools {
			t := &d.Tools[j]
			ref := wire.ToolRef{Server: d.Slug, Tool: t.Name}
			// Gateways trim names, and a trimmed name would not be found again
			// (src/gateway/node-plugin-tool-snapshot.ts).
			if t.Dangerous || t.Audience == "user" || t.Name == "" || strings.TrimSpace(t.Name) != t.Name ||
				o.tools[ref] != nil {
				continue
			}
			o.tools[ref] = &surfaceTool{Tool: t, device: d, ref: ref}
			refs = append(refs, ref)
		}
	}
	o.names = wire.NewNames(refs)
	for ref, t := range o.tools {
		t.name = o.names.Name(ref)
		o.sorted = append(o.sorted, t)
	}
	slices.SortFunc(o.sorted, func(a, b *surfaceTool) int { return cmp.Compare(a.name, b.name) })
	o.buildPublished()
	return o
}

// buildPublished builds the list for the gateway.
func (o *surface) buildPublished() {
	list := wire.PluginTools{Tools: []wire.PluginTool{}}
	size := 0
	for _, t := range o.sorted {
		p := wire.PluginTool{
			PluginID: wire.PluginMCP, Name: t.name, Description: truncate(cmp.Or(strings.TrimSpace(t.Description),
				strings.TrimSpace(t.Title), t.Name), maxDescription),
			Command: wire.CommandTool, MCP: &t.ref,
		}
		if in := bytes.TrimSpace(t.Input); len(in) > 0 && in[0] == '{' && json.Valid(in) {
			p.Parameters = in
		}
		size += len(p.Parameters) + len(p.Description) + len(p.Name)
		if len(list.Tools) == maxPublished || size > maxPublishedBytes {
			break
		}
		list.Tools = append(list.Tools, p)
	}
	o.publishedJSON, _ = json.Marshal(list) // of texts and valid JSON
	o.publishedCount = len(list.Tools)
	o.omittedCount = len(o.sorted) - o.publishedCount
}

// isSameSurface reports whether the other surface needs no new connection.
func (o *surface) isSameSurface(other *surface) bool {
	return o.name == other.name && slices.Equal(o.commands, other.commands)
}

// hasCommand reports whether the node declares a command.
func (o *surface) hasCommand(command string) bool { return slices.Contains(o.commands, command) }

// findTool returns a tool by its server and its name there, or by its published name. The server
// may be empty with a single device.
func (o *surface) findTool(server, name string) *surfaceTool {
	if server == "" && len(o.devices) == 1 {
		server = o.devices[0].Slug
	}
	if t := o.tools[wire.ToolRef{Server: server, Tool: name}]; t != nil {
		return t
	}
	if ref, ok := o.names.Tool(name); ok && (server == "" || server == ref.Server) {
		return o.tools[ref]
	}
	return nil
}

// listedTools returns the tools as they are listed.
func (o *surface) listedTools() []mcpnode.Tool {
	list := make([]mcpnode.Tool, len(o.sorted))
	for i, t := range o.sorted {
		list[i] = mcpnode.Tool{Tool: t.Tool, Server: t.ref.Server, Name: t.name}
	}
	return list
}

// truncate shortens a text.
func truncate(s string, most int) string {
	r := []rune(strings.ToValidUTF8(s, "\ufffd"))
	if len(r) > most {
		r = append(r[:most-1], '…')
	}
	return string(r)
}

// clip shortens a text to one line.
func clip(s string, most int) string { return truncate(strings.Join(strings.Fields(s), " "), most) }
