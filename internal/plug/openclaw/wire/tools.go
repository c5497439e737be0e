package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// MaxToolName limits the name of a published tool, in characters
// (src/gateway/node-plugin-tool-snapshot.ts, NODE_PLUGIN_TOOL_NAME_RE).
const MaxToolName = 64

// PluginTool is a tool that a node publishes to the agents of a gateway.
type PluginTool struct {
	PluginID    string          `json:"pluginId"`
	Name        string          `json:"name"` // see [IsValidToolName]
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // a JSON schema, an object
	Command     string          `json:"command,omitempty"`    // mostly [CommandTool]
	MCP         *ToolRef        `json:"mcp,omitempty"`
}

// PluginMCP is the plugin id of tools of MCP servers behind a node. OpenClaw requires CommandTool
// and MCP for them (src/gateway/node-plugin-tool-snapshot.ts).
const PluginMCP = "node-mcp"

// ToolRef identifies a tool of a server behind a node.
type ToolRef struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
}

// PluginTools are the parameters of node.pluginTools.update. They replace the node's published
// tools, and are dropped when it disconnects (docs/nodes/mcp-and-skills.md, "Node-hosted MCP
// servers").
type PluginTools struct {
	Tools []PluginTool `json:"tools"`
}

// ParsePluginTools parses the parameters. The error is the response to the node.
func ParsePluginTools(params []byte) (PluginTools, *Error) {
	var p PluginTools
	if e := ShapePluginTools.Invalid(params); e != nil {
		return p, e
	}
	if json.Unmarshal(params, &p) != nil {
		return PluginTools{}, Invalid("invalid " + MethodPluginTools + " params")
	}
	return p, nil
}

// IsValidToolName reports whether a published tool may have this name.
func IsValidToolName(name string) bool {
	if name == "" || len(name) > MaxToolName || !isLetter(name[0]) {
		return false
	}
	for i := range len(name) {
		if !isLegal(name[i]) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isLegal(c byte) bool { return isLetter(c) || '0' <= c && c <= '9' || c == '_' || c == '-' }

// Names maps tools to names that gateways accept, and back. It is immutable.
type Names struct {
	byRef  map[ToolRef]string
	byName map[string]ToolRef
}

// NewNames names tools as OpenClaw's node host does: the server, an underscore, the tool, with
// underscores for characters that are not allowed. Tools that would share a name, and names that
// are too long, end in part of a hash. The names depend on the set of tools, but not on their
// order; duplicates count once.
func NewNames(refs []ToolRef) *Names {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b ToolRef) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool))
	})
	refs = slices.Compact(refs)
	wants := map[string]int{}
	for _, r := range refs {
		wants[plainName(r)]++
	}
	n := &Names{map[ToolRef]string{}, map[string]ToolRef{}}
	take := func(r ToolRef, name string) bool {
		if _, taken := n.byName[name]; taken {
			return false
		}
		n.byRef[r], n.byName[name] = name, r
		return true
	}
	// First those that need no hash: their names are certainly free.
	for _, r := range refs {
		if name := plainName(r); wants[name] == 1 && len(name) <= MaxToolName {
			take(r, name)
		}
	}
	for _, r := range refs {
		if n.byRef[r] != "" {
			continue
		}
		// Repeats only if a tool was named to collide with another's hash.
		for i := 0; !take(r, hashedName(r, i)); i++ {
		}
	}
	return n
}

// Name returns the name of a tool, or "".
func (n *Names) Name(r ToolRef) string { return n.byRef[r] }

// Tool returns the tool with a name.
func (n *Names) Tool(name string) (ToolRef, bool) {
	r, ok := n.byName[name]
	return r, ok
}

func plainName(r ToolRef) string {
	name := strings.Map(func(c rune) rune {
		if c < 0x80 && isLegal(byte(c)) {
			return c
		}
		return '_'
	}, r.Server+"_"+r.Tool)
	if !isLetter(name[0]) {
		name = "t" + name
	}
	return name
}

func hashedName(r ToolRef, attempt int) string {
	sum := sha256.Sum256([]byte(r.Server + "\x00" + r.Tool + "\x00" + strconv.Itoa(attempt)))
	hash := hex.EncodeToString(sum[:4])
	name := plainName(r)
	return name[:min(len(name), MaxToolName-len(hash)-1)] + "_" + hash
}
