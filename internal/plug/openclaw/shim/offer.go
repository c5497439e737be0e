package shim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

const (
	// maxPublished is how many tools a gateway takes of one node, by their published
	// names; it leaves out the rest without a word.
	maxPublished = 128
	// maxDescription bounds a description, in characters. Gateways cut it after 1024,
	// wherever that is.
	maxDescription = 1000
	// maxPublishedBytes bounds the list, so that it fits into one frame many times.
	maxPublishedBytes = 4 << 20
	// maxName bounds a node's name, in characters.
	maxName = 80
)

// The commands of nodes besides wire.CommandTool.
const (
	cmdInitialize = "mcp.initialize"
	cmdList       = "mcp.tools.list"
	cmdCall       = "mcp.tools.call"
	cmdNotify     = "mcp.notify"
	cmdAudio      = "audio." // start, stop and set: what the tool audio does
	toolAudio     = "audio"
)

var (
	commonCommands = []string{cmdInitialize, cmdList, cmdCall, cmdNotify, wire.CommandTool}
	audioCommands  = []string{cmdAudio + "start", cmdAudio + "stop", cmdAudio + "set"}
)

// offer is what a node can do. It is not changed after it was made.
type offer struct {
	name     string
	commands []string
	devices  []Device
	names    *wire.Names
	tools    map[wire.ToolRef]*offered
	sorted   []*offered // by their published names

	published      json.RawMessage // parameters of node.pluginTools.update
	count, leftOut int             // of tools that are published, and that are too many
}

// offered is a tool of a device.
type offered struct {
	*tool.Tool
	device *Device
	ref    wire.ToolRef
	name   string // the published one
}

// newOffer makes an offer of some devices. They are kept.
func newOffer(name string, devices []Device) *offer {
	o := &offer{name: clip(name, maxName), commands: slices.Clone(commonCommands), devices: devices, tools: map[wire.ToolRef]*offered{}}
	var refs []wire.ToolRef
	for i := range devices {
		d := &devices[i]
		if d.Audio && !slices.Contains(o.commands, audioCommands[0]) {
			o.commands = append(o.commands, audioCommands...)
		}
		for j := range d.Tools {
			t := &d.Tools[j]
			ref := wire.ToolRef{Server: d.Slug, Tool: t.Name}
			// Gateways trim names, and then nobody would know the tool again.
			if t.Dangerous || t.For == "user" || t.Name == "" || strings.TrimSpace(t.Name) != t.Name || o.tools[ref] != nil {
				continue
			}
			o.tools[ref] = &offered{Tool: t, device: d, ref: ref}
			refs = append(refs, ref)
		}
	}
	o.names = wire.NameTools(refs)
	for ref, t := range o.tools {
		t.name = o.names.Of(ref)
		o.sorted = append(o.sorted, t)
	}
	slices.SortFunc(o.sorted, func(a, b *offered) int { return cmp.Compare(a.name, b.name) })
	o.publish()
	return o
}

// publish makes the list for the gateway.
func (o *offer) publish() {
	list := wire.PluginTools{Tools: []wire.PluginTool{}}
	size := 0
	for _, t := range o.sorted {
		p := wire.PluginTool{
			PluginID: wire.PluginMCP, Name: t.name, Description: cut(cmp.Or(strings.TrimSpace(t.Description), strings.TrimSpace(t.Title), t.Name), maxDescription),
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
	o.published, _ = json.Marshal(list) // of texts and valid JSON
	o.count = len(list.Tools)
	o.leftOut = len(o.sorted) - o.count
}

// sameSurface says whether another offer needs no new connection.
func (o *offer) sameSurface(other *offer) bool {
	return o.name == other.name && slices.Equal(o.commands, other.commands)
}

// has says whether the node declares a command.
func (o *offer) has(command string) bool { return slices.Contains(o.commands, command) }

// find finds a tool by its server and its name there, or by its published name. With
// one device behind the node, no server need be named.
func (o *offer) find(server, name string) *offered {
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

// device finds a device by its slug. With an empty one it is the only one of which
// good is true.
func (o *offer) device(slug string, good func(*Device) bool) *Device {
	var found *Device
	for i := range o.devices {
		d := &o.devices[i]
		switch {
		case slug != "" && d.Slug == slug && good(d):
			return d
		case slug == "" && good(d) && found != nil:
			return nil
		case slug == "" && good(d):
			found = d
		}
	}
	return found
}

// cut makes a text short.
func cut(s string, most int) string {
	r := []rune(strings.ToValidUTF8(s, "\ufffd"))
	if len(r) > most {
		r = append(r[:most-1], '…')
	}
	return string(r)
}

// clip makes a text short, and one line of it.
func clip(s string, most int) string { return cut(strings.Join(strings.Fields(s), " "), most) }
