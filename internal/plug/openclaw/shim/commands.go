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
	// mcpVersion is the MCP revision of the results.
	mcpVersion = "2025-11-25"
	// toolsPerPage limits a page of mcp.tools.list.
	toolsPerPage = 100
	// programName is the caller's name in the audit trail.
	programName = "openclaw"
)

// commandRunner executes commands on a node's current surface.
type commandRunner struct {
	source  Source
	spec    Spec
	surface *surface
	version string
}

// run executes a command and returns JSON.
func (c *commandRunner) run(ctx context.Context, r *wire.InvokeRequest) (json.RawMessage, *wire.NodeError) {
	if !c.surface.hasCommand(r.Command) {
		return nil, &wire.NodeError{Code: wire.NodeUnavailable, Message: "command not supported"}
	}
	params := json.RawMessage(bytes.TrimSpace(r.Params))
	switch r.Command {
	case wire.CommandTool:
		return c.callPublished(ctx, params)
	case cmdInitialize:
		return c.initialize(params)
	case cmdList:
		return c.list(params)
	case cmdCall:
		return c.call(ctx, params)
	case cmdNotify:
		// Devices get no unsolicited messages.
		return json.RawMessage(`{"delivered":false}`), nil
	}
	return c.audio(ctx, strings.TrimPrefix(r.Command, cmdAudio), params)
}

func badParams(why string) *wire.NodeError { return &wire.NodeError{Code: codeBadParams, Message: why} }

// noServer returns the error for a server that is not behind the node.
func (c *commandRunner) noServer(server string) *wire.NodeError {
	slugs := make([]string, len(c.surface.devices))
	for i, d := range c.surface.devices {
		slugs[i] = d.Slug
	}
	message := "there is no server " + clip(server, maxName) + " behind this node"
	if len(slugs) > 0 {
		message += ", but " + strings.Join(slugs, ", ")
	}
	return &wire.NodeError{Code: wire.NodeNoServer, Message: message}
}

func (c *commandRunner) hasServer(server string) bool {
	return slices.ContainsFunc(c.surface.devices, func(d Device) bool { return d.Slug == server })
}

// callPublished calls a tool by its published name, as agents do.
func (c *commandRunner) callPublished(ctx context.Context, params json.RawMessage) (json.RawMessage, *wire.NodeError) {
	p, err := wire.ParseToolCall(params)
	switch {
	case err != nil:
		return nil, badParams(err.Error())
	case !c.hasServer(p.Server):
		return nil, c.noServer(p.Server)
	}
	return c.callTool(ctx, c.surface.findTool(p.Server, p.Tool), p.Tool, p.Arguments)
}

// commandParams are the parameters of the other commands.
type commandParams struct {
	Server    string          `json:"server"` // a slug; required with several devices
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Cursor    string          `json:"cursor"`
}

func (c *commandRunner) parseParams(params json.RawMessage) (commandParams, *wire.NodeError) {
	var a commandParams
	if len(params) > 0 && json.Unmarshal(params, &a) != nil {
		return a, badParams("the parameters are an object; server, name and cursor are texts")
	}
	if a.Server != "" && !c.hasServer(a.Server) {
		return a, c.noServer(a.Server)
	}
	return a, nil
}

// call calls a tool by its own or its published name.
func (c *commandRunner) call(ctx context.Context, params json.RawMessage) (json.RawMessage, *wire.NodeError) {
	a, e := c.parseParams(params)
	if e == nil && a.Name == "" {
		e = badParams("name is missing: which tool?")
	}
	if e == nil && len(a.Arguments) > 0 && a.Arguments[0] != '{' && string(a.Arguments) != "null" {
		e = badParams("arguments are an object")
	}
	if e != nil {
		return nil, e
	}
	return c.callTool(ctx, c.surface.findTool(a.Server, a.Name), a.Name, a.Arguments)
}

// callTool calls a tool, if there is one.
func (c *commandRunner) callTool(ctx context.Context, t *surfaceTool, name string,
	args json.RawMessage) (json.RawMessage, *wire.NodeError) {
	if t == nil {
		return errorResult("There is no tool " + clip(name, 2*maxName) + ". " + cmdList + " tells which there are."),
			nil
	}
	return c.forwardCall(ctx, Call{Device: t.device.ID, Tool: t.Name, Args: args, Program: programName})
}

// forwardCall calls the tool through the source and converts the result for gateways.
func (c *commandRunner) forwardCall(ctx context.Context, call Call) (json.RawMessage, *wire.NodeError) {
	if len(call.Args) == 0 || string(call.Args) == "null" {
		call.Args = []byte(`{}`)
	}
	res, err := c.source.Call(ctx, c.spec, call)
	if err != nil {
		return callFailure(ctx, err)
	}
	if res == nil {
		res = &tool.Result{}
	}
	if res.InputRequired != nil {
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

// callFailure converts the error of a call. Errors that a model can act on become a tool result.
func callFailure(ctx context.Context, err error) (json.RawMessage, *wire.NodeError) {
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
	return errorResult(told), nil
}

// errorResult returns a tool result with an error text.
func errorResult(told string) json.RawMessage {
	data, _ := json.Marshal(tool.ErrorResult(told)) // of a text
	return data
}

// initialize answers MCP's initialize on behalf of the devices.
func (c *commandRunner) initialize(params json.RawMessage) (json.RawMessage, *wire.NodeError) {
	a, e := c.parseParams(params)
	if e != nil {
		return nil, e
	}
	type info struct {
		Name    string `json:"name"`
		Title   string `json:"title,omitempty"`
		Version string `json:"version"`
	}
	who := info{"patchbay", c.surface.name, c.version}
	if d := c.surface.findDevice(a.Server, func(*Device) bool { return true }); d != nil {
		who.Name, who.Title = d.Slug, d.Title
	}
	data, _ := json.Marshal(struct { // of texts
		Version string          `json:"protocolVersion"`
		Info    info            `json:"serverInfo"`
		Can     json.RawMessage `json:"capabilities"`
	}{mcpVersion, who, json.RawMessage(`{"tools":{}}`)})
	return data, nil
}

// listed is a tool in the format of mcp.tools.list.
type listed struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	Hints       tool.Hints      `json:"annotations,omitzero"`
}

// list returns the tools: of one device with their own names, of several with the published
// ones.
func (c *commandRunner) list(params json.RawMessage) (json.RawMessage, *wire.NodeError) {
	a, e := c.parseParams(params)
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
	for _, t := range c.surface.sorted {
		if a.Server != "" && t.ref.Server != a.Server || t.name <= string(after) {
			continue
		}
		if len(out.Tools) == toolsPerPage {
			out.Next = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		l := listed{t.name, t.Title, t.Description, t.Input, t.Output, t.Hints}
		if a.Server != "" || len(c.surface.devices) == 1 {
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

// audio serves the audio commands with the tool audio of a voice board.
func (c *commandRunner) audio(ctx context.Context, action string,
	params json.RawMessage) (json.RawMessage, *wire.NodeError) {
	if len(params) == 0 || string(params) == "null" {
		params = json.RawMessage(`{}`)
	}
	if params[0] != '{' {
		return nil, badParams("the parameters are an object")
	}
	a, e := c.parseParams(params)
	if e != nil {
		return nil, e
	}
	d := c.surface.findDevice(a.Server, func(d *Device) bool { return d.Audio })
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
	return c.forwardCall(ctx, Call{Device: d.ID, Tool: toolAudio, Args: append(args, '}'), Program: programName})
}
