package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	eyeclaw "patchbay/internal/plug/eyeclaw/sim"
	openclaw "patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

// marks counts how often each mark was set, by whatever tool: a call sets one of its own.
type marks struct {
	mu    sync.Mutex
	times map[string]int
}

func (m *marks) set(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.times[id]++
}

const markSchema = `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`

type markArgs struct {
	ID string `json:"id"`
}

// peers is what is plugged in: a tool server, a node, a plugin. The latter two come through
// the front, and come back when they are cut off.
type peers struct {
	marks    marks
	server   *http.Server
	node     *openclaw.Node
	nodeTool string // the full name of its tool
	stop     context.CancelFunc
	wg       sync.WaitGroup
}

// plugIn starts the peers, and waits until all of them are there.
func (t *town) plugIn(ctx context.Context) (*peers, error) {
	p := &peers{marks: marks{times: map[string]int{}}}
	address, err := p.serveMarks()
	if err != nil {
		return p, err
	}
	if err := t.inst[0].command(nil, "upstream", "add", "marks", "--url", "http://"+address+"/mcp", "--no-check"); err != nil {
		return p, err
	}
	running, stop := context.WithCancel(context.Background())
	p.stop = stop
	plugin := eyeclaw.New(eyeclaw.Options{Server: t.front.url(""), Token: t.clawToken, Scale: 0.1, Upstream: sayBack})
	p.wg.Go(func() { plugin.Run(running) }) //nolint:errcheck // it ends when it is stopped
	p.node = openclaw.NewNode(openclaw.Options{
		URL: "ws" + strings.TrimPrefix(t.front.url(""), "http"), Token: t.node, Name: "Hall", Commands: []string{wire.CommandTool}, Caps: []string{wire.CapMCP},
		Tools: []wire.PluginTool{{
			PluginID: wire.PluginMCP, Name: "hall_mark", Description: "Sets a mark.", Parameters: json.RawMessage(markSchema), Command: wire.CommandTool,
			MCP: &wire.ToolRef{Server: "hall", Tool: "mark"},
		}},
		Handle: p.handle, RetryFirst: 100 * time.Millisecond, RetryLast: 2 * time.Second,
	})
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := p.node.Connected(limit); err != nil {
		return p, fmt.Errorf("the node: %w", err)
	}
	return p, p.approved(limit, t)
}

// approved has the node's tool approved, and learns its name.
func (p *peers) approved(ctx context.Context, t *town) error {
	c := &caller{key: t.desk, url: t.front.url("/mcp")}
	for {
		t.inst[0].command(nil, "pair", "approve", "Hall") //nolint:errcheck // it was approved before, or does not wait yet
		names, err := c.tools(ctx)
		for _, name := range names {
			if strings.HasPrefix(name, "node-") && strings.HasSuffix(name, "_mark") {
				p.nodeTool = name
				return nil
			}
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the node's tool is not there, but %q: %w", names, errors.Join(err, ctx.Err()))
		}
	}
}

// sayBack is the agent behind the plugin: it says in two pieces what it was told last.
func sayBack(_ context.Context, c eyeclaw.Chat, piece func(string)) error {
	text := c.Message[strings.LastIndex(c.Message, "\n")+1:]
	piece(text[:len(text)/2])
	piece(text[len(text)/2:])
	return nil
}

func (p *peers) handle(_ context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
	if command != wire.CommandTool {
		return nil, openclaw.NotSupported
	}
	c, err := wire.ParseToolCall(params)
	if err != nil {
		return nil, err
	}
	var args markArgs
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return nil, err
	}
	p.marks.set(args.ID)
	return json.Marshal(map[string]any{"content": []map[string]any{{"type": "text", "text": args.ID}}})
}

// serveMarks starts the tool server.
func (p *peers) serveMarks() (address string, err error) {
	s := sdk.NewServer(&sdk.Implementation{Name: "marks", Version: "1"}, nil)
	s.AddTool(
		&sdk.Tool{Name: "mark", Description: "Sets a mark.", InputSchema: json.RawMessage(markSchema)},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var args markArgs
			if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
				return nil, err
			}
			p.marks.set(args.ID)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: args.ID}}}, nil
		},
	)
	mux := http.NewServeMux()
	mux.Handle("/mcp", sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{JSONResponse: true, Stateless: true}))
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	p.wg.Go(func() { p.server.Serve(l) }) //nolint:errcheck // it is closed
	return l.Addr().String(), nil
}

func (p *peers) close() {
	if p.node != nil {
		p.node.Close()
	}
	if p.stop != nil {
		p.stop()
	}
	if p.server != nil {
		p.server.Close()
	}
	p.wg.Wait()
}
