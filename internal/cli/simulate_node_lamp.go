package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

// lamp is an MCP server named lamp behind a simulated node.
type lamp struct {
	mu     sync.Mutex
	On     bool `json:"on"`
	Bright int  `json:"brightness"` // in percent
}

// lampServer is the name of the MCP server.
const lampServer = "lamp"

// tools returns the lamp's tools as nodes publish them.
func (l *lamp) tools() []wire.PluginTool {
	set, get := wire.ToolRef{Server: lampServer, Tool: "set"}, wire.ToolRef{Server: lampServer, Tool: "get"}
	names := wire.NewNames([]wire.ToolRef{set, get})
	return []wire.PluginTool{
		{
			PluginID: wire.PluginMCP, Name: names.Name(set),
			Description: "Turns the lamp on or off, and dims it.", Command: wire.CommandTool, MCP: &set,
			Parameters: json.RawMessage(`{"type":"object","properties":{"on":{"type":"boolean"},"brightness":{"type":"integer","minimum":0,"maximum":100,"description":"Percent"}}}`),
		},
		{
			PluginID: wire.PluginMCP, Name: names.Name(get),
			Description: "Tells whether the lamp is on, and how bright.", Command: wire.CommandTool, MCP: &get,
			Parameters: json.RawMessage(`{"type":"object","properties":{}}`),
		},
	}
}

// call runs a tool of the lamp, and returns an MCP result.
func (l *lamp) call(c wire.ToolCall) (json.RawMessage, error) {
	if c.Server != lampServer {
		return nil, sim.Fail(wire.NodeNoServer, "there is no server "+c.Server+" here, but "+lampServer)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := struct {
		On     *bool `json:"on"`
		Bright *int  `json:"brightness"`
	}{&l.On, &l.Bright}
	switch c.Tool {
	case "get":
	case "set":
		if len(c.Arguments) > 0 && json.Unmarshal(c.Arguments, &next) != nil || next.On == nil || next.Bright == nil ||
			*next.Bright < 0 || *next.Bright > 100 {
			return lampResult("on is true or false, and brightness a number from 0 to 100", nil)
		}
		l.On, l.Bright = *next.On, *next.Bright
	default:
		return lampResult("the lamp has no tool "+c.Tool, nil)
	}
	text := "The lamp is off."
	if l.On {
		text = fmt.Sprintf("The lamp is on, at %d %%.", l.Bright)
	}
	return lampResult(text, l)
}

// lampResult returns an MCP result; without a lamp, an error.
func lampResult(text string, l *lamp) (json.RawMessage, error) {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	return json.Marshal(struct {
		Content    []block `json:"content"`
		Structured *lamp   `json:"structuredContent,omitempty"`
		IsError    bool    `json:"isError,omitempty"`
	}{[]block{{"text", text}}, l, l == nil})
}

// simulated runs commands of a simulated node. Only the lamp has state.
func (l *lamp) simulated(_ context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
	switch command {
	case wire.CommandTool:
		call, err := wire.ParseToolCall(params)
		if err != nil {
			return nil, sim.Fail(string(wire.InvalidRequest), err.Error())
		}
		return l.call(call)
	case "system.which":
		var which struct {
			Bins []string `json:"bins"`
		}
		if json.Unmarshal(params, &which) != nil || len(which.Bins) == 0 {
			return nil, sim.Fail(string(wire.InvalidRequest), "bins is missing: which programs?")
		}
		found := map[string]string{}
		for _, name := range which.Bins {
			found[name] = "/usr/bin/" + name
		}
		return json.Marshal(map[string]any{"bins": found})
	case "system.notify":
		return json.RawMessage(`{"ok":true}`), nil
	}
	if len(bytes.TrimSpace(params)) == 0 {
		params = json.RawMessage("null")
	}
	if !json.Valid(params) {
		return nil, errors.New("the parameters are no JSON")
	}
	return json.Marshal(map[string]any{"simulated": command, "params": params})
}
