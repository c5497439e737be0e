package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newPeer returns a server of the official SDK.
func newPeer(versions ...string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "9"},
		&mcp.ServerOptions{SupportedProtocolVersions: versions, PageSize: 3})
	add := func(name string, h mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, Description: "does " + name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			h)
	}
	add("echo", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return words(string(r.Params.Arguments)), nil
	})
	add("progress", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3, Message: "step"})
			if err != nil {
				return nil, err
			}
		}
		return words("over"), nil
	})
	add("fail", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r := words("no such file")
		r.IsError = true
		return r, nil
	})
	add("refuse", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: -32007, Message: "not on Sundays", Data: json.RawMessage(`{"day":"Sunday"}`)}
	})
	add("grow", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add("grown", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return words("new"),
				nil
		})
		return words("grew"), nil
	})
	add("ask", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ping := r.Session.Ping(ctx, nil)
		_, roots := r.Session.ListRoots(ctx, nil) //lint:ignore SA1019 servers still ask for them
		return words(fmt.Sprintf("ping %v, roots %v", ping, roots)), nil
	})
	add("need", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if a, ok := r.Params.InputResponses["name"].(*mcp.ElicitResult); ok {
			return words(fmt.Sprintf("hello %v, state %s", a.Content["name"], r.Params.RequestState)), nil
		}
		return &mcp.CallToolResult{
			InputRequests: mcp.InputRequestMap{"name": &mcp.ElicitParams{Mode: "form", Message: "Your name?",
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)}},
			RequestState: "round 1",
		}, nil
	})
	s.AddTool(&mcp.Tool{
		Name: "region",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"where":{"type":"string","x-mcp-header":"Region"},` +
			`"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Deep-N"}}}}}`),
	}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return words(r.Extra.Header.Get("Mcp-Param-Region") + "/" + r.Extra.Header.Get("Mcp-Param-Deep-N")), nil
	})
	add("wait", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		select {
		case waiting <- struct{}{}:
		default:
		}
		select {
		case <-ctx.Done():
			select {
			case calledOff <- struct{}{}:
			default:
			}
		case <-time.After(2 * time.Second):
		}
		return nil, ctx.Err()
	})
	return s
}

// Signals of the tool wait, from all servers of this process.
var waiting, calledOff = make(chan struct{}, 100), make(chan struct{}, 100)

func words(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// serve serves over HTTP until the test ends.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv
}

func streamableServer(s *mcp.Server, opt *mcp.StreamableHTTPOptions) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, opt)
}

// peers are the servers that the test binary can run as a command.
var peers = map[string]func(){
	"sdk": func() {
		if err := newPeer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			log.Print(err)
		}
	},
	"asking": func() {
		if err := newAsking().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			log.Print(err)
		}
	},
	"modern": func() {
		lines(map[string]func(*message, func(string, ...any)){
			"initialize": func(m *message, write func(string, ...any)) {
				write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"gone"}}`, m.ID)
			},
			"server/discover": func(m *message, write func(string, ...any)) {
				write(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`, m.ID)
			},
		})
	},
	"silent": func() {
		lines(map[string]func(*message, func(string, ...any)){"initialize": func(*message, func(string, ...any)) {}})
	},
	"deaf": func() { // it reads nothing after the handshake
		lines(map[string]func(*message, func(string, ...any)){
			"tools/call": func(*message, func(string, ...any)) { <-time.After(time.Hour) },
		})
	},
	"misc": misc,
	"dies": func() {
		fmt.Fprintln(os.Stderr, "one")
		fmt.Fprintln(os.Stderr, "two")
		fmt.Fprintln(os.Stderr, strings.Repeat("long ", 10_000))
		fmt.Fprintln(os.Stderr, "the key is", os.Getenv("API_KEY"))
		fmt.Fprintln(os.Stderr, "giving up")
		os.Exit(3)
	},
}

// misc is a hand-written server; the argument of its tool selects what it does.
func misc() {
	fmt.Println("Welcome to the server!") // a banner, as many programs print
	fmt.Println("")
	lines(map[string]func(*message, func(string, ...any)){
		"tools/call": func(m *message, write func(string, ...any)) {
			var p struct {
				Arguments struct{ What string } `json:"arguments"`
			}
			if err := json.Unmarshal(m.Params, &p); err != nil {
				panic(err)
			}
			answer := func(text string) {
				raw, err := json.Marshal(text)
				if err != nil {
					panic(err)
				}
				write(`{"jsonrpc":"2.0","id":"%s","result":{"content":[{"type":"text","text":%s}]}}`, m.ID, raw)
			}
			switch p.Arguments.What {
			case "exit":
				fmt.Fprintln(os.Stderr, "exiting")
				os.Exit(7)
			case "env":
				answer(strings.Join(os.Environ(), "\n"))
			case "pid":
				answer(strconv.Itoa(os.Getpid()))
			case "child":
				child := exec.Command("sleep", "600")
				child.Stdout = os.Stdout // keeps the pipe open
				if err := child.Start(); err != nil {
					panic(err)
				}
				answer(strconv.Itoa(child.Process.Pid))
			case "huge, id first":
				write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, m.ID,
					strings.Repeat("x", maxMessage))
			case "huge, id last":
				write(`{"result":{"content":[{"type":"text","text":"%s"}]},"jsonrpc":"2.0","id":%s}`,
					strings.Repeat("x", maxMessage), m.ID)
			case "large":
				answer(strings.Repeat("x", maxResult))
			case "late":
				time.AfterFunc(300*time.Millisecond, func() { answer("late") })
			case "garbage":
				write(`{"jsonrpc":"2.0","id":%s,"result":"nothing"}`, m.ID)
			case "ask":
				write(`{"jsonrpc":"2.0","id":77,"method":"sampling/createMessage","params":{}}`)
				answer("asked")
			default:
				answer("fine")
			}
		},
	})
}
