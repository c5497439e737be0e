package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

const (
	// maxDepth limits the nesting of what callers send to boards, whose parser is recursive and has
	// a small stack.
	maxDepth = 8
	// notifyEvery and notifyBurst limit the notifications to a board, which is busy with each for
	// some milliseconds.
	notifyEvery, notifyBurst = 200 * time.Millisecond, 10
)

// lastInitialize is the last initialize of a connection.
type lastInitialize struct {
	vision         Vision // from Start
	params, result []byte // result is nil if it was refused
}

// Initialize sends initialize with the capabilities of a caller, a JSON object or nil, and returns
// the board's answer as structured content. The board's photos continue to be uploaded where Start
// has said: vision among the capabilities is replaced by that. Equal capabilities are not sent
// twice. The error is as that of Call.
func (c *Client) Initialize(ctx context.Context, capabilities json.RawMessage) (*tool.Result, error) {
	if len(capabilities) > maxCallArgs || jsonrpc.Depth(capabilities) > maxDepth {
		return nil, tool.Fail(tool.BadArgs, fmt.Sprintf(
			"The capabilities are too much for the board. %d bytes and %d levels are the most.", maxCallArgs, maxDepth),
			nil)
	}
	c.mu.Lock()
	last := c.initialized
	c.mu.Unlock()
	o := outgoingRequest{method: "initialize", params: initializeParams(last.vision, capabilities),
		timeout: setupTimeout}
	if last.result != nil && bytes.Equal(o.params, last.params) {
		return introduction(last.result), nil
	}
	a, err := c.ask(ctx, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, callError(err, &o)
	case a.err != nil:
		return nil, tool.Fail(tool.Refused, "The board refuses: "+readBoardError(a.err).text, nil)
	case len(a.result) == 0 || a.result[0] != '{':
		return nil, tool.Fail(tool.Garbled, "The board's answer cannot be used.", nil)
	}
	c.setInitialized(lastInitialize{last.vision, o.params, a.result})
	return introduction(a.result), nil
}

func (c *Client) setInitialized(i lastInitialize) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initialized = i
}

// Introduce returns what a board would answer to initialize, as far as it is known
// (xiaozhi-esp32 main/mcp_server.cc, McpServer::ParseMessage).
func Introduce(k Catalog) *tool.Result {
	b := jsonrpc.AppendText([]byte(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":`),
		k.Board)
	b = jsonrpc.AppendText(append(b, `,"version":`...), k.Firmware)
	return introduction(append(b, `}}`...))
}

func introduction(result []byte) *tool.Result {
	r := tool.Text(string(result))
	r.Structured = result
	return r
}

// Notify sends a notification to the board. Stock firmware ignores it (McpServer::ParseMessage);
// forks may act on it. params is a JSON object or nil. It does not wait for requests that run.
func (c *Client) Notify(method string, params json.RawMessage) error {
	switch {
	case !strings.HasPrefix(method, "notifications/"): // the firmware would carry it out as a request
		return tool.Fail(tool.BadArgs, "The method of a notification begins with notifications/.", nil)
	case len(method) > maxName || len(params) > maxCallArgs || jsonrpc.Depth(params) > maxDepth:
		return tool.Fail(tool.BadArgs, fmt.Sprintf(
			"The notification is too much for the board. %d bytes and %d levels are the most.", maxCallArgs, maxDepth),
			nil)
	case len(params) > 0 && params[0] != '{':
		return tool.Fail(tool.BadArgs, "The params of a notification are an object.", nil)
	}
	if !c.notifyRate.Allow() {
		return tool.Fail(tool.Busy, "Too many notifications for the board; try again in a moment.", nil)
	}
	c.mu.Lock()
	err := c.closed
	c.mu.Unlock()
	if err == nil {
		err = c.opt.Send(jsonrpc.AppendRequest(nil, nil, method, params))
	}
	if err != nil {
		return callError(&unsentError{err}, &outgoingRequest{})
	}
	return nil
}
