// Package sim simulates a third-party MCP server with a thermometer and a lamp, for tests, the
// demo and the manual. It speaks Streamable HTTP with plain JSON responses and without sessions,
// as small servers do, or connects to the client, as XiaoZhi's tool servers do.
package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Temperature is the reading of the thermometer.
const Temperature = "21.5 °C"

// ToolServer is a tool server. It is safe for concurrent use.
type ToolServer struct {
	// URL is its address: "http://127.0.0.1:…/mcp"; empty if it connects to the client.
	URL string

	http *http.Server
	conn *websocket.Conn
	done chan struct{} // closed when it no longer serves
	err  error         // why conn ended; valid after done is closed

	mu    sync.Mutex
	tools json.RawMessage // nil: the built-in list
	level int
	calls int
}

// Start starts a server on a loopback port.
func Start() (*ToolServer, error) { return Listen("127.0.0.1:0") }

// Listen starts a server at an address.
func Listen(address string) (*ToolServer, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	h := &ToolServer{URL: "http://" + l.Addr().String() + "/mcp", done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mcp", h.serve)
	h.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(h.done)
		h.http.Serve(l) //nolint:errcheck // Close ends it
	}()
	return h, nil
}

// Dial starts a server without an address: it connects to url ("ws://…") and serves that
// connection. It does not reconnect; see [ToolServer.Done].
func Dial(ctx context.Context, url string) (*ToolServer, error) {
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxBody)
	h := &ToolServer{conn: conn, done: make(chan struct{})}
	go func() {
		defer close(h.done)
		h.err = h.serveConn()
	}()
	return h, nil
}

// Done is closed when the server no longer serves.
func (h *ToolServer) Done() <-chan struct{} { return h.done }

// Err returns why the connection ended, with the peer's close code if there is one. It is valid
// after [ToolServer.Done] is closed.
func (h *ToolServer) Err() error { return h.err }

// Close stops the server.
func (h *ToolServer) Close() error {
	var err error
	if h.conn != nil {
		h.conn.CloseNow() //nolint:errcheck // the peer may have closed it before
	} else {
		err = h.http.Close()
	}
	<-h.done
	return err
}

// Lamp returns the brightness of the lamp, 0 to 100, and the number of calls.
func (h *ToolServer) Lamp() (level, calls int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.level, h.calls
}

// Tools returns the tool list.
func (h *ToolServer) Tools() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tools != nil {
		return string(h.tools)
	}
	return string(tools)
}

// SetTools replaces the tool list with a JSON array. It is announced to the client if this server
// has connected to it; others find out when they connect again.
func (h *ToolServer) SetTools(ctx context.Context, list string) error {
	h.mu.Lock()
	h.tools = json.RawMessage(list)
	h.mu.Unlock()
	if h.conn == nil {
		return nil
	}
	return h.conn.Write(ctx, websocket.MessageText,
		[]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
}

// maxBody limits a request, in bytes.
const maxBody = 1 << 20

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProtocolVersion string `json:"protocolVersion"`
		Name            string `json:"name"`
		Arguments       struct {
			Room  string `json:"room"`
			Level int    `json:"level"`
		} `json:"arguments"`
	} `json:"params"`
}

func (h *ToolServer) serve(w http.ResponseWriter, r *http.Request) {
	var q request
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil || json.Unmarshal(body, &q) != nil {
		http.Error(w, "this is no message", http.StatusBadRequest)
		return
	}
	if q.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(h.reply(&q)) //nolint:errcheck // the client may have disconnected
}

// serveConn serves the connection until it ends.
func (h *ToolServer) serveConn() error {
	ctx := context.Background() // Close ends the connection
	for {
		_, data, err := h.conn.Read(ctx)
		if err != nil {
			return err
		}
		var q request
		if json.Unmarshal(data, &q) != nil || q.ID == nil {
			continue
		}
		text, err := json.Marshal(h.reply(&q))
		if err != nil {
			return err
		}
		if err := h.conn.Write(ctx, websocket.MessageText, text); err != nil {
			return err
		}
	}
}

func (h *ToolServer) reply(q *request) map[string]any {
	answer := map[string]any{"jsonrpc": "2.0", "id": q.ID}
	if result, err := h.answer(q); err != nil {
		answer["error"] = map[string]any{"code": -32601, "message": err.Error()}
	} else {
		answer["result"] = result
	}
	return answer
}

var errMethod = errors.New("method not found")

func (h *ToolServer) answer(q *request) (any, error) {
	switch q.Method {
	case "initialize":
		return map[string]any{
			"protocolVersion": h.revision(), "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "home", "version": "1.0"},
		}, nil
	case "ping":
		return map[string]any{}, nil
	case "tools/list":
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.tools != nil {
			return map[string]any{"tools": h.tools}, nil
		}
		return map[string]any{"tools": tools}, nil
	case "tools/call":
		text, failed := h.call(q)
		return map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}, "isError": failed}, nil
	}
	return nil, errMethod
}

// revision returns the protocol revision that servers of its kind use.
func (h *ToolServer) revision() string {
	if h.conn != nil {
		return "2024-11-05"
	}
	return "2025-06-18"
}

// tools is the tool list.
var tools = json.RawMessage(`[
	{"name":"get_temperature","title":"Thermometer","description":"How warm it is in a room.","annotations":{"readOnlyHint":true},
	 "inputSchema":{"type":"object","properties":{"room":{"type":"string"}},"required":["room"]}},
	{"name":"set_lamp","title":"Lamp","description":"Set how bright the lamp in a room is, from 0 (off) to 100.","annotations":{"destructiveHint":false,"idempotentHint":true},
	 "inputSchema":{"type":"object","properties":{"room":{"type":"string"},"level":{"type":"integer","minimum":0,"maximum":100}},"required":["room","level"]}},
	{"name":"reset","title":"Reset","description":"Forget everything about this home.","annotations":{"destructiveHint":true},
	 "inputSchema":{"type":"object"}}
]`)

func (h *ToolServer) call(q *request) (text string, failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	switch q.Params.Name {
	case "get_temperature":
		return fmt.Sprintf("%s: %s", q.Params.Arguments.Room, Temperature), false
	case "set_lamp":
		h.level = q.Params.Arguments.Level
		return fmt.Sprintf("The lamp in %s is at %d.", q.Params.Arguments.Room, h.level), false
	case "reset":
		h.level = 0
		return "Everything is forgotten.", false
	}
	return "There is no such tool.", true
}
