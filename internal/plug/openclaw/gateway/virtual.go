package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// Every provider of the hub that is no node appears as a virtual node: its tools are called
// through the commands that bridges between OpenClaw and MCP use.
const (
	cmdInitialize = "mcp.initialize"
	cmdList       = "mcp.tools.list"
	cmdCall       = "mcp.tools.call"
	cmdNotify     = "mcp.notify"
	cmdAudio      = "audio." // start, stop and set: the actions of the tool audio
	toolAudio     = "audio"
)

// kindBoard is the provider kind of voice boards, which are devices and may be asleep.
const kindBoard = "xiaozhi"

var (
	virtualCommands = []string{cmdInitialize, cmdNotify, cmdCall, wire.CommandTool, cmdList}
	audioCommands   = []string{cmdAudio + "set", cmdAudio + "start", cmdAudio + "stop"}
)

const (
	// toolsPerPage limits a page of mcp.tools.list.
	toolsPerPage = 100
	// mcpVersion is the MCP revision of the results.
	mcpVersion = "2025-11-25"
)

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
func (v *virtual) surface() wire.Surface {
	commands := slices.Clone(virtualCommands)
	if v.Kind == kindBoard && slices.ContainsFunc(v.tools,
		func(t *hub.RegisteredTool) bool { return t.Tool.Name == toolAudio }) {
		commands = append(audioCommands, commands...)
	}
	return wire.Surface{Platform: wire.Linux, Family: "Linux", Caps: []string{wire.CapMCP}, Declared: commands,
		Approved: commands}
}

// policyOf returns the policy for a virtual node: what it declares needs no approval, but may be
// denied.
func (g *Gateway) policyOf(s *wire.Surface) wire.Policy {
	return wire.Policy{Allow: s.Declared, Deny: g.Deny}
}

// virtualRow returns a virtual node in the format of node.list, with its tools if detailed.
func (g *Gateway) virtualRow(v *virtual, detailed bool) wire.Node {
	s := v.surface()
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
			PluginID: wire.PluginMCP, Name: names.Name(refs[i]),
			Description: cmp.Or(t.Description, t.Title, t.Tool.Name), Parameters: t.Input, Command: wire.CommandTool,
			MCP: &refs[i],
		})
	}
	return row
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
	s := v.surface()
	policy := g.policyOf(&s)
	if e := policy.Refuse(&s, p.Command, c.scopes); e != nil {
		return nil, false, e
	}
	if limit := p.Timeout(); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	var value json.RawMessage
	switch p.Command {
	case cmdInitialize:
		value = g.initialize(v)
	case cmdList:
		value, e = listTools(v, p.Params)
	case cmdNotify:
		// Devices and servers get no unsolicited messages.
		value = json.RawMessage(`{"delivered":false}`)
	case cmdCall:
		var a struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if json.Unmarshal(p.Params, &a) != nil || a.Name == "" {
			e = errBadParams("name is missing: which tool?")
			break
		}
		value, sent, e = g.callTool(ctx, c, v, a.Name, a.Arguments)
	case wire.CommandTool:
		a, err := wire.ParseToolCall(p.Params)
		switch {
		case err != nil:
			e = errBadParams(err.Error())
		case a.Server != v.server() && a.Server != v.ID && !strings.EqualFold(a.Server, v.Title):
			e = wire.NodeFailed(&wire.NodeError{Code: wire.NodeNoServer,
				Message: "there is no server " + a.Server + " behind this node, but " + v.server()})
		default:
			value, sent, e = g.callTool(ctx, c, v, a.Tool, a.Arguments)
		}
	default: // audio.…
		value, sent, e = g.callTool(ctx, c, v, toolAudio, audioArgs(p))
	}
	if e != nil {
		return nil, sent, e
	}
	r := wire.InvokeResult{NodeID: p.NodeID, Payload: value}
	return r.AppendInvoked(nil, p.Command), true, nil
}

// errBadParams returns the error for invalid parameters of a tool call.
func errBadParams(why string) *wire.Error {
	return wire.NodeFailed(&wire.NodeError{Code: "-32602", Message: why})
}

// audioArgs returns the arguments of the tool audio for a command such as audio.set.
func audioArgs(p *wire.Invoke) json.RawMessage {
	args := map[string]json.RawMessage{}
	if json.Unmarshal(p.Params, &args) != nil || args == nil {
		args = map[string]json.RawMessage{}
	}
	args["action"] = encoded(strings.TrimPrefix(p.Command, cmdAudio))
	return encoded(args)
}

// initialize answers MCP's initialize on behalf of a provider.
func (g *Gateway) initialize(v *virtual) json.RawMessage {
	type info struct {
		Name    string `json:"name"`
		Title   string `json:"title,omitempty"`
		Version string `json:"version"`
	}
	return encoded(struct {
		Version string          `json:"protocolVersion"`
		Info    info            `json:"serverInfo"`
		Can     json.RawMessage `json:"capabilities"`
	}{mcpVersion, info{v.server(), v.Title, g.Version}, json.RawMessage(`{"tools":{}}`)})
}

// listed is a tool in the format of mcp.tools.list, with its own name.
type listed struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	Hints       tool.Hints      `json:"annotations,omitzero"`
}

func listTools(v *virtual, params json.RawMessage) (json.RawMessage, *wire.Error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if len(params) > 0 && params[0] == '{' && json.Unmarshal(params, &p) != nil {
		return nil, errBadParams("cursor is a text")
	}
	slices.SortFunc(v.tools, func(a, b *hub.RegisteredTool) int { return strings.Compare(a.Tool.Name, b.Tool.Name) })
	from := 0
	if p.Cursor != "" {
		last, err := base64.RawURLEncoding.DecodeString(p.Cursor)
		if err != nil || len(last) == 0 {
			return nil, errBadParams("this cursor is not one of ours")
		}
		i, found := slices.BinarySearchFunc(v.tools, string(last),
			func(t *hub.RegisteredTool, name string) int { return strings.Compare(t.Tool.Name, name) })
		if from = i; found {
			from++
		}
	}
	page := v.tools[from:min(len(v.tools), from+toolsPerPage)]
	out := struct {
		Tools []listed `json:"tools"`
		Next  string   `json:"nextCursor,omitempty"`
	}{Tools: make([]listed, len(page))}
	for i, t := range page {
		out.Tools[i] = listed{t.Tool.Name, t.Title, t.Description, t.Input, t.Output, t.Hints}
		if len(t.Input) == 0 {
			out.Tools[i].Input = anyObject
		}
	}
	if from+len(page) < len(v.tools) {
		out.Next = base64.RawURLEncoding.EncodeToString([]byte(page[len(page)-1].Tool.Name))
	}
	return encoded(out), nil
}

// callTool calls a tool of a provider, by its own name or by its name in the hub.
func (g *Gateway) callTool(ctx context.Context, c *conn, v *virtual, name string,
	args json.RawMessage) (json.RawMessage, bool, *wire.Error) {
	full := v.FullName(name) // the hub rejects an unknown name with a message
	for _, t := range v.tools {
		if t.Tool.Name == name {
			full = t.Name
			break
		}
		if t.Name == name {
			full = name
		}
	}
	call := tool.Call{Args: args}
	res, err := g.Hub.Call(ctx, c.caller(v.Owner), full, &call)
	if err != nil {
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return nil, true, errTimedOut
		}
		e := fromToolError(tool.AsError(err))
		_, sent, _ := wire.NodeErrorOf(e)
		return nil, sent, e
	}
	if res.InputRequired != nil {
		return nil, true, wire.NodeFailed(&wire.NodeError{Code: "MCP_ERROR",
			Message: "the tool wants to ask back, which cannot be done here"})
	}
	out := struct {
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    bool            `json:"isError"`
		Meta       json.RawMessage `json:"_meta,omitempty"`
	}{res.Content, res.Structured, res.IsError, res.Meta}
	if len(out.Content) == 0 {
		out.Content = json.RawMessage(`[]`)
	}
	return encoded(out), true, nil
}

// millis returns a time in Unix milliseconds; 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
