package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// invocation is a call by an operator on its way through the board, to a node of the
// same instance. The board knows tools with arguments that are an object, and results
// with content; commands have any parameters, and results of which every byte counts.
type invocation struct {
	command command
	result  wire.InvokeResult
	err     *wire.Error
	reached bool
}

type invocationKey struct{}

// metaInvoke is where a call to a node of another instance has its command, and
// its result what the node said.
const metaInvoke = "patchbay/invoke"

// far is what a call brought on another instance.
type far struct {
	Payload     json.RawMessage `json:"payload,omitempty"`
	PayloadJSON *string         `json:"payloadJSON,omitempty"`
}

// farError is why it brought nothing.
type farError struct {
	Code      wire.Code       `json:"code"`
	Message   string          `json:"message"`
	Details   json.RawMessage `json:"details,omitempty"`
	Retryable bool            `json:"retryable,omitempty"`
}

// Call carries out a call of one of the node's tools.
func (n *node) Call(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	if inv, ok := ctx.Value(invocationKey{}).(*invocation); ok && inv.command.Name == call.Tool {
		inv.reached = true
		inv.result, inv.err = n.do(ctx, &inv.command)
		if inv.err != nil {
			return nil, toolError(inv.err)
		}
		return nothing, nil
	}
	n.mu.Lock()
	published := n.tools[call.Tool]
	early := published == nil && !n.publishes && !n.has(call.Tool)
	n.mu.Unlock()
	if early {
		return nil, tool.Fail(tool.Offline, "The node has connected again, and has not yet said what it can do; nothing was done. Call again in a moment.", nil)
	}
	c := command{Name: call.Tool, Params: call.Args, Timeout: wire.InvokeTimeout, Key: call.ID}
	wanted := ordered(call.Meta)
	switch {
	case published != nil:
		c.Name = published.Command
		if published.MCP != nil {
			c.Timeout = wire.ToolTimeout
			c.Params = encoded(wire.ToolCall{Server: published.MCP.Server, Tool: published.MCP.Tool, Arguments: call.Args})
		}
	case wanted != nil && call.Caller.Door == door:
		wanted.Name = call.Tool
		c = *wanted
	case call.Tool == wire.CommandTool:
		c.Timeout = wire.ToolTimeout
	}
	if e := n.refuse(c.Name, []string{wire.ScopeAdmin}); e != nil {
		return nil, toolError(e) // it has changed since the board was told
	}
	r, e := n.do(ctx, &c)
	switch {
	case e != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return nil, context.Cause(ctx)
	case e != nil:
		return nil, toolError(e)
	case wanted != nil && published == nil:
		return &tool.Result{Structured: encoded(far{r.Payload, r.PayloadJSON})}, nil
	case c.Name == wire.CommandTool:
		return mcpResult(r.Value()), nil
	}
	return anyResult(r.Value()), nil
}

// ordered is the command in a call that an operator of another instance has made; nil
// if there is none.
func ordered(meta json.RawMessage) *command {
	if len(meta) == 0 || !json.Valid(meta) {
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

// nothing is the result of a call whose caller has it already.
var nothing = &tool.Result{Content: json.RawMessage(`[]`)}

// anyResult is what a command brought, for callers of tools.
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

// mcpResult is the result of a tool behind a node, which has MCP's shape.
func mcpResult(v json.RawMessage) *tool.Result {
	var r tool.Result
	if len(v) == 0 || json.Unmarshal(v, &r) != nil || len(r.Content) == 0 || r.Content[0] != '[' {
		return anyResult(v)
	}
	if len(r.Structured) > 0 && r.Structured[0] != '{' {
		r.Structured = nil
	}
	r.Need = nil
	return &r
}

// toolError is an error of a node as callers of tools are told it. Its data are for
// other instances.
func toolError(e *wire.Error) *tool.Error {
	code := tool.Failed
	said, _, _ := wire.NodeErrorOf(e)
	switch {
	case e == timedOut || said.Code == wire.NodeTimeout:
		code = tool.TimedOut
	case said.Code == wire.NodeDisconnected || said.Code == wire.NodeNoServer:
		code = tool.Lost
	case e == wire.NotConnected || said.Code == wire.DetailNotConnected:
		code = tool.Offline
	case e == nodeBusy:
		code = tool.Busy
	case e.Code == wire.InvalidRequest:
		code = tool.Denied
	case e == aborted:
		code = tool.Cancelled
	}
	return &tool.Error{Code: code, Told: "The node did not do it: " + e.Message, Data: encoded(farError{e.Code, e.Message, e.Details, e.Retryable})}
}

// wireError is the error of a call of a node as operators are told it.
func wireError(err error) *wire.Error {
	e := tool.AsError(err)
	var f farError
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &f) == nil && f.Code != "" && f.Message != "" {
		return &wire.Error{Code: f.Code, Message: f.Message, Details: f.Details, Retryable: f.Retryable}
	}
	return refusedBy(e)
}
