package mcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/netx"
	"patchbay/internal/tool"
)

// awaitListeners waits until so many clients listen.
func (r *rig) awaitListeners(t *testing.T, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	for r.server.listeners.count() != want {
		if netx.Wait(ctx, time.Millisecond) != nil {
			t.Fatalf("%d clients listen, want %d", r.server.listeners.count(), want)
		}
	}
}

// openRaw sends a request for a stream over a connection of its own, and reads the head of the
// response.
func (c *client) openRaw(t *testing.T, method, path, body string) (net.Conn, *http.Response) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout)) //nolint:errcheck // the next read fails too
	var head strings.Builder
	for name, values := range c.header {
		if name != "Mcp-Session-Id" || body == "" {
			fmt.Fprintf(&head, "%s: %s\r\n", name, values[0])
		}
	}
	if body != "" {
		fmt.Fprintf(&head, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
		head.WriteString("Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n")
	}
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s", method, path, head.String(), body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return conn, resp
}

const listenBody = `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}},"notifications":{"toolsListChanged":true}}}`

// A stream that waits has left net/http. It ends with its connection, and the other way round: when
// the client disconnects, when it sends more on this connection, and when the server stops.
func TestStreamHasItsConnection(t *testing.T) {
	for name, x := range map[string]struct{ method, path, body, first string }{
		"streamable":    {"GET", "/mcp", "", ":"},
		"HTTP+SSE":      {"GET", "/mcp/sse", "", "event: endpoint"},
		"subscriptions": {"POST", "/mcp", listenBody, "event: message"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			c := r.connect(t, r.key, "2025-11-25")
			for _, leave := range []string{"disconnect", "send more", "the server stops"} {
				conn, resp := c.openRaw(t, x.method, x.path, x.body)
				if !resp.Close || resp.ContentLength != -1 || resp.Header.Get("Content-Type") != "text/event-stream" ||
					resp.Header.Get("X-Request-Id") == "" || resp.Header.Get("Date") == "" {
					t.Errorf("%s, head: %v %v", resp.Status, resp.Close, resp.Header)
				}
				lines := bufio.NewReader(resp.Body)
				if line, err := lines.ReadString('\n'); err != nil || strings.TrimSpace(line) != x.first {
					t.Errorf("the stream begins with %q, %v", line, err)
				}
				r.awaitListeners(t, 1)
				switch leave {
				case "disconnect":
					conn.Close()
				case "send more":
					fmt.Fprint(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
				default:
					r.server.Drain()
				}
				r.awaitListeners(t, 0)
				if rest, err := io.ReadAll(lines); leave == "the server stops" && err != nil {
					t.Errorf("the stream ends with %q, %v", rest, err)
				}
			}
		})
	}
}

// Over HTTP/2, whose connections carry other requests too, a stream stays where it is.
func TestStreamOverHTTP2(t *testing.T) {
	r := newRig(t, rigOptions{})
	web := httptest.NewUnstartedServer(r.server)
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	c := r.connect(t, r.key, "2025-11-25")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = c.header
	resp, err := web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); resp.ProtoMajor != 2 || err != nil || line != ":\n" {
		t.Fatalf("%s: %q, %v", resp.Proto, line, err)
	}
	r.awaitListeners(t, 1)
	r.register(t, hub.ProviderRef{ID: "a", Kind: "k"}, providerFunc(func(context.Context, *tool.Call) (*tool.Result,
		error) {
		return tool.Text("x"), nil
	}), tool.Tool{Name: "new"})
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "tools/list_changed") {
			break
		}
	}
	resp.Body.Close()
	r.awaitListeners(t, 0)
}
