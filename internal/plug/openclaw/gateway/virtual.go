package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/mcpnode"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// Every provider of the hub that is no node appears as a virtual node: its tools are called
// through the commands of package mcpnode.

// kindBoard is the provider kind of voice boards, which are devices and may be asleep.
const kindBoard = "xiaozhi"

// virtualIDs maps virtual node ids to providers.
type virtualIDs struct {
	mu    sync.Mutex
	known map[string]string
}

// maxVirtualIDs limits the cached ids; missing ones are recomputed.
const maxVirtualIDs = 50_000

// virtualID returns the virtual node id of a provider. It is the same on all instances and never
// changes.
func (g *Gateway) virtualID(providerID string) string {
	sum := sha256.Sum256([]byte(g.Hub.Installation + "\x00" + providerID))
	id := hex.EncodeToString(sum[:])
	g.virtualIDs.mu.Lock()
	defer g.virtualIDs.mu.Unlock()
	if g.virtualIDs.known == nil || len(g.virtualIDs.known) >= maxVirtualIDs {
		g.virtualIDs.known = map[string]string{}
	}
	g.virtualIDs.known[id] = providerID
	return id
}

// findVirtual returns the provider behind a virtual node id that was listed before. With search,
// it looks through all providers.
func (g *Gateway) findVirtual(c *conn, id string, search bool) (hub.ProviderRef, bool) {
	if search {
		ctx, cancel := context.WithTimeout(g.ctx, databaseTimeout)
		defer cancel()
		if _, err := g.virtuals(ctx, c); err != nil { // which caches all of them
			return hub.ProviderRef{}, false
		}
	}
	g.virtualIDs.mu.Lock()
	known := g.virtualIDs.known[id]
	g.virtualIDs.mu.Unlock()
	if known == "" {
		return hub.ProviderRef{}, false
	}
	o, held, _ := g.Hub.FindProvider(known)
	o.Held = held
	return o, o.ID != "" && (o.Owner == "" || c.canSee(o.Owner))
}

// virtual is a provider with the tools that a client may see.
type virtual struct {
	hub.ProviderRef
	tools []*hub.RegisteredTool
}

// virtuals returns the providers that appear as nodes to a client.
func (g *Gateway) virtuals(ctx context.Context, c *conn) ([]virtual, error) {
	owners := []string{c.person.ID}
	if c.isAdmin {
		people, err := g.Store.People.All(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range people {
			if p.ID != c.person.ID {
				owners = append(owners, p.ID)
			}
		}
	}
	var out []virtual
	at := map[string]int{}
	for i, owner := range owners {
		for _, o := range g.Hub.Providers(owner) {
			if o.Kind == KindNode || i > 0 && o.Owner != owner {
				continue
			}
			at[o.ID] = len(out)
			out = append(out, virtual{ProviderRef: o})
			g.virtualID(o.ID)
		}
		may, err := g.Hub.View(owner, c.access.Rules)
		if err != nil {
			return nil, err
		}
		for _, t := range may.Tools {
			o := t.Provider()
			if k, ok := at[o.ID]; ok && (i == 0 || o.Owner == owner) {
				out[k].tools = append(out[k].tools, t)
			}
		}
	}
	return out, nil
}

// surface returns the surface of a virtual node. All of it is approved, since its owner
// registered the provider.
func (v *virtual) surface(media []string) wire.Surface {
	commands := mcpnode.Commands()
	for _, name := range media {
		commands = append(commands, mcpnode.MediaCommands(name)...)
	}
	return wire.Surface{Platform: wire.Linux, Family: "Linux", Caps: []string{wire.CapMCP}, Declared: commands,
		Approved: commands}
}

// media returns the media tools of a board that the client may use.
func (v *virtual) media() (names []string) {
	if v.Kind != kindBoard {
		return nil
	}
	for _, name := range mcpnode.MediaTools {
		if slices.ContainsFunc(v.tools, func(t *hub.RegisteredTool) bool { return t.Tool.Name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// policyOf returns the policy for a virtual node: what it declares needs no approval, but may be
// denied.
func (g *Gateway) policyOf(s *wire.Surface) wire.Policy {
	return wire.Policy{Allow: s.Declared, Deny: g.Deny}
}

// virtualRow returns a virtual node in the format of node.list, with its tools if detailed.
func (g *Gateway) virtualRow(v *virtual, detailed bool) wire.Node {
	s := v.surface(v.media())
	row := wire.Node{
		NodeID: g.virtualID(v.ID), DisplayName: v.Title, Platform: s.Platform, Version: g.Version,
		ClientID: wire.ClientNode, ClientMode: wire.ModeNode,
		DeviceFamily: s.Family, Caps: s.Caps, Commands: g.policyOf(&s).Effective(&s), PluginTools: []wire.PluginTool{},
		Approval: wire.Approved,
		Paired:   true, Connected: v.Held || v.Kind != kindBoard,
	}
	if row.DisplayName == "" {
		row.DisplayName = v.ID
	}
	slices.Sort(row.Commands)
	if !detailed {
		return row
	}
	refs := make([]wire.ToolRef, len(v.tools))
	for i, t := range v.tools {
		refs[i] = wire.ToolRef{Server: v.server(), Tool: t.Tool.Name}
	}
	names := wire.NewNames(refs)
	for i, t := range v.tools {
		row.PluginTools = append(row.PluginTools, wire.PluginTool{
			PluginID: wire.PluginMCP, Name: pluginToolName(t, refs[i], names),
			Description: cmp.Or(t.Description, t.Title, t.Tool.Name), Parameters: t.Input, Command: wire.CommandTool,
			MCP: &refs[i],
		})
	}
	return row
}

// pluginToolName returns the name of a tool for models: the owner's own, if it has one that no
// other tool of the node has.
func pluginToolName(t *hub.RegisteredTool, ref wire.ToolRef, names *wire.Names) string {
	if _, taken := names.Tool(t.Name); t.Name != t.OriginalName() && !taken {
		return t.Name
	}
	return names.Name(ref)
}

// server returns the name of the MCP server behind a virtual node.
func (v *virtual) server() string {
	if v.Slug != "" {
		return v.Slug
	}
	return v.ID
}

// invokeVirtual executes a command of a virtual node.
func (g *Gateway) invokeVirtual(ctx context.Context, c *conn, o hub.ProviderRef,
	p *wire.Invoke) (payload []byte, sent bool, e *wire.Error) {
	tools, e := g.visibleTools(c, o)
	if e != nil {
		return nil, false, e
	}
	v := &virtual{o, tools}
	media := v.media()
	s := v.surface(media)
	policy := g.policyOf(&s)
	if e := policy.Refuse(&s, p.Command, c.scopes); e != nil {
		return nil, false, e
	}
	if limit := p.Timeout(); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	value, failed := g.mcpNode(c, v, media).Run(ctx, p.Command, p.Params)
	if failed != nil {
		return nil, failed.Sent, nodeFailure(failed)
	}
	r := wire.InvokeResult{NodeID: p.NodeID, Payload: value}
	return r.AppendInvoked(nil, p.Command), true, nil
}

// mcpNode returns a virtual node for one command of a client.
func (g *Gateway) mcpNode(c *conn, v *virtual, media []string) *mcpnode.Node {
	call := func(ctx context.Context, _ *mcpnode.Server, name string, args json.RawMessage) (*tool.Result, error) {
		return g.Hub.Call(ctx, c.caller(v.Owner), v.toolName(name), &tool.Call{Args: args})
	}
	return &mcpnode.Node{
		Title: v.Title, Version: g.Version,
		Servers: []mcpnode.Server{{ID: v.ID, Slug: v.server(), Title: v.Title, Media: media,
			Session: v.Kind == kindBoard}},
		Tools: func() []mcpnode.Tool {
			tools := make([]mcpnode.Tool, len(v.tools))
			for i, t := range v.tools {
				tools[i] = mcpnode.Tool{Tool: t.Tool, Server: v.server(), Name: t.Tool.Name}
			}
			slices.SortFunc(tools, mcpnode.ByName)
			return tools
		},
		Call: call, CallMedia: call,
		Message: func(ctx context.Context, _ *mcpnode.Server, message string,
			args json.RawMessage) (*tool.Result, error) {
			return g.Hub.SendMessage(ctx, c.caller(v.Owner), v.ID, message, &tool.Call{Args: args})
		},
	}
}

// toolName returns the name in the hub of a tool that was called by its own name or by one of its
// names there. The hub rejects an unknown name with a message.
func (v *virtual) toolName(name string) string {
	full := v.FullName(name)
	for _, t := range v.tools {
		if t.Tool.Name == name {
			return t.Name
		}
		if t.Name == name || t.OriginalName() == name {
			full = t.Name
		}
	}
	return full
}

// millis returns a time in Unix milliseconds; 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
