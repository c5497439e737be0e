package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/plug/mcp/upstream"
)

// scriptedUpstream starts an MCP server that only lists tools, and answers each call with the
// result of that tool.
func scriptedUpstream(t testing.TB, list string, results map[string]string) upstream.Settings {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, result := jsonrpc.Member(body, "id"), ""
		switch jsonrpc.Text(jsonrpc.Member(body, "method")) {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
		case "tools/list":
			result = `{"tools":[` + list + `]}`
		case "tools/call":
			result = results[jsonrpc.Text(jsonrpc.Member(jsonrpc.Member(body, "params"), "name"))]
		}
		switch w.Header().Set("Content-Type", "application/json"); {
		case id == nil:
			w.WriteHeader(http.StatusAccepted)
		case result == "":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"none"}}`, id)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
		}
	}))
	t.Cleanup(web.Close)
	return upstream.Settings{URL: web.URL}
}

// oddTools are parts of tools that a client may refuse, and its whole list with them.
var oddTools = []string{
	`"inputSchema":{"type":"object"},"outputSchema":{}`,
	`"inputSchema":{"type":"object"},"outputSchema":{"type":"string"}`,
	`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":true,"b":false}}`,
	`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"pattern":"(?i)x"}}}`,
	`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"pattern":"("}}}`,
	`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}}}`,
	`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"type":"text"}}}`,
	`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"minimum":"1"}}}`,
	`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"nullable":true}}}`,
	`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","$defs":{"a":{"$id":"x"}}}`,
	`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","$defs":{"a":{"$id":"x","type":"null"}}}`,
	`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","$schema":7}`,
	`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":"a"}`,
	`"inputSchema":{"properties":[]}`, `"inputSchema":{"properties":{"a":7}}`, `"inputSchema":{"properties":{"a":true}}`,
	`"inputSchema":{"properties":{"a":null}}`, `"inputSchema":{"properties":null,"required":null}`,
	`"inputSchema":{"required":"a"}`, `"inputSchema":{"required":[7]}`, `"inputSchema":{"Type":"object"}`,
	`"inputSchema":{"$ref":"#/none"}`, `"inputSchema":{"properties":{"a":{"pattern":"("}}}`,
	`"inputSchema":{},"annotations":{"title":null}`, `"inputSchema":{},"annotations":null,"icons":null,"_meta":null`,
	`"inputSchema":{},"icons":[{"src":"data:,x","theme":"blue"}]`, `"inputSchema":{},"icons":[{"src":7}]`,
	`"inputSchema":{},"title":null,"description":null`, `"inputSchema":{},"execution":{"taskSupport":7}`,
}

// One tool of a server, whatever it says, does not take the others from any client.
func TestOddToolsInClients(t *testing.T) {
	var list []string
	for i, odd := range oddTools {
		list = append(list, fmt.Sprintf(`{"name":"odd%d",%s}`, i, odd))
	}
	list = append(list, `{"name":"last","inputSchema":{"type":"object"}}`)
	r := newRig(t, rigOptions{})
	addUpstream(t, r, upstream.Spec{Slug: "srv", Settings: scriptedUpstream(t, strings.Join(list, ","), nil)})

	_, text := r.connect(t, r.key, "2025-11-25").ask(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`)
	var answer struct{ Result sdk.ListToolsResult }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Result.Tools) < len(oddTools)/2 {
		t.Errorf("the Go SDK reads %d tools, %v", len(answer.Result.Tools), err)
	}
	for _, way := range []string{"streamable", "legacy", "modern", "auto"} {
		t.Run(way, func(t *testing.T) {
			var listed []struct{ Name string }
			err := mcptest.TypeScript(t, way, r.url+"/mcp", r.key).Do("list", nil).Decode("tools", &listed)
			if err != nil || len(listed) != len(answer.Result.Tools) {
				t.Errorf("%d tools are listed, want %d: %v", len(listed), len(answer.Result.Tools), err)
			}
		})
	}
}
