package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// peerEnv makes the test binary an MCP server on its standard input.
const peerEnv = "PATCHBAY_TEST_PEER"

// playPeer runs the MCP server instead of the tests if the test binary was started as one.
func playPeer() bool {
	if os.Getenv(peerEnv) == "" {
		return false
	}
	fmt.Fprintln(os.Stderr, "the peer begins")
	if err := newPeer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return true
}

// newPeer returns an MCP server made with the official SDK: a lamp.
func newPeer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "lamp", Version: "2.1"}, nil)
	add := func(name, what, properties string, hints *mcp.ToolAnnotations, h mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{
			Name: name, Description: what, Annotations: hints,
			InputSchema: json.RawMessage(`{"type":"object","properties":{` + properties + `}}`),
		}, h)
	}
	says := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	add("set", "Set the light.\nAll of it.",
		`"level":{"type":"integer"},"color":{"type":"string"},"on":{"type":["boolean","null"]},"rest":{}`, nil,
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return says(string(r.Params.Arguments)), nil
		})
	add("state", "Read the light", "", &mcp.ToolAnnotations{ReadOnlyHint: true},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return says("it is on"), nil })
	yes := true
	add("burn", "Burn the fuse", "", &mcp.ToolAnnotations{DestructiveHint: &yes},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return says("burnt"), nil })
	add("fail", "Fail", "", nil, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r := says("there is no bulb")
		r.IsError = true
		return r, nil
	})
	add("shoot", "Take a picture", "", nil, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "two views"},
			&mcp.ImageContent{MIMEType: "image/png", Data: []byte("first")},
			&mcp.ImageContent{MIMEType: "image/png", Data: []byte("second")},
		}}, nil
	})
	add("dim", "Dim slowly", "", nil, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3, Message: "dimming"})
			if err != nil {
				return nil, err
			}
		}
		return says("dark"), nil
	})
	add("wait", "Wait until the call is called off", "", nil,
		func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			peerWaits <- struct{}{}
			<-ctx.Done()
			peerWaits <- struct{}{}
			return nil, ctx.Err()
		})
	return s
}

// peerWaits receives when a call of wait begins, and when it is canceled.
var peerWaits = make(chan struct{}, 100)

// servePeer serves the lamp over HTTP until the test ends, to clients with the token; an empty
// token admits everybody.
func servePeer(t *testing.T, token string) string {
	t.Helper()
	s := newPeer()
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL + "/mcp"
}

// until calls look repeatedly until it returns true.
func (d *desk) until(what string, look func() bool) {
	d.t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	late := time.After(limit)
	for !look() {
		select {
		case <-again.C:
		case <-late:
			d.t.Fatalf("%s never came", what)
		}
	}
}

// awaitTool waits until the running server offers a tool of that name.
func (d *desk) awaitTool(name string) {
	d.t.Helper()
	d.until(name, func() bool { return strings.Contains(d.ok("tool", "list", "--all"), name+" ") })
}
