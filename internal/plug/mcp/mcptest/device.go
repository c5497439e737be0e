package mcptest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/coder/websocket"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// ServeAsDevice offers the named tools as a device does that connects to its client: an MCP server
// of 2024-11-05 on a WebSocket, one message per text frame. It serves until ctx or the connection
// ends, and returns the reason.
func (f *Fixtures) ServeAsDevice(ctx context.Context, url string, names ...string) error {
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	d := &device{f: f, conn: conn, names: names}
	defer d.work.Wait()
	defer conn.CloseNow() //nolint:errcheck // closed in any case
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		m, err := jsonrpc.Parse(data)
		if err != nil {
			return err
		}
		if m.IsRequest() {
			d.work.Go(func() { d.answer(ctx, &m) })
		}
	}
}

// device is a connection opened by fixtures.
type device struct {
	f     *Fixtures
	conn  *websocket.Conn
	names []string
	work  sync.WaitGroup
}

func (d *device) answer(ctx context.Context, m *jsonrpc.Message) {
	result, e := d.do(ctx, m)
	msg := jsonrpc.AppendResult(nil, m.ID, result)
	if e != nil {
		msg = jsonrpc.AppendError(nil, m.ID, e)
	}
	d.write(ctx, msg)
}

// write sends a message. Errors show at the next read.
func (d *device) write(ctx context.Context, msg []byte) {
	_ = d.conn.Write(ctx, websocket.MessageText, msg)
}

func (d *device) do(ctx context.Context, m *jsonrpc.Message) (json.RawMessage, *jsonrpc.Error) {
	switch m.Method {
	case "initialize":
		return json.RawMessage(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"device","version":"1"}}`), nil
	case "ping":
		return json.RawMessage(`{}`), nil
	case "tools/list":
		tools := slices.DeleteFunc(d.f.Tools(), func(t tool.Tool) bool { return !slices.Contains(d.names, t.Name) })
		return raw(map[string]any{"tools": tools}), nil
	case "tools/call":
		return d.call(ctx, m.Params)
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "there is no such method"}
}

func (d *device) call(ctx context.Context, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil || !slices.Contains(d.names, p.Name) {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "there is no such tool"}
	}
	c := &tool.Call{Tool: p.Name, Args: p.Arguments}
	if p.Meta.Token != nil {
		c.Progress = func(at tool.Progress) {
			params := struct {
				Token json.RawMessage `json:"progressToken"`
				tool.Progress
			}{p.Meta.Token, at}
			d.write(ctx, jsonrpc.AppendRequest(nil, nil, "notifications/progress", raw(params)))
		}
	}
	r, err := d.f.Call(ctx, c)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
	}
	return raw(r), nil
}
