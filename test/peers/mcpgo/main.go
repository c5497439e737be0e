// Command mcpgo is an MCP client or server built on mark3labs/mcp-go.
//
//	mcpgo [-sse] [-era legacy|auto] url token
//	mcpgo -serve 127.0.0.1:port
//
// As a client it reads commands and prints events, one JSON object per line, in the format of the
// programs in ../mcp (see commands.mjs), and ends with its standard input. It supports list, call,
// cancel, ping, listen, unlisten and close.
//
// As a server it offers the tool echo at /mcp, with sessions, and prints one
// line, {"event": "serving", "url": …}, when it can be called.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	address := flag.String("serve", "", "be a server at this address")
	sse := flag.Bool("sse", false, "speak HTTP+SSE of 2024-11-05")
	era := flag.String("era", "legacy", "legacy: begin with initialize; auto: with server/discover")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *address != "" {
		err = serve(ctx, *address)
	} else {
		err = obey(ctx, dialing{url: flag.Arg(0), token: flag.Arg(1), sse: *sse, modern: *era == "auto"}, os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcpgo:", err)
		os.Exit(1)
	}
}

// out is held while a line is printed, because several goroutines print.
var out sync.Mutex

func emit(event string, more map[string]any) {
	line := map[string]any{"event": event}
	for k, v := range more {
		line[k] = v
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

// serve runs the server until ctx ends.
func serve(ctx context.Context, address string) error {
	s := server.NewMCPServer("mcpgo", "1.0.0", server.WithToolCapabilities(true))
	s.AddTool(
		mcp.NewTool("echo", mcp.WithDescription("Says what it is told."), mcp.WithString("text", mcp.Required())),
		func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(r.GetString("text", "")), nil
		},
	)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", server.NewStreamableHTTPServer(s, server.WithStateful(true)))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := context.AfterFunc(ctx, func() { web.Close() })
	defer done()
	emit("serving", map[string]any{"url": "http://" + listener.Addr().String() + "/mcp"})
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
