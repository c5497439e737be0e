// Package mcpnode carries out the commands of nodes that stand for MCP servers. Voice boards are
// such nodes at other gateways (package shim), and whatever is plugged in here is one at ours
// (package gateway). Parameters, results and errors are the same at both.
//
//	mcp.initialize     {capabilities?}      → {protocolVersion, serverInfo, capabilities}
//	mcp.tools.list     {cursor?}            → {tools, nextCursor?}
//	mcp.tools.call     {name, arguments?}   → {content, isError, structuredContent?, _meta?}
//	mcp.tools.call.v1  {server, tool, arguments?} → the same
//	mcp.notify         {method, params?}    → {delivered, reason?}
//	audio.start|stop|set, video.start|stop|set → the results of the tools audio and video
//
// All but mcp.tools.call.v1 also take server, the slug of one of several servers behind a node.
package mcpnode

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// Commands besides [wire.CommandTool].
const (
	CommandInitialize = "mcp.initialize"
	CommandList       = "mcp.tools.list"
	CommandCall       = "mcp.tools.call"
	CommandNotify     = "mcp.notify"
)

// Commands are those of every node.
func Commands() []string {
	return []string{CommandInitialize, CommandList, CommandCall, CommandNotify, wire.CommandTool}
}

// MediaTools are the tools of boards for sound and pictures. Each has the actions start, stop and
// set, which are commands of the node: audio.start.
var MediaTools = []string{"audio", "video"}

// MediaCommands returns the commands for a media tool.
func MediaCommands(name string) []string {
	return []string{name + ".start", name + ".stop", name + ".set"}
}

const (
	// pageSize limits a page of mcp.tools.list.
	pageSize = 100
	// revision is the MCP revision of answers on behalf of a server.
	revision = "2025-11-25"
	// maxQuoted limits a name in an error, in characters.
	maxQuoted = 80
)

// Server is an MCP server behind a node.
type Server struct {
	ID    string // of the provider
	Slug  string // its name for programs
	Title string // for people; may be empty
	// Media are those of [MediaTools] that may be used.
	Media []string
	// Session means that the server takes part in mcp.initialize and mcp.notify. Otherwise
	// initialize is answered on its behalf, and notifications do not reach it.
	Session bool
}

// Tool is a tool as it is listed.
type Tool struct {
	*tool.Tool
	Server string // slug
	Name   string // unique at the node
}

// Node is a node at one time, for one command.
type Node struct {
	Title   string
	Version string // of Patchbay
	Servers []Server
	// Tools returns the tools that may be used, by name.
	Tools func() []Tool
	// Call calls a tool of a server by its own name or by its name at the node. server is nil if
	// none was named and there are several. Without such a tool the error is [tool.Unknown].
	Call caller
	// CallMedia calls one of the [Server.Media] of a server.
	CallMedia caller
	// Message sends initialize or a notification to a server with a Session. message is the
	// command, and args are {capabilities?} or {method, params?}. The structured result of
	// initialize is the server's answer.
	Message caller
}

type caller = func(ctx context.Context, server *Server, name string, args json.RawMessage) (*tool.Result, error)

// Run carries out a command that the node has. It returns JSON.
func (n *Node) Run(ctx context.Context, command string, params json.RawMessage) (json.RawMessage, *Failure) {
	params = bytes.TrimSpace(params)
	switch command {
	case wire.CommandTool:
		return n.callPublished(ctx, params)
	case CommandInitialize:
		return n.initialize(ctx, params)
	case CommandList:
		return n.list(params)
	case CommandCall:
		return n.call(ctx, params)
	case CommandNotify:
		return n.notify(ctx, params)
	}
	name, action, _ := strings.Cut(command, ".")
	return n.media(ctx, name, action, params)
}

// server returns a server by its slug, id or title; with an empty name, the only one that is good.
func (n *Node) server(slug string, good func(*Server) bool) *Server {
	var found *Server
	for i := range n.Servers {
		s := &n.Servers[i]
		switch {
		case slug != "" && (s.Slug == slug || s.ID == slug || strings.EqualFold(s.Title, slug)) && good(s):
			return s
		case slug == "" && good(s) && found != nil:
			return nil
		case slug == "" && good(s):
			found = s
		}
	}
	return found
}

func anyServer(*Server) bool { return true }

// params are the parameters of all commands but [wire.CommandTool].
type params struct {
	Server       string          `json:"server"`
	Name         string          `json:"name"`
	Arguments    json.RawMessage `json:"arguments"`
	Cursor       string          `json:"cursor"`
	Capabilities json.RawMessage `json:"capabilities"`
	Method       string          `json:"method"`
	Params       json.RawMessage `json:"params"`
}

// parse parses parameters and finds the server, which is nil if none is named and there are
// several.
func (n *Node) parse(raw json.RawMessage) (p params, s *Server, f *Failure) {
	if len(raw) > 0 && json.Unmarshal(raw, &p) != nil {
		return p, nil, badParams("the parameters are an object; server, name, method and cursor are texts")
	}
	s = n.server(p.Server, anyServer)
	if p.Server != "" && s == nil {
		return p, nil, n.noServer(p.Server)
	}
	return p, s, nil
}

// callPublished calls a tool for an agent. What a model can act on is a result, as node hosts of
// OpenClaw do it.
func (n *Node) callPublished(ctx context.Context, raw json.RawMessage) (json.RawMessage, *Failure) {
	p, err := wire.ParseToolCall(raw)
	if err != nil {
		return nil, badParams(err.Error())
	}
	s := n.server(p.Server, anyServer)
	if s == nil {
		return nil, n.noServer(p.Server)
	}
	payload, f := callTool(ctx, n.Call, s, p.Tool, p.Arguments)
	if f != nil && f.told {
		return ErrorResult(f.Message), nil
	}
	return payload, f
}

func (n *Node) call(ctx context.Context, raw json.RawMessage) (json.RawMessage, *Failure) {
	p, s, f := n.parse(raw)
	if f == nil && p.Name == "" {
		f = badParams("name is missing: which tool?")
	}
	if f == nil && !isObject(p.Arguments) {
		f = badParams("arguments are an object")
	}
	if f != nil {
		return nil, f
	}
	return callTool(ctx, n.Call, s, p.Name, p.Arguments)
}

// isObject reports whether raw is a JSON object or stands for none.
func isObject(raw json.RawMessage) bool {
	return len(raw) == 0 || raw[0] == '{' || string(raw) == "null"
}

// callTool calls a tool and returns its result for gateways.
func callTool(ctx context.Context, call caller, s *Server, name string,
	args json.RawMessage) (json.RawMessage, *Failure) {
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage(`{}`)
	}
	res, err := call(ctx, s, name, args)
	if err != nil {
		f := failureOf(ctx, err)
		if f.Code == codeUnknown {
			f.Message = "There is no tool " + quoted(name) + ". " + CommandList + " tells which there are."
		}
		return nil, f
	}
	if res == nil {
		res = &tool.Result{}
	}
	if res.InputRequired != nil {
		return nil, failed(codeMCP, "the tool wants to ask back, which cannot be done here")
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
		return nil, failed(codeMCP, "the answer cannot be used")
	}
	return data, nil
}

// ErrorResult returns a tool result with an error text.
func ErrorResult(text string) json.RawMessage {
	data, _ := json.Marshal(tool.ErrorResult(text)) // of a text
	return data
}

// initialize has the server initialize itself with the caller's capabilities, or answers on its
// behalf.
func (n *Node) initialize(ctx context.Context, raw json.RawMessage) (json.RawMessage, *Failure) {
	p, s, f := n.parse(raw)
	if f == nil && !isObject(p.Capabilities) {
		f = badParams("capabilities are an object")
	}
	if f != nil {
		return nil, f
	}
	if s != nil && s.Session {
		args := []byte(`{}`)
		if len(p.Capabilities) > 0 && p.Capabilities[0] == '{' {
			args = append(append([]byte(`{"capabilities":`), p.Capabilities...), '}')
		}
		res, err := n.Message(ctx, s, CommandInitialize, args)
		if err != nil {
			return nil, failureOf(ctx, err)
		}
		return res.Structured, nil
	}
	type info struct {
		Name    string `json:"name"`
		Title   string `json:"title,omitempty"`
		Version string `json:"version"`
	}
	who := info{"patchbay", n.Title, n.Version}
	if s != nil {
		who.Name, who.Title = s.Slug, s.Title
	}
	data, _ := json.Marshal(struct { // of texts
		Version string          `json:"protocolVersion"`
		Info    info            `json:"serverInfo"`
		Can     json.RawMessage `json:"capabilities"`
	}{revision, who, json.RawMessage(`{"tools":{}}`)})
	return data, nil
}

// notify sends a notification to the server. It is no error if the server cannot be reached, since
// nobody waits for a notification; the result says so.
func (n *Node) notify(ctx context.Context, raw json.RawMessage) (json.RawMessage, *Failure) {
	p, s, f := n.parse(raw)
	switch {
	case f != nil:
		return nil, f
	case p.Method == "":
		return nil, badParams("method is missing: which notification?")
	case !strings.HasPrefix(p.Method, "notifications/"):
		return nil, badParams("method begins with notifications/")
	case !isObject(p.Params):
		return nil, badParams("params are an object")
	case s == nil:
		return nil, badParams("server is missing: which one?")
	}
	out := struct {
		Delivered bool   `json:"delivered"`
		Reason    string `json:"reason,omitempty"`
	}{Reason: "This server takes no notifications."}
	if s.Session {
		args := jsonrpc.AppendText([]byte(`{"method":`), p.Method)
		if len(p.Params) > 0 && p.Params[0] == '{' {
			args = append(append(args, `,"params":`...), p.Params...)
		}
		_, err := n.Message(ctx, s, CommandNotify, append(args, '}'))
		f := failureOf(ctx, err)
		if f != nil && f.Code != wire.NodeNoServer {
			return nil, f
		}
		out.Delivered, out.Reason = f == nil, ""
		if f != nil {
			out.Reason = f.Message
		}
	}
	data, _ := json.Marshal(out) // of texts
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

// list returns the tools: of one server with their own names, of several with those at the node.
func (n *Node) list(raw json.RawMessage) (json.RawMessage, *Failure) {
	p, _, f := n.parse(raw)
	if f != nil {
		return nil, f
	}
	after, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil || p.Cursor != "" && len(after) == 0 {
		return nil, badParams("this cursor is not one of ours")
	}
	out := struct {
		Tools []listed `json:"tools"`
		Next  string   `json:"nextCursor,omitempty"`
	}{Tools: []listed{}}
	last := ""
	for _, t := range n.Tools() {
		if p.Server != "" && t.Server != p.Server || t.Name <= string(after) {
			continue
		}
		if len(out.Tools) == pageSize {
			out.Next = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		l := listed{t.Name, t.Title, t.Description, t.Input, t.Output, t.Hints}
		if p.Server != "" || len(n.Servers) == 1 {
			l.Name = t.Tool.Name
		}
		if len(l.Input) == 0 {
			l.Input = json.RawMessage(`{"type":"object"}`)
		}
		out.Tools, last = append(out.Tools, l), t.Name
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, failed(codeMCP, "a tool's schema is no JSON")
	}
	return data, nil
}

// media carries out a command for sound or pictures by the tool of the server that has its actions.
func (n *Node) media(ctx context.Context, name, action string, raw json.RawMessage) (json.RawMessage, *Failure) {
	if !isObject(raw) {
		return nil, badParams("the parameters are an object")
	}
	p, _, f := n.parse(raw)
	if f != nil {
		return nil, f
	}
	s := n.server(p.Server, func(s *Server) bool { return slices.Contains(s.Media, name) })
	switch {
	case s == nil && p.Server == "":
		return nil, badParams("server is missing: which one?")
	case s == nil:
		return nil, badParams("the server " + p.Server + " has no commands " + name)
	}
	args := jsonrpc.AppendText([]byte(`{"action":`), action)
	for in := jsonrpc.Scan(raw); in.Next(); {
		if key := string(in.Key); key != "server" && key != "action" {
			args = append(append(jsonrpc.AppendText(append(args, ','), key), ':'), in.Value...)
		}
	}
	return callTool(ctx, n.CallMedia, s, name, append(args, '}'))
}

// noServer returns the error for a server that is not behind the node.
func (n *Node) noServer(slug string) *Failure {
	slugs := make([]string, len(n.Servers))
	for i, s := range n.Servers {
		slugs[i] = s.Slug
	}
	message := "there is no server " + quoted(slug) + " behind this node"
	if len(slugs) > 0 {
		message += ", but " + strings.Join(slugs, ", ")
	}
	return &Failure{NodeError: wire.NodeError{Code: wire.NodeNoServer, Message: message}}
}

// quoted shortens a name of the caller to one line.
func quoted(name string) string {
	r := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(name, "\ufffd")), " "))
	return string(r[:min(len(r), maxQuoted)])
}

// ByName sorts tools by their names at the node.
func ByName(a, b Tool) int { return cmp.Compare(a.Name, b.Name) }
