package shim

import (
	"context"
	"encoding/json"

	"patchbay/internal/plug/openclaw/mcpnode"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// programName is the caller's name in the audit trail.
const programName = "openclaw"

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
	n := mcpnode.Node{Title: c.surface.name, Version: c.version, Servers: c.surface.servers,
		Tools: c.surface.listedTools, Call: c.call, CallMedia: c.callDevice, Message: c.message}
	payload, failed := n.Run(ctx, r.Command, r.Params)
	if failed != nil {
		return nil, &failed.NodeError
	}
	return payload, nil
}

// call calls a tool of a device through the source.
func (c *commandRunner) call(ctx context.Context, s *mcpnode.Server, name string,
	args json.RawMessage) (*tool.Result, error) {
	slug := ""
	if s != nil {
		slug = s.Slug
	}
	t := c.surface.findTool(slug, name)
	if t == nil {
		return nil, tool.Fail(tool.Unknown, "Unknown tool: "+name, nil)
	}
	return c.source.Call(ctx, c.spec, Call{Device: t.device.ID, Tool: t.Name, Args: args, Program: programName})
}

// callDevice calls a tool of a device by its own name.
func (c *commandRunner) callDevice(ctx context.Context, s *mcpnode.Server, name string,
	args json.RawMessage) (*tool.Result, error) {
	return c.source.Call(ctx, c.spec, Call{Device: s.ID, Tool: name, Args: args, Program: programName})
}

// message sends a message to a device through the source.
func (c *commandRunner) message(ctx context.Context, s *mcpnode.Server, message string,
	args json.RawMessage) (*tool.Result, error) {
	return c.source.Message(ctx, c.spec, Call{Device: s.ID, Tool: message, Args: args, Program: programName})
}
