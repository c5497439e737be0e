package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" // on a listener of its own
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/bus"
	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/observe"
	"patchbay/internal/plug/mcp"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const (
	echoAbout  = "Says what it is told."
	echoSchema = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`
)

// serve runs one of the servers until standard input ends.
func serve(name string) error {
	switch name {
	case "plain":
		return serveHTTP(http.HandlerFunc(plain), "")
	case "sdk":
		return serveHTTP(officialSDK(&sdk.StreamableHTTPOptions{JSONResponse: true}), "")
	case "sdk-stateless":
		return serveHTTP(officialSDK(&sdk.StreamableHTTPOptions{JSONResponse: true, Stateless: true}), "")
	case "patchbay":
		return servePatchbay()
	}
	return fmt.Errorf("there is no server %q", name)
}

// serveHTTP serves until standard input ends, and prints its address.
func serveHTTP(h http.Handler, key string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	debug, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10}
	go s.Serve(l)             //nolint:errcheck // ends with the process
	go http.Serve(debug, nil) //nolint:errcheck,gosec // ends with the process
	err = json.NewEncoder(os.Stdout).Encode(process{URL: "http://" + l.Addr().String() + "/mcp", Key: key,
		Debug: "http://" + debug.Addr().String()})
	if err == nil {
		_, err = io.Copy(io.Discard, os.Stdin)
	}
	s.Close()
	return err
}

// request is a request to the plain handler.
type request struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  struct {
		Name      string `json:"name"`
		Arguments struct {
			Text *string `json:"text"`
		} `json:"arguments"`
		Meta map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
}

// response is a response of the plain handler.
type response struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  callResult      `json:"result"`
}

type callResult struct {
	Type    string         `json:"resultType,omitempty"`
	Content []content      `json:"content"`
	Meta    map[string]any `json:"_meta,omitempty"`
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// plain parses, validates and answers a call, of revisions with and without sessions.
func plain(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var q request
	if err != nil || json.Unmarshal(body, &q) != nil || q.JSONRPC != "2.0" || q.ID == nil || q.Method != "tools/call" ||
		q.Params.Name != "echo" || q.Params.Arguments.Text == nil {
		http.Error(w, "this is no call of echo", http.StatusBadRequest)
		return
	}
	a := response{JSONRPC: "2.0", ID: q.ID, Result: callResult{Content: []content{{Type: "text",
		Text: *q.Params.Arguments.Text}}}}
	if version := r.Header.Get("Mcp-Protocol-Version"); version != "" {
		var said string
		if json.Unmarshal(q.Params.Meta["io.modelcontextprotocol/protocolVersion"], &said) != nil || said != version ||
			r.Header.Get("Mcp-Method") != q.Method || r.Header.Get("Mcp-Name") != q.Params.Name {
			http.Error(w, "headers and body do not agree", http.StatusBadRequest)
			return
		}
		a.Result.Type = "complete"
		a.Result.Meta = map[string]any{"io.modelcontextprotocol/serverInfo": map[string]string{"name": "plain",
			"version": "1"}}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(a) //nolint:errcheck // the client has left
}

// officialSDK returns a server of the official SDK.
func officialSDK(o *sdk.StreamableHTTPOptions) http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "go-sdk", Version: "1"}, nil)
	s.AddTool(
		&sdk.Tool{Name: "echo", Description: echoAbout, InputSchema: json.RawMessage(echoSchema),
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var args struct{ Text string }
			if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
				return nil, err
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: args.Text}}}, nil
		},
	)
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, o)
}

// echo is a provider in the process whose tool returns its text.
type echo struct{}

func (echo) Call(_ context.Context, c *tool.Call) (*tool.Result, error) {
	for in := jsonrpc.Scan(c.Args); in.Next(); {
		if string(in.Key) == "text" {
			block := append([]byte(`[{"type":"text","text":`), in.Value...) // raw JSON is passed on
			return &tool.Result{Content: append(block, "}]"...)}, nil
		}
	}
	return nil, tool.Fail(tool.BadArgs, "There is no text.", nil)
}

func echoTool(name string) tool.Tool {
	return tool.Tool{Name: name, Description: echoAbout, Input: json.RawMessage(echoSchema),
		Hints: tool.ReadOnlyHints()}
}

// servePatchbay serves the endpoints on a whole hub, like the program.
func servePatchbay() error {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "patchbay-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	db, err := store.Open(ctx, store.Options{Folder: folder})
	if err != nil {
		return err
	}
	defer db.Close()
	box, err := seal.Open(folder)
	if err != nil {
		return err
	}
	messages, err := bus.Open(ctx, bus.Options{})
	if err != nil {
		return err
	}
	defer messages.Close()
	log, metrics := observe.NewLogger(os.Stderr, "info", "text"), prometheus.NewRegistry()
	h, err := hub.New(hub.Options{Store: db, Registry: hub.NewRegistry(db, box, nil), Bus: messages, Logger: log,
		Registerer: metrics})
	if err != nil {
		return err
	}
	defer h.Close()
	registration, err := h.Register(hub.ProviderRef{ID: "echo", Kind: "echo"}, echo{})
	if err != nil {
		return err
	}
	registration.SetTools([]tool.Tool{echoTool("echo")})
	addTool(registration)
	accounts := account.New(db, box, nil)
	key, err := newKey(ctx, accounts)
	if err != nil {
		return err
	}
	handlers := mcp.New(mcp.Options{
		Hub: h, Accounts: account.NewRecent(accounts), Guard: account.NewGuard(10, nil), Box: box, Logger: log,
		Registerer: metrics,
		Address:    observe.Addresses{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}.ClientAddress,
		Version:    "bench",
	})
	defer handlers.Close()
	mux := http.NewServeMux()
	mux.Handle("/mcp", handlers)
	mux.HandleFunc("GET /mcp/sse", handlers.ServeSSE)
	mux.HandleFunc("POST /mcp/messages", handlers.ServeMessages)
	return serveHTTP(observe.HandleRequests(log, metrics, mux), key)
}

func newKey(ctx context.Context, accounts *account.Service) (string, error) {
	person, err := accounts.AddPerson(ctx, "bench", account.RoleAdmin, "en", "")
	if err != nil {
		return "", err
	}
	_, secret, err := accounts.AddKey(ctx, account.NewKey{Person: person.ID,
		Name: "bench", Scopes: []string{account.ScopeMCP}})
	return secret, err
}

// addTool adds a debug endpoint that adds a tool, of which all sessions must be notified.
func addTool(s *hub.Registration) {
	var offered atomic.Int64
	http.HandleFunc("POST /offer", func(http.ResponseWriter, *http.Request) {
		s.SetTools([]tool.Tool{echoTool("echo"), echoTool(fmt.Sprintf("echo-%d", offered.Add(1)))})
	})
}
