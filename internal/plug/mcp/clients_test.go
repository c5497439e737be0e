package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/bots"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// fixtures is a rig with the suite's fixtures, and a channel of canceled slow calls.
type fixtures struct {
	*rig
	socket  *hub.Registration
	stopped chan string
}

func newFixtures(t *testing.T) *fixtures {
	t.Helper()
	f := &fixtures{rig: newRig(t, rigOptions{}), stopped: make(chan string, 10)}
	all := mcptest.New(mcptest.Options{
		ToolsChanged:    func(tools []tool.Tool) { f.socket.SetTools(tools) },
		PromptsChanged:  func() { f.socket.NotifyContentChanged() },
		ResourceUpdated: func(uri string) { f.socket.NotifyResourceUpdated(uri) },
		Stopped:         func(id string) { f.stopped <- id },
	})
	f.socket = f.register(t, hub.ProviderRef{ID: "fixtures", Kind: "fixtures"}, all, all.Tools()...)
	return f
}

// Third-party clients connect, list, call with progress, get a change notification, and cancel.
func TestClients(t *testing.T) {
	for name, connect := range map[string]func(t *testing.T, f *fixtures) *mcptest.Peer{
		"TypeScript, streamable": func(t *testing.T, f *fixtures) *mcptest.Peer {
			return mcptest.TypeScript(t, "streamable", f.url+"/mcp", f.key)
		},
		"TypeScript, SSE": func(t *testing.T, f *fixtures) *mcptest.Peer {
			return mcptest.TypeScript(t, "sse", f.url+"/mcp/sse", f.key)
		},
		"TypeScript 2, stateless": func(t *testing.T, f *fixtures) *mcptest.Peer {
			return mcptest.TypeScript(t, "modern", f.url+"/mcp", f.key)
		},
		"TypeScript 2, whatever works": func(t *testing.T, f *fixtures) *mcptest.Peer {
			return mcptest.TypeScript(t, "auto", f.url+"/mcp", f.key)
		},
		"mcp-go, streamable": func(t *testing.T, f *fixtures) *mcptest.Peer {
			return mcptest.MCPGo(t, "streamable", f.url+"/mcp", f.key)
		},
		"mcp-go, stateless": func(t *testing.T, f *fixtures) *mcptest.Peer {
			return mcptest.MCPGo(t, "auto", f.url+"/mcp", f.key)
		},
		"mcp-go, SSE": func(t *testing.T, f *fixtures) *mcptest.Peer {
			return mcptest.MCPGo(t, "sse", f.url+"/mcp/sse", f.key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixtures(t)
			p := connect(t, f)
			var listed struct{ Tools []struct{ Name string } }
			if err := p.Do("list", nil).Decode("tools", &listed.Tools); err != nil || len(listed.Tools) < 30 {
				t.Fatalf("%d tools are listed, %v", len(listed.Tools), err)
			}
			if got := p.Call("test_echo", map[string]any{"text": "héllo <b>"}).Text(); !strings.Contains(got,
				"héllo <b>") {
				t.Errorf("echo says %q", got)
			}
			tag := p.Start("call", map[string]any{"name": "test_tool_with_progress", "args": map[string]any{},
				"progress": true})
			p.Until("progress", nil)
			p.Finish(tag)

			if strings.HasPrefix(name, "TypeScript 2") || name == "mcp-go, stateless" {
				p.Start("listen", map[string]any{"filter": map[string]any{"toolsListChanged": true}})
			}
			changed := func(e mcptest.Event) bool { return e["method"] == "notifications/tools/list_changed" }
			p.Call("test_echo", map[string]any{"text": "the stream is open by now"})
			f.changeUntil(t, func() { p.Until("notified", changed) })

			slow := p.Start("call", map[string]any{"name": "test_slow", "args": map[string]any{"ms": 60_000},
				"progress": true})
			p.Until("progress", func(e mcptest.Event) bool { return e["tag"] == slow })
			p.Do("cancel", map[string]any{"call": slow})
			// mcp-go sends no cancellation with sessions over HTTP.
			if name != "mcp-go, streamable" && name != "mcp-go, SSE" {
				select {
				case <-f.stopped:
				case <-time.After(testTimeout):
					t.Error("the tool was not told that its call is cancelled")
				}
			}
			if e := p.Finish(slow); e.Name() != "failed" {
				t.Errorf("the cancelled call ended with %v", e)
			}
		})
	}
}

// changeUntil changes the tool list until reported returns: repeatedly, since a client may not
// listen yet.
func (f *fixtures) changeUntil(t *testing.T, reported func()) {
	t.Helper()
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := f.Hub.Call(context.Background(), hub.Access{Caller: tool.Caller{Person: f.Person.ID}},
				"test_trigger_tool_change", &tool.Call{}); err != nil {
				t.Error(err)
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	reported()
	close(done)
	<-ended
}

// The official Go SDK, in all revisions.
func TestGoSDK(t *testing.T) {
	for name, transport := range map[string]func(f *fixtures) sdk.Transport{
		"streamable": func(f *fixtures) sdk.Transport {
			return &sdk.StreamableClientTransport{Endpoint: f.url + "/mcp", HTTPClient: withKey(f.key)}
		},
		"SSE": func(f *fixtures) sdk.Transport {
			return &sdk.SSEClientTransport{Endpoint: f.url + "/mcp/sse", HTTPClient: withKey(f.key)}
		},
		"the older endpoint": func(f *fixtures) sdk.Transport {
			return &sdk.SSEClientTransport{Endpoint: f.url + "/mcp/rokid/sse", HTTPClient: withKey(f.key)}
		},
	} {
		for _, version := range []string{"", "2025-06-18", "2024-11-05"} {
			if version == "" && name != "streamable" {
				continue // these transports have sessions
			}
			t.Run(name+" "+version, func(t *testing.T) {
				f := newFixtures(t)
				f.AddScript(t, nil, hubtest.Func(func(context.Context, *talk.Turn, talk.Emit) error { return nil }))
				asked := bots.New(bots.Options{Hub: f.Hub})
				t.Cleanup(asked.Close)
				f.register(t, bots.ProviderRef(), asked, bots.Tools()...)
				changed := make(chan struct{}, 100)
				client := sdk.NewClient(&sdk.Implementation{Name: "go-sdk", Version: "1"}, &sdk.ClientOptions{
					ToolListChangedHandler: func(context.Context,
						*sdk.ToolListChangedRequest) {
						changed <- struct{}{}
					},
				})
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				session, err := client.Connect(ctx, transport(f), &sdk.ClientSessionOptions{ProtocolVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				n := 0
				for _, err := range session.Tools(ctx, nil) {
					if err != nil {
						t.Fatal(err)
					}
					n++
				}
				if name == "the older endpoint" {
					if n != 2 {
						t.Errorf("the older endpoint has %d tools", n)
					}
					res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "get_bot_info",
						Arguments: map[string]any{"botId": "1"}})
					if err != nil || res.IsError {
						t.Errorf("%+v, %v", res, err)
					}
					return
				}
				res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "test_echo",
					Arguments: map[string]any{"text": "x"}})
				if err != nil || res.IsError || len(res.Content) != 1 {
					t.Fatalf("%+v, %v", res, err)
				}
				if _, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: "test://static-text"}); err != nil {
					t.Error(err)
				}
				if version != "" { // the stateless client of the SDK does not listen by itself
					f.changeUntil(t, func() {
						select {
						case <-changed:
						case <-time.After(testTimeout):
							t.Error("the client did not hear that the tools have changed")
						}
					})
				}
				calling, stop := context.WithCancel(ctx)
				time.AfterFunc(100*time.Millisecond, stop)
				if _, err := session.CallTool(calling, &sdk.CallToolParams{Name: "test_slow",
					Arguments: map[string]any{"ms": 60_000}}); !errors.Is(err, context.Canceled) {
					t.Errorf("a cancelled call: %v", err)
				}
				select {
				case <-f.stopped:
				case <-time.After(testTimeout):
					t.Error("the tool was not told that its call is cancelled")
				}
			})
		}
	}
}

// withKey returns an HTTP client that sends a key.
func withKey(key string) *http.Client {
	return &http.Client{Transport: keyed(key)}
}

type keyed string

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// mcp-remote, which connects clients that support standard input and output only.
func TestMCPRemote(t *testing.T) {
	for transport, path := range map[string]string{"http-only": "/mcp", "sse-only": "/mcp/sse"} {
		t.Run(transport, func(t *testing.T) {
			f := newFixtures(t)
			cmd := mcptest.MCPRemote(t, f.url+path, f.key, transport)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				in.Close()
				cmd.Process.Kill() //nolint:errcheck // it may have ended
				cmd.Wait()         //nolint:errcheck // it was killed
			}()
			lines := bufio.NewScanner(out)
			lines.Buffer(nil, 16<<20)
			ask := func(msg, want string) {
				t.Helper()
				if _, err := in.Write([]byte(msg + "\n")); err != nil {
					t.Fatal(err)
				}
				for want != "" {
					if !lines.Scan() {
						t.Fatalf("it ended: %v", lines.Err())
					}
					if strings.Contains(lines.Text(), want) {
						return
					}
				}
			}
			ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, `"serverInfo"`)
			ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "")
			ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `"test_echo"`)
			ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"test_echo","arguments":{"text":"through"}}}`, `through`)
			f.changeUntil(t, func() {
				ask(`{"jsonrpc":"2.0","id":4,"method":"ping"}`,
					"notifications/tools/list_changed")
			})
			ask(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"test_slow","arguments":{"ms":60000},"_meta":{"progressToken":5}}}`, `notifications/progress`)
			ask(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, "")
			select {
			case <-f.stopped:
			case <-time.After(testTimeout):
				t.Error("the tool was not told that its call is cancelled")
			}
		})
	}
}

// Third-party clients with the Rokid endpoint, in the standard dialect.
func TestClientsOfRokidChannel(t *testing.T) {
	for name, connect := range map[string]func(*testing.T, *rig) *mcptest.Peer{
		"TypeScript": func(t *testing.T, r *rig) *mcptest.Peer {
			return mcptest.TypeScript(t, "sse", r.url+"/mcp/rokid/sse", r.key)
		},
		"mcp-go": func(t *testing.T, r *rig) *mcptest.Peer {
			return mcptest.MCPGo(t, "sse", r.url+"/mcp/rokid/sse", r.key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := connect(t, newRokid(t))
			var listed []struct{ Name string }
			if err := p.Do("list", nil).Decode("tools", &listed); err != nil || len(listed) != 2 {
				t.Errorf("it lists %v, %v", listed, err)
			}
			if got := p.Call("send_message", map[string]any{"botId": "3",
				"message": "hello"}).Text(); got != "echo: hello" {
				t.Errorf("the bot says %q", got)
			}
			if e := p.Finish(p.Start("call", map[string]any{"name": "list_bots",
				"args": map[string]any{}})); e.Name() != "failed" && !strings.Contains(e.Text(), "not allowed") {
				t.Errorf("a tool that this endpoint has not: %v", e)
			}
		})
	}
}

// The inspector's command line, with each transport and era.
func TestInspector(t *testing.T) {
	f := newFixtures(t)
	for name, args := range map[string][]string{
		"legacy": {f.url + "/mcp", "--protocol-era", "legacy"}, "auto": {f.url + "/mcp", "--protocol-era", "auto"},
		"modern": {f.url + "/mcp", "--protocol-era", "modern"}, "SSE": {f.url + "/mcp/sse", "--transport", "sse"},
	} {
		t.Run(name, func(t *testing.T) {
			list := mcptest.Inspect(t, args[0], f.key, append(args[1:], "--method", "tools/list")...)
			if !strings.Contains(string(list), "test_echo") {
				t.Errorf("it lists %.300s", list)
			}
			res := mcptest.Inspect(t, args[0], f.key, append(args[1:], "--method", "tools/call", "--tool-name",
				"test_echo", "--tool-arg", "text=seen")...)
			if !strings.Contains(string(res), "seen") || !json.Valid(res) {
				t.Errorf("it says %.300s", res)
			}
			if name != "modern" {
				return
			}
			res = mcptest.Inspect(t, args[0], f.key, append(args[1:], "--method", "tools/call", "--tool-name",
				"slow_compute", "--tool-arg", "seconds=1", "--tool-arg", "label=pi")...)
			if n := testutil.ToFloat64(f.server.metrics.tasks.WithLabelValues("completed")); n != 1 ||
				!strings.Contains(string(res), "Computed pi.") {
				t.Errorf("after %v tasks it says %.300s", n, res)
			}
		})
	}
}
