package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
)

// pageRoom is the reserve at the end of a page of tools, in bytes (xiaozhi-esp32
// main/mcp_server.cc, McpServer::GetToolsList).
const pageRoom = 30

// rpc is a JSON-RPC message as the firmware reads it.
type rpc struct {
	Version json.RawMessage `json:"jsonrpc"`
	Method  json.RawMessage `json:"method"`
	ID      json.RawMessage `json:"id"`
	Params  json.RawMessage `json:"params"`
}

// onMCP handles an MCP request of the server (xiaozhi-esp32 main/mcp_server.cc,
// McpServer::ParseMessage). What the firmware silently drops is a violation. Requires b.mu.
func (b *Board) onMCP(ch *audioChannel, m wire.Message) {
	var in rpc
	if m.Payload == nil || json.Unmarshal(m.Payload, &in) != nil {
		b.violate("C5", "the payload is no object")
		return
	}
	method := jsonrpc.Text(in.Method)
	switch {
	case jsonrpc.Text(in.Version) != "2.0":
		b.violate("C5", "a request is not of JSON-RPC 2.0")
		return
	case method == "":
		b.violate("C5", "a request has no method")
		return
	case strings.HasPrefix(method, "notifications"): // firmware does nothing with them
		b.report.Heard = append(b.report.Heard[max(0, len(b.report.Heard)-15):], method+" "+string(in.Params))
		return
	case in.Params != nil && in.Params[0] != '{':
		b.violate("C5", "the params of %s are no object: %.20s", method, in.Params)
		return
	}
	id, ok := b.requestID(method, in.ID)
	if !ok {
		return
	}
	switch method {
	case "initialize":
		b.initialize(ch, id, in.Params)
	case "tools/list":
		b.listTools(id, in.Params)
	case "tools/call":
		b.callTool(id, in.Params)
	default:
		b.replyError(id, jsonrpc.MethodNotFound, "Method not implemented: "+method)
	}
}

// requestID reads a request id, which must be a number. Ids beyond 31 bits saturate, as in cJSON.
func (b *Board) requestID(method string, raw json.RawMessage) (int, bool) {
	var f float64
	if raw == nil || raw[0] == '"' || json.Unmarshal(raw, &f) != nil || string(raw) == "null" {
		b.violate("C5", "the id of %s is no number: %.20s", method, raw)
		return 0, false
	}
	if f != math.Trunc(f) || f < 0 || f > wire.MaxID {
		b.violate("C5", "the id of %s does not fit into 31 bits: %.20s", method, raw)
	}
	return int(max(math.MinInt32, min(f, wire.MaxID))), true
}

// visionTarget is where photos are uploaded.
type visionTarget struct{ url, token string }

func (b *Board) initialize(ch *audioChannel, id int, params json.RawMessage) {
	b.report.Initializes++
	b.report.LastInitialize = string(params)
	if ch != nil {
		if slices.Contains(ch.inits, string(params)) {
			b.violate("C5", "there are two equal initialize in a session")
		}
		ch.inits = append(ch.inits, string(params))
	}
	var in struct {
		Capabilities struct {
			Vision struct {
				URL   string `json:"url"`
				Token string `json:"token"`
			} `json:"vision"`
		} `json:"capabilities"`
	}
	_ = json.Unmarshal(params, &in) // missing members change nothing
	if v := in.Capabilities.Vision; v.URL != "" {
		b.vision = visionTarget{v.URL, v.Token}
	}
	b.reply(id, fmt.Appendf(nil,
		`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":%q,"version":%q}}`,
		b.opt.Name, b.firmware))
}

// listProgress is the server's progress in listing the tools.
type listProgress struct {
	next  string // a cursor that the server has not used yet
	at    time.Time
	users bool // the last request had withUserTools
}

func (b *Board) listTools(id int, params json.RawMessage) {
	b.report.Lists++
	var in struct {
		Cursor string `json:"cursor"`
		Users  bool   `json:"withUserTools"`
	}
	_ = json.Unmarshal(params, &in) // members of the wrong type count as missing
	if in.Cursor != "" && in.Cursor == b.listing.next && in.Users != b.listing.users && b.opt.Profile.UserTools {
		b.violate("C5", "withUserTools is not the same for all pages")
	}
	page, next, ok := page(b.tools(), in.Cursor, in.Users)
	if !ok {
		b.violate("C5", "there is no page at the cursor %q", in.Cursor)
		b.replyError(id, jsonrpc.InternalError, "Failed to add tool "+next+" because of payload size limit")
		return
	}
	b.listing = listProgress{next, time.Now(), in.Users}
	b.reply(id, page)
}

// page returns a page of tools and the name of the first tool of the next page, or "". ok is false
// if the page would be empty.
func page(tools []Tool, cursor string, users bool) (list []byte, next string, ok bool) {
	list = append(list, `{"tools":[`...)
	found := cursor == ""
	for i := range tools {
		t := &tools[i]
		if found = found || t.Name == cursor; !found || t.UserOnly && !users {
			continue
		}
		at := len(list)
		list = append(appendTool(list, t), ',')
		if len(list)+pageRoom > wire.MaxList {
			list, next = list[:at], t.Name
			break
		}
	}
	if list[len(list)-1] == '[' {
		return nil, next, false
	}
	list = append(list[:len(list)-1], ']')
	if next != "" {
		list = jsonrpc.AppendText(append(list, `,"nextCursor":`...), next)
	}
	return append(list, '}'), next, true
}

// callTool has the loop call a tool; old firmware uses a thread.
func (b *Board) callTool(id int, params json.RawMessage) {
	codes := b.opt.Profile.Codes
	var in map[string]json.RawMessage
	if params == nil || json.Unmarshal(params, &in) != nil {
		b.violate("C5", "a call has no params")
		b.replyError(id, jsonrpc.InvalidParams, "Missing params")
		return
	}
	name := jsonrpc.Text(in["name"])
	if name == "" {
		b.violate("C5", "a call has no name")
		if codes {
			b.replyError(id, jsonrpc.InvalidParams, "Missing tool name")
		} else {
			b.replyError(id, 0, "Missing name")
		}
		return
	}
	var given map[string]json.RawMessage
	if raw, there := in["arguments"]; there && (raw[0] != '{' || json.Unmarshal(raw, &given) != nil) {
		b.violate("C5", "the arguments of a call are no object: %.20s", raw)
		b.replyError(id, jsonrpc.InvalidParams, "Invalid arguments")
		return
	}
	tools := b.tools()
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		b.replyError(id, jsonrpc.InvalidParams, "Unknown tool: "+name)
		return
	}
	args, err := tools[i].read(given, codes)
	if err != nil {
		b.replyError(id, jsonrpc.InvalidParams, err.Error())
		return
	}
	run := func(ctx context.Context) { b.runTool(ctx, id, &tools[i], args) }
	if b.opt.Profile.Threads {
		b.wg.Go(func() { run(b.ctx) })
		return
	}
	b.schedule(run)
}

// runTool calls a tool and replies.
func (b *Board) runTool(ctx context.Context, id int, t *Tool, args Args) {
	b.mu.Lock()
	b.report.Calls++
	b.event(EventCall, t.Name)
	b.mu.Unlock()
	out, err := "true", error(nil)
	switch {
	case t.builtin != nil:
		out, err = t.builtin(b, ctx, args)
	case t.Do != nil:
		out, err = t.Do(ctx, args)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.restarts && out == "true" {
		// The board restarts after its reply.
		defer b.schedule(func(context.Context) { b.reboot() })
	}
	if b.opt.Faults.DropToolResults {
		return
	}
	if err != nil {
		b.replyError(id, jsonrpc.InternalError, err.Error())
		return
	}
	result := jsonrpc.AppendText([]byte(`{"content":[{"type":"text","text":`), out)
	result = append(result, `}],"isError":false}`...)
	if late := b.opt.Faults.ToolDelay; late > 0 {
		b.wg.Go(func() {
			if netx.Wait(b.ctx, late) == nil {
				b.update(func() { b.reply(id, result) })
			}
		})
		return
	}
	b.reply(id, result)
	if b.opt.Faults.DuplicateToolResults {
		b.reply(id, result)
	}
}

// reply has the loop send a result. Requires b.mu.
func (b *Board) reply(id int, result []byte) {
	b.sendMCP(jsonrpc.AppendResult(nil, strconv.AppendInt(nil, int64(id), 10), result))
}

// replyError has the loop send an error; before firmware 2.5 it has no code, and the message is not
// escaped (xiaozhi-esp32 main/mcp_server.cc, McpServer::ReplyError). Requires b.mu.
func (b *Board) replyError(id, code int, message string) {
	payload := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"error":{"message":"%s"}}`, id, message)
	if b.opt.Profile.Codes {
		payload = jsonrpc.AppendError(nil, strconv.AppendInt(nil, int64(id), 10),
			&jsonrpc.Error{Code: code, Message: message})
	}
	b.sendMCP(payload)
}

// Notify sends an MCP notification, as some boards do. params must be valid JSON.
func (b *Board) Notify(method string, params []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sendMCP(jsonrpc.AppendRequest(nil, nil, method, params))
}

// sendMCP has the loop send a message, over the conversation or else MQTT. Requires b.mu.
func (b *Board) sendMCP(payload []byte) {
	b.schedule(func(context.Context) {
		b.mu.Lock()
		defer b.mu.Unlock()
		var session string
		send := func([]byte) error { return ErrIdle }
		switch {
		case b.ch != nil:
			session, send = b.ch.session, b.ch.link.sendText
		case b.mqtt != nil:
			send = b.mqtt.publish
		}
		// Assembled by hand, since the payload need not be valid JSON.
		out := jsonrpc.AppendText([]byte(`{"session_id":`), session)
		out = append(append(append(out, `,"type":"mcp","payload":`...), payload...), '}')
		if err := send(out); errors.Is(err, errTooLong) && b.ch != nil {
			b.event(EventAlert, "a message could not be sent")
			b.hangUp() // firmware treats it as a network error
			b.setState(Idle)
		}
	})
}
