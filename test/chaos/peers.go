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

	"patchbay/internal/netx"
	eyeclaw "patchbay/internal/plug/eyeclaw/sim"
	openclaw "patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	xiaozhi "patchbay/internal/plug/xiaozhi/sim"
)

// marks counts how often each mark was set by any tool: each call sets a mark of its own.
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

// peers are the connected peers: a tool server, a node, a voice board and a plugin. All but the
// first connect through the balancer and reconnect when disconnected.
type peers struct {
	marks               marks
	server              *http.Server
	node                *openclaw.Node
	board               *xiaozhi.Board
	nodeTool, boardTool string // the full names of their tools
	stop                context.CancelFunc
	wg                  sync.WaitGroup
}

// connectPeers starts the peers and waits until all are connected.
func (t *cluster) connectPeers(ctx context.Context) (*peers, error) {
	p := &peers{marks: marks{times: map[string]int{}}}
	address, err := p.serveMarks()
	if err != nil {
		return p, err
	}
	if err := t.inst[0].Command(nil, "upstream", "add", "marks", "--url", "http://"+address+"/mcp",
		"--no-check"); err != nil {
		return p, err
	}
	running, stop := context.WithCancel(context.Background())
	p.stop = stop
	plugin := eyeclaw.New(eyeclaw.Options{Server: t.balancer.url(""), Token: t.clawToken, Scale: 0.1,
		Upstream: sayBack})
	p.wg.Go(func() { plugin.Run(running) }) //nolint:errcheck // ends when it is stopped
	p.node = openclaw.NewNode(openclaw.Options{
		URL: "ws" + strings.TrimPrefix(t.balancer.url(""), "http"), Token: t.node,
		Name: "Hall", Commands: []string{wire.CommandTool}, Caps: []string{wire.CapMCP},
		Tools: []wire.PluginTool{{
			PluginID: wire.PluginMCP, Name: "hall_mark", Description: "Sets a mark.",
			Parameters: json.RawMessage(markSchema), Command: wire.CommandTool,
			MCP: &wire.ToolRef{Server: "hall", Tool: "mark"},
		}},
		Handler: p.handle, MinBackoff: 100 * time.Millisecond, MaxBackoff: 2 * time.Second,
	})
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := p.node.AwaitConnected(limit); err != nil {
		return p, fmt.Errorf("the node: %w", err)
	}
	if err := p.turnOn(limit, t); err != nil {
		return p, fmt.Errorf("the board: %w", err)
	}
	return p, p.approved(limit, t)
}

// approved approves the node's tool and finds the names of the tools.
func (p *peers) approved(ctx context.Context, t *cluster) error {
	c := &caller{key: t.desk, url: t.balancer.url("/mcp")}
	for {
		t.inst[0].Command(nil, "pair", "approve", "Hall") //nolint:errcheck // may be approved already, or not pending yet
		names, err := c.tools(ctx)
		for _, name := range names {
			switch {
			case strings.HasPrefix(name, "node-") && strings.HasSuffix(name, "_mark"):
				p.nodeTool = name
			case strings.HasPrefix(name, "porch_") && strings.HasSuffix(name, "_mark"):
				p.boardTool = name
			}
		}
		if p.nodeTool != "" && p.boardTool != "" {
			return nil
		}
		if netx.Wait(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("a tool is not there, but %q: %w", names, errors.Join(err, ctx.Err()))
		}
	}
}

// turnOn turns on a voice board on MQTT and approves it.
func (p *peers) turnOn(ctx context.Context, t *cluster) error {
	p.board = xiaozhi.New(xiaozhi.Options{
		OTA: t.balancer.url("/xiaozhi/ota/"), Scale: 0.1, Tries: 10, Dial: t.balancer.dial,
		Tools: []xiaozhi.Tool{{
			Name: "self.mark", Description: "Sets a mark.", Args: []xiaozhi.Arg{{Name: "id", Type: "string"}},
			Do: func(_ context.Context, args xiaozhi.Args) (string, error) {
				p.marks.set(args["id"].(string))
				return "true", nil
			},
		}},
		OnEvent: func(e xiaozhi.Event) {
			if e.Kind == xiaozhi.EventCode {
				t.inst[0].Command(nil, "device", "approve", e.Text, "--name", "porch") //nolint:errcheck // the caller waits for its tool
			}
		},
	})
	return p.board.Boot(ctx)
}

// sayBack is the agent behind the plugin: it repeats the last message in two pieces.
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
	mux.Handle("/mcp", sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s },
		&sdk.StreamableHTTPOptions{JSONResponse: true, Stateless: true}))
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	p.wg.Go(func() { p.server.Serve(l) }) //nolint:errcheck // ends when it is closed
	return l.Addr().String(), nil
}

func (p *peers) close() {
	if p.node != nil {
		p.node.Close()
	}
	if p.board != nil {
		p.board.Close()
	}
	if p.stop != nil {
		p.stop()
	}
	if p.server != nil {
		p.server.Close()
	}
	p.wg.Wait()
}
