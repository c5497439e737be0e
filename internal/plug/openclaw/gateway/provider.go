package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// invocation is an operator's call on its way through the hub to a node of the same instance.
// The hub knows tools whose arguments are an object and whose results have content; commands
// have any parameters, and their results must be preserved byte for byte.
type invocation struct {
	command    command
	result     wire.InvokeResult
	err        *wire.Error
	mayHaveRun bool
}

type invocationKey struct{}

// metaInvoke is the _meta key with the command of a call to a node on another instance, and with
// the node's result in the response.
const metaInvoke = "patchbay/invoke"

// remoteResult is the result of a call on another instance.
type remoteResult struct {
	Payload     json.RawMessage `json:"payload,omitempty"`
	PayloadJSON *string         `json:"payloadJSON,omitempty"`
}

// remoteError is the error of a call on another instance.
type remoteError struct {
	Code      wire.Code       `json:"code"`
	Message   string          `json:"message"`
	Details   json.RawMessage `json:"details,omitempty"`
	Retryable bool            `json:"retryable,omitempty"`
}

// Call executes a call of one of the node's tools.
func (n *node) Call(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	if inv, ok := ctx.Value(invocationKey{}).(*invocation); ok && inv.command.Name == call.Tool {
		inv.mayHaveRun = true
		inv.result, inv.err = n.runCommand(ctx, &inv.command)
		if inv.err != nil {
			return nil, toolError(inv.err)
		}
		return emptyResult, nil
	}
	n.mu.Lock()
	published := n.tools[call.Tool]
	early := published == nil && !n.hasPublished && !n.hasCommand(call.Tool)
	n.mu.Unlock()
	if early {
		return nil, tool.Fail(tool.Offline,
			"The node has connected again, and has not yet said what it can do; nothing was done. Call again in a moment.", nil)
	}
	c := command{Name: call.Tool, Params: call.Args, Timeout: wire.InvokeTimeout, Key: call.ID}
	var wanted *command
	if call.Caller.Channel == channel { // others have their _meta from programs
		wanted = remoteCommand(call.Meta)
	}
	switch {
	case published != nil:
		c.Name = published.Command
		if published.MCP != nil {
			c.Timeout = wire.ToolTimeout
			c.Params = encoded(wire.ToolCall{Server: published.MCP.Server, Tool: published.MCP.Tool,
				Arguments: call.Args})
		}
	case wanted != nil:
		wanted.Name = call.Tool
		c = *wanted
	case call.Tool == wire.CommandTool:
		c.Timeout = wire.ToolTimeout
	}
	if e := n.refuse(c.Name, []string{wire.ScopeAdmin}, wanted != nil); e != nil {
		return nil, toolError(e) // changed since it was registered
	}
	if c.Name == wire.CommandRun && wanted == nil {
		r, err := n.run(ctx, &c, call)
		if failed, ok := errors.AsType[*wire.Error](err); ok {
			err = toolError(failed)
		}
		switch {
		case err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded):
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, err
		}
		return anyResult(r.Value()), nil
	}
	r, e := n.runCommand(ctx, &c)
	switch {
	case e != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return nil, context.Cause(ctx)
	case e != nil:
		return nil, toolError(e)
	case wanted != nil && published == nil:
		return &tool.Result{Structured: encoded(remoteResult{r.Payload, r.PayloadJSON})}, nil
	case c.Name == wire.CommandTool:
		return mcpResult(r.Value()), nil
	}
	return anyResult(r.Value()), nil
}

// remoteCommand returns the command of a call from an operator on another instance, or nil.
func remoteCommand(meta json.RawMessage) *command {
	if len(meta) == 0 || !jsonrpc.Valid(meta) {
		return nil
	}
	for in := jsonrpc.Scan(meta); in.Next(); {
		if string(in.Key) == metaInvoke {
			var c command
			if json.Unmarshal(in.Value, &c) == nil {
				return &c
			}
		}
	}
	return nil
}

// emptyResult is the result of a call whose caller already has the real one.
var emptyResult = &tool.Result{Content: json.RawMessage(`[]`)}

// anyResult returns a command's result as a tool result.
func anyResult(v json.RawMessage) *tool.Result {
	if len(v) == 0 {
		return tool.Text("done")
	}
	if s := jsonrpc.Text(v); s != "" {
		return tool.Text(s)
	}
	res := tool.Text(string(v))
	if v[0] == '{' {
		res.Structured, res.Derived = v, true
	}
	return res
}

// mcpResult returns the MCP-shaped result of a tool behind a node.
func mcpResult(v json.RawMessage) *tool.Result {
	var r tool.Result
	if len(v) == 0 || json.Unmarshal(v, &r) != nil || len(r.Content) == 0 || r.Content[0] != '[' {
		return anyResult(v)
	}
	if len(r.Structured) > 0 && r.Structured[0] != '{' {
		r.Structured = nil
	}
	r.InputRequired = nil
	return &r
}

// toolError converts a node's error for tool callers. Its data are for other instances.
func toolError(e *wire.Error) *tool.Error {
	code := tool.Failed
	said, _, _ := wire.NodeErrorOf(e)
	switch {
	case e == errTimedOut || said.Code == wire.NodeTimeout:
		code = tool.TimedOut
	case said.Code == wire.NodeDisconnected || said.Code == wire.NodeNoServer:
		code = tool.Lost
	case e == wire.NotConnected || said.Code == wire.DetailNotConnected:
		code = tool.Offline
	case e == errNodeBusy:
		code = tool.Busy
	case e.Code == wire.InvalidRequest:
		code = tool.Denied
	case e == errAborted:
		code = tool.Cancelled
	}
	return &tool.Error{Code: code, Told: "The node did not do it: " + e.Message,
		Data: encoded(remoteError{e.Code, e.Message, e.Details, e.Retryable})}
}

// wireError converts the error of a node call for operators.
func wireError(err error) *wire.Error {
	e := tool.AsError(err)
	var f remoteError
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &f) == nil && f.Code != "" && f.Message != "" {
		return &wire.Error{Code: f.Code, Message: f.Message, Details: f.Details, Retryable: f.Retryable}
	}
	return fromToolError(e)
}
