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

	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// Whatever is plugged into the board and is no node appears as one: its tools are
// called by the commands that bridges between OpenClaw and MCP have.
const (
	cmdInitialize = "mcp.initialize"
	cmdList       = "mcp.tools.list"
	cmdCall       = "mcp.tools.call"
	cmdNotify     = "mcp.notify"
	cmdAudio      = "audio." // start, stop and set: what the tool audio does
	toolAudio     = "audio"
)

// kindBoard is the kind of outlets of voice boards, which are devices: they may be
// asleep.
const kindBoard = "xiaozhi"

var (
	virtualCommands = []string{cmdInitialize, cmdNotify, cmdCall, wire.CommandTool, cmdList}
	audioCommands   = []string{cmdAudio + "set", cmdAudio + "start", cmdAudio + "stop"}
)

const (
	// toolsPerPage bounds a page of mcp.tools.list.
	toolsPerPage = 100
	// mcpVersion is the revision of MCP that the results have.
	mcpVersion = "2025-11-25"
)

// outletIDs remember which outlet a virtual node's id is made of.
type outletIDs struct {
	mu    sync.Mutex
	known map[string]string
}

// maxOutletIDs bounds what is remembered; it is found out again.
const maxOutletIDs = 50_000

// virtualID is the id of the node that an outlet appears as. It is the same on all
// instances, for ever.
func (g *Gateway) virtualID(outlet string) string {
	sum := sha256.Sum256([]byte(g.Hub.Installation + "\x00" + outlet))
	id := hex.EncodeToString(sum[:])
	g.outlets.mu.Lock()
	defer g.outlets.mu.Unlock()
	if g.outlets.known == nil || len(g.outlets.known) >= maxOutletIDs {
		g.outlets.known = map[string]string{}
	}
	g.outlets.known[id] = outlet
	return id
}

// outlet finds the outlet that appears as a node to a client, if its id was told
// already. With search it is looked for among all.
func (g *Gateway) outlet(c *conn, id string, search bool) (board.Outlet, bool) {
	if search {
		ctx, cancel := context.WithTimeout(g.ctx, databaseLimit)
		defer cancel()
		if _, err := g.virtuals(ctx, c); err != nil { // which remembers all of them
			return board.Outlet{}, false
		}
	}
	g.outlets.mu.Lock()
	known := g.outlets.known[id]
	g.outlets.mu.Unlock()
	if known == "" {
		return board.Outlet{}, false
	}
	o, held, _ := g.Hub.Plugged(known)
	o.Held = held
	return o, o.ID != "" && (o.Owner == "" || c.sees(o.Owner))
}

// virtual is an outlet with the tools that a client sees of it.
type virtual struct {
	board.Outlet
	tools []*board.Offered
}

// virtuals lists the outlets that appear as nodes to a client.
func (g *Gateway) virtuals(ctx context.Context, c *conn) ([]virtual, error) {
	owners := []string{c.person.ID}
	if c.admin {
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
		for _, o := range g.Hub.Outlets(owner) {
			if o.Kind == KindNode || i > 0 && o.Owner != owner {
				continue
			}
			at[o.ID] = len(out)
			out = append(out, virtual{Outlet: o})
			g.virtualID(o.ID)
		}
		may, err := g.Hub.View(owner, c.access.Rules)
		if err != nil {
			return nil, err
		}
		for _, t := range may.Tools {
			o := t.Outlet()
			if k, ok := at[o.ID]; ok && (i == 0 || o.Owner == owner) {
				out[k].tools = append(out[k].tools, t)
			}
		}
	}
	return out, nil
}

// surfaceOf is what a virtual node can do. All of it is approved: its owner has
// plugged it in.
func (v *virtual) surface() wire.Surface {
	commands := slices.Clone(virtualCommands)
	if v.Kind == kindBoard && slices.ContainsFunc(v.tools, func(t *board.Offered) bool { return t.Tool.Name == toolAudio }) {
		commands = append(audioCommands, commands...)
	}
	return wire.Surface{Platform: wire.Linux, Family: "Linux", Caps: []string{wire.CapMCP}, Declared: commands, Approved: commands}
}

// policyOf is the policy for a virtual node: what it declares needs nobody's leave, but
// may be forbidden.
func (g *Gateway) policyOf(s *wire.Surface) wire.Policy {
	return wire.Policy{Allow: s.Declared, Deny: g.Deny}
}

// row is a virtual node as node.list tells it, with its tools if they are wanted.
func (g *Gateway) virtualRow(v *virtual, detailed bool) wire.Node {
	s := v.surface()
	row := wire.Node{
		NodeID: g.virtualID(v.ID), DisplayName: v.Title, Platform: s.Platform, Version: g.Version, ClientID: wire.ClientNode, ClientMode: wire.ModeNode,
		DeviceFamily: s.Family, Caps: s.Caps, Commands: g.policyOf(&s).Effective(&s), PluginTools: []wire.PluginTool{}, Approval: wire.Approved,
		Paired: true, Connected: v.Held || v.Kind != kindBoard,
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
	names := wire.NameTools(refs)
	for i, t := range v.tools {
		row.PluginTools = append(row.PluginTools, wire.PluginTool{
			PluginID: wire.PluginMCP, Name: names.Of(refs[i]), Description: cmp.Or(t.Description, t.Title, t.Tool.Name), Parameters: t.Input, Command: wire.CommandTool, MCP: &refs[i],
		})
	}
	return row
}

// server is what the MCP server behind a virtual node is called.
func (v *virtual) server() string {
	if v.Slug != "" {
		return v.Slug
	}
	return v.ID
}

// invokeOutlet carries out a command of a virtual node.
func (g *Gateway) invokeOutlet(ctx context.Context, c *conn, o board.Outlet, p *wire.Invoke) (payload []byte, sent bool, e *wire.Error) {
	tools, e := g.viewOf(c, o)
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
		// Devices and servers are told nothing that they have not asked for.
		value = json.RawMessage(`{"delivered":false}`)
	case cmdCall:
		var a struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if json.Unmarshal(p.Params, &a) != nil || a.Name == "" {
			e = badParams("name is missing: which tool?")
			break
		}
		value, sent, e = g.callTool(ctx, c, v, a.Name, a.Arguments)
	case wire.CommandTool:
		a, err := wire.ParseToolCall(p.Params)
		switch {
		case err != nil:
			e = badParams(err.Error())
		case a.Server != v.server() && a.Server != v.ID && !strings.EqualFold(a.Server, v.Title):
			e = wire.NodeFailed(&wire.NodeError{Code: wire.NodeNoServer, Message: "there is no server " + a.Server + " behind this node, but " + v.server()})
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

// badParams is told who calls a tool without saying how.
func badParams(why string) *wire.Error {
	return wire.NodeFailed(&wire.NodeError{Code: "-32602", Message: why})
}

// audioArgs are the arguments of the tool audio for a command such as audio.set.
func audioArgs(p *wire.Invoke) json.RawMessage {
	args := map[string]json.RawMessage{}
	if json.Unmarshal(p.Params, &args) != nil || args == nil {
		args = map[string]json.RawMessage{}
	}
	args["action"] = encoded(strings.TrimPrefix(p.Command, cmdAudio))
	return encoded(args)
}

// initialize greets in the name of an outlet.
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

// listed is a tool as mcp.tools.list tells it, by its own name.
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
		return nil, badParams("cursor is a text")
	}
	slices.SortFunc(v.tools, func(a, b *board.Offered) int { return strings.Compare(a.Tool.Name, b.Tool.Name) })
	from := 0
	if p.Cursor != "" {
		last, err := base64.RawURLEncoding.DecodeString(p.Cursor)
		if err != nil || len(last) == 0 {
			return nil, badParams("this cursor is not one of ours")
		}
		i, found := slices.BinarySearchFunc(v.tools, string(last), func(t *board.Offered, name string) int { return strings.Compare(t.Tool.Name, name) })
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

// callTool calls a tool of an outlet, by its own name or by the one that the board
// gives it.
func (g *Gateway) callTool(ctx context.Context, c *conn, v *virtual, name string, args json.RawMessage) (json.RawMessage, bool, *wire.Error) {
	full := v.FullName(name) // which the board refuses in words, if it is none
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
			return nil, true, timedOut
		}
		e := refusedBy(tool.AsError(err))
		_, sent, _ := wire.NodeErrorOf(e)
		return nil, sent, e
	}
	if res.Need != nil {
		return nil, true, wire.NodeFailed(&wire.NodeError{Code: "MCP_ERROR", Message: "the tool wants to ask back, which cannot be done here"})
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

// millis is a time on the wire; 0 if it never was.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
