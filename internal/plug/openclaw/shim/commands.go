package shim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

const (
	// mcpVersion is the revision of MCP that results have.
	mcpVersion = "2025-11-25"
	// toolsPerPage bounds a page of mcp.tools.list.
	toolsPerPage = 100
	// program is how calls are told apart in the audit trail.
	program = "openclaw"
)

// caller carries out commands with what a node offers at the moment.
type caller struct {
	source  Source
	spec    Spec
	offer   *offer
	version string
}

// command carries a command out. What it returns is JSON.
func (c *caller) command(ctx context.Context, r *wire.InvokeRequest) (json.RawMessage, *wire.NodeError) {
	if !c.offer.has(r.Command) {
		return nil, &wire.NodeError{Code: wire.NodeUnavailable, Message: "command not supported"}
	}
	params := json.RawMessage(bytes.TrimSpace(r.Params))
	switch r.Command {
	case wire.CommandTool:
		return c.published(ctx, params)
	case cmdInitialize:
		return c.initialize(params)
	case cmdList:
		return c.list(params)
	case cmdCall:
		return c.call(ctx, params)
	case cmdNotify:
		// Devices are told nothing that they have not asked for.
		return json.RawMessage(`{"delivered":false}`), nil
	}
	return c.audio(ctx, strings.TrimPrefix(r.Command, cmdAudio), params)
}

func badParams(why string) *wire.NodeError { return &wire.NodeError{Code: codeBadParams, Message: why} }

// noServer is told who names a device that is not behind the node.
func (c *caller) noServer(server string) *wire.NodeError {
	slugs := make([]string, len(c.offer.devices))
	for i, d := range c.offer.devices {
		slugs[i] = d.Slug
	}
	message := "there is no server " + clip(server, maxName) + " behind this node"
	if len(slugs) > 0 {
		message += ", but " + strings.Join(slugs, ", ")
	}
	return &wire.NodeError{Code: wire.NodeNoServer, Message: message}
}

func (c *caller) known(server string) bool {
	return slices.ContainsFunc(c.offer.devices, func(d Device) bool { return d.Slug == server })
}

// published calls a tool as agents do.
func (c *caller) published(ctx context.Context, params json.RawMessage) (json.RawMessage, *wire.NodeError) {
	p, err := wire.ParseToolCall(params)
	switch {
	case err != nil:
		return nil, badParams(err.Error())
	case !c.known(p.Server):
		return nil, c.noServer(p.Server)
	}
	return c.do(ctx, c.offer.find(p.Server, p.Tool), p.Tool, p.Arguments)
}

// asked are the parameters of the other commands.
type asked struct {
	Server    string          `json:"server"` // a slug, where there are several devices
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Cursor    string          `json:"cursor"`
}

func (c *caller) read(params json.RawMessage) (asked, *wire.NodeError) {
	var a asked
	if len(params) > 0 && json.Unmarshal(params, &a) != nil {
		return a, badParams("the parameters are an object; server, name and cursor are texts")
	}
	if a.Server != "" && !c.known(a.Server) {
		return a, c.noServer(a.Server)
	}
	return a, nil
}

// call calls a tool by its own name, or by the published one.
func (c *caller) call(ctx context.Context, params json.RawMessage) (json.RawMessage, *wire.NodeError) {
	a, e := c.read(params)
	if e == nil && a.Name == "" {
		e = badParams("name is missing: which tool?")
	}
	if e == nil && len(a.Arguments) > 0 && a.Arguments[0] != '{' && string(a.Arguments) != "null" {
		e = badParams("arguments are an object")
	}
	if e != nil {
		return nil, e
	}
	return c.do(ctx, c.offer.find(a.Server, a.Name), a.Name, a.Arguments)
}

// do calls a tool, if there is one.
func (c *caller) do(ctx context.Context, t *offered, name string, args json.RawMessage) (json.RawMessage, *wire.NodeError) {
	if t == nil {
		return trouble("There is no tool " + clip(name, 2*maxName) + ". " + cmdList + " tells which there are."), nil
	}
	return c.pass(ctx, Call{Device: t.device.ID, Tool: t.Name, Args: args, Program: program})
}

// pass has the source carry out a call, and makes what came of it what gateways get.
func (c *caller) pass(ctx context.Context, call Call) (json.RawMessage, *wire.NodeError) {
	if len(call.Args) == 0 || string(call.Args) == "null" {
		call.Args = []byte(`{}`)
	}
	res, err := c.source.Call(ctx, c.spec, call)
	if err != nil {
		return failure(ctx, err)
	}
	if res == nil {
		res = &tool.Result{}
	}
	if res.Need != nil {
		return nil, &wire.NodeError{Code: codeMCP, Message: "the tool wants to ask back, which cannot be done here"}
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
	data, err := json.Marshal(out)
	if err != nil {
		return nil, &wire.NodeError{Code: codeMCP, Message: "the device's answer cannot be used"}
	}
	return data, nil
}

// failure is what a gateway gets for a call that brought no result. What a model can
// do something about is a result that says so.
func failure(ctx context.Context, err error) (json.RawMessage, *wire.NodeError) {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		return nil, &wire.NodeError{Code: wire.NodeTimeout, Message: "the device did not answer in time"}
	case cause != nil:
		return nil, &wire.NodeError{Code: codeAborted, Message: "the call was called off"}
	}
	e := tool.AsError(err)
	told := cmp.Or(e.Told, "The device did not do it.")
	switch e.Code {
	case tool.Offline, tool.Lost:
		return nil, &wire.NodeError{Code: wire.NodeNoServer, Message: told}
	case tool.TimedOut:
		return nil, &wire.NodeError{Code: wire.NodeTimeout, Message: told}
	case tool.Cancelled:
		return nil, &wire.NodeError{Code: codeAborted, Message: told}
	}
	return trouble(told), nil
}

// trouble is a result that says that it did not work, and why.
func trouble(told string) json.RawMessage {
	data, _ := json.Marshal(tool.Trouble(told)) // of a text
	return data
}

// initialize greets in the name of the devices.
func (c *caller) initialize(params json.RawMessage) (json.RawMessage, *wire.NodeError) {
	a, e := c.read(params)
	if e != nil {
		return nil, e
	}
	type info struct {
		Name    string `json:"name"`
		Title   string `json:"title,omitempty"`
		Version string `json:"version"`
	}
	who := info{"patchbay", c.offer.name, c.version}
	if d := c.offer.device(a.Server, func(*Device) bool { return true }); d != nil {
		who.Name, who.Title = d.Slug, d.Title
	}
	data, _ := json.Marshal(struct { // of texts
		Version string          `json:"protocolVersion"`
		Info    info            `json:"serverInfo"`
		Can     json.RawMessage `json:"capabilities"`
	}{mcpVersion, who, json.RawMessage(`{"tools":{}}`)})
	return data, nil
}

// listed is a tool as mcp.tools.list tells it.
type listed struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	Hints       tool.Hints      `json:"annotations,omitzero"`
}

// list lists the tools: those of one device by their own names, and those of several
// by the published ones.
func (c *caller) list(params json.RawMessage) (json.RawMessage, *wire.NodeError) {
	a, e := c.read(params)
	if e != nil {
		return nil, e
	}
	after, err := base64.RawURLEncoding.DecodeString(a.Cursor)
	if err != nil {
		return nil, badParams("this cursor is not one of ours")
	}
	out := struct {
		Tools []listed `json:"tools"`
		Next  string   `json:"nextCursor,omitempty"`
	}{Tools: []listed{}}
	last := ""
	for _, t := range c.offer.sorted {
		if a.Server != "" && t.ref.Server != a.Server || t.name <= string(after) {
			continue
		}
		if len(out.Tools) == toolsPerPage {
			out.Next = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		l := listed{t.name, t.Title, t.Description, t.Input, t.Output, t.Hints}
		if a.Server != "" || len(c.offer.devices) == 1 {
			l.Name = t.Name
		}
		if len(l.Input) == 0 {
			l.Input = json.RawMessage(`{"type":"object"}`)
		}
		out.Tools, last = append(out.Tools, l), t.name
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, &wire.NodeError{Code: codeMCP, Message: "a tool's schema is no JSON"}
	}
	return data, nil
}

// audio does what the tool audio of a voice board does.
func (c *caller) audio(ctx context.Context, action string, params json.RawMessage) (json.RawMessage, *wire.NodeError) {
	if len(params) == 0 || string(params) == "null" {
		params = json.RawMessage(`{}`)
	}
	if params[0] != '{' {
		return nil, badParams("the parameters are an object")
	}
	a, e := c.read(params)
	if e != nil {
		return nil, e
	}
	d := c.offer.device(a.Server, func(d *Device) bool { return d.Audio })
	switch {
	case d == nil && a.Server == "":
		return nil, badParams("server is missing: which device?")
	case d == nil:
		return nil, badParams("the device " + a.Server + " has no commands for its sound")
	}
	args := jsonrpc.AppendText([]byte(`{"action":`), action)
	for in := jsonrpc.Scan(params); in.Next(); {
		if key := string(in.Key); key != "server" && key != "action" {
			args = append(append(jsonrpc.AppendText(append(args, ','), key), ':'), in.Value...)
		}
	}
	return c.pass(ctx, Call{Device: d.ID, Tool: toolAudio, Args: append(args, '}'), Program: program})
}
