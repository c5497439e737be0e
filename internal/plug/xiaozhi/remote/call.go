package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// maxCallArgs limits the arguments of a call, in bytes. A board has little memory for messages, and
// its tools need no long texts.
const maxCallArgs = 8 << 10

// Call calls one of the board's tools; see [tool.Provider]. Calls are queued; when 20 wait, more
// are refused as busy. The timeout begins when the call is sent. Only tools of the catalog can be
// called, since the firmware would carry out unlisted ones too.
func (c *Client) Call(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	known := c.Catalog()
	t := known.find(call.Tool)
	if t == nil {
		return nil, tool.Fail(tool.Unknown, "The board has no such tool: "+clip(call.Tool), nil)
	}
	switch {
	case len(call.Args) > maxCallArgs:
		return nil, tool.Fail(tool.BadArgs,
			fmt.Sprintf("The arguments are too long for the board. %d bytes are the most.", maxCallArgs), nil)
	case len(call.Args) > 0 && !json.Valid(call.Args):
		return nil, tool.Fail(tool.BadArgs, "The arguments are no JSON.", nil)
	}
	args := cleanArgs(call.Args, t.Input)
	o := outgoingRequest{method: "tools/call", timeout: c.opt.Timeout, onProgress: progress(call)}
	if TakesPicture(t.Name) {
		o.timeout = c.opt.PhotoTimeout
	}
	o.params = jsonrpc.AppendText([]byte(`{"name":`), t.Name)
	o.params = append(append(append(o.params, `,"arguments":`...), args...), '}')
	a, err := c.ask(ctx, o)
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil, err
	case err != nil:
		return nil, callError(err, &o)
	case a.err != nil:
		return c.refusalResult(readBoardError(a.err))
	}
	return readResult(a.result)
}

// progress returns a function that reports progress to the caller, or nil if the caller wants none.
func progress(call *tool.Call) func(sent bool) {
	if call.Progress == nil {
		return nil
	}
	times := 0.0
	return func(sent bool) {
		times++
		text := "The board is busy with an earlier call."
		if sent {
			text = "The board has not finished yet."
		}
		call.Progress(tool.Progress{Done: times, Message: text})
	}
}

// callError returns the tool error for a call without a response.
func callError(err error, o *outgoingRequest) error {
	_, unsent := errors.AsType[*unsentError](err)
	switch {
	case errors.Is(err, errFull):
		return tool.Fail(tool.Busy, fmt.Sprintf("%d calls wait for the board already. Try again in a moment.",
			maxWaiting), nil)
	case errors.Is(err, ErrSilent):
		return tool.Fail(tool.TimedOut,
			fmt.Sprintf("The board did not answer within %s. It is not known whether the call was carried out.",
				o.timeout), err)
	case unsent:
		return tool.Fail(tool.Offline, "The board is not connected. The call was not carried out.", err)
	}
	return tool.Fail(tool.Lost,
		"The connection to the board broke during the call. It is not known whether the call was carried out.", err)
}

// cleanArgs rewrites arguments for the firmware: without null, with whole numbers without a
// fraction, and without names that are not in the schema, since cJSON ignores case and takes the
// first match (cJSON_GetObjectItem, in xiaozhi-esp32 main/mcp_server.cc, McpServer::DoToolCall).
func cleanArgs(args, input []byte) []byte {
	s := readSchema(input)
	var names []string
	var values [][]byte
	for in := jsonrpc.Scan(args); in.Next(); {
		name := string(in.Key)
		if string(in.Value) == "null" || !s.open && s.find(name) == nil {
			continue
		}
		value := in.Value
		if f := number(value); f != nil && *f == math.Trunc(*f) {
			value = appendNumber(nil, *f)
		}
		if i := slices.Index(names, name); i >= 0 {
			values[i] = value // the last duplicate counts, as in the validation before
			continue
		}
		names, values = append(names, name), append(values, value)
	}
	b := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(jsonrpc.AppendText(b, name), ':'), values[i]...)
	}
	return append(b, '}')
}

// badArgs are the beginnings of the firmware's errors about arguments: up to 2.4 (xiaozhi-esp32
// main/mcp_server.cc, McpServer::DoToolCall, and main/mcp_server.h, Property), and since 2.5 (the
// same at 77500b8).
var badArgs = []string{
	"Missing valid argument:", "Missing required argument:", "Invalid type for argument:",
	"Value is below minimum allowed:", "Value exceeds maximum allowed:", "Invalid arguments",
}

// refusalResult returns the result or the tool error for an error of the board.
func (c *Client) refusalResult(no *boardError) (*tool.Result, error) {
	begins := func(with string) bool { return strings.HasPrefix(no.text, with) }
	switch {
	case begins("Unknown tool"):
		c.log.Warn("a board has listed a tool that it does not know", "error", no.text)
		return nil, tool.Fail(tool.Unknown, no.text, nil)
	case slices.ContainsFunc(badArgs, begins), no.code == jsonrpc.InvalidParams:
		return nil, tool.Fail(tool.BadArgs, no.text, nil)
	}
	return tool.ErrorResult(no.text), nil
}
