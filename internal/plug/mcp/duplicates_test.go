package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"patchbay/internal/hub"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/tool"
)

// The status of a board is returned once, to clients of all revisions. Structured content declared
// by an outputSchema is returned to revisions that define it, and content that the text does not
// have is never dropped.
func TestResultsAreSaidOnce(t *testing.T) {
	r := newRig(t, rigOptions{})
	said := map[string]*tool.Result{
		"status": {Content: json.RawMessage(`[{"type":"text","text":"{\"volume\": 7}"}]`),
			Structured: json.RawMessage(`{"volume":7}`), Derived: true},
		"promised": tool.JSON(map[string]int{"volume": 7}),
		"other": {Content: json.RawMessage(`[{"type":"text","text":"louder"}]`),
			Structured: json.RawMessage(`{"volume":7}`)},
		"alone": {Structured: json.RawMessage(`{"volume":7}`)},
	}
	r.register(t, hub.ProviderRef{ID: "board:1", Owner: r.Person.ID, Slug: "desk", Kind: "board"},
		providerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) { return said[c.Tool], nil }),
		tool.Tool{Name: "status"}, tool.Tool{Name: "promised"}, tool.Tool{Name: "other"}, tool.Tool{Name: "alone"})
	for _, version := range append([]string{statelessVersion}, revisions...) {
		var ask func(string) string
		if version == statelessVersion {
			ask = func(name string) string {
				_, text := r.post(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+
					`","arguments":{},`+
					`"_meta":{"io.modelcontextprotocol/protocolVersion":"`+statelessVersion+
					`","io.modelcontextprotocol/clientCapabilities":{}}}}`, http.Header{
					"Authorization": {"Bearer " + r.key}, "Accept": {"application/json"},
					"Mcp-Protocol-Version": {statelessVersion}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {name},
				})
				return text
			}
		} else {
			c := r.connect(t, r.key, version)
			ask = func(name string) string {
				_, text := c.ask(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+
					`","arguments":{}}}`)
				return text
			}
		}
		for name, want := range map[string]struct{ text, structured bool }{
			"status": {true, false}, "promised": {true, version >= "2025-06-18"}, "other": {true, true},
			"alone": {false, true},
		} {
			got := ask("desk_" + name)
			if strings.Contains(got, `"type":"text"`) != want.text ||
				strings.Contains(got, `"structuredContent"`) != want.structured {
				t.Errorf("%s in %s: %s", name, version, got)
			}
		}
	}
}

// A result that its own output schema does not allow is refused in words, and one that it demands
// reaches all clients, also if it was only parsed out of the text.
func TestResultsFitTheirSchema(t *testing.T) {
	r := newRig(t, rigOptions{})
	text := func(s string) json.RawMessage {
		b, _ := json.Marshal([]map[string]string{{"type": "text", "text": s}})
		return b
	}
	many := `{"n":1,"more":[` + strings.Repeat(`{"a":1},`, 200_000) + `{}]}`
	results := map[string]*tool.Result{
		"fits":    tool.JSON(map[string]int{"n": 7}),
		"derived": {Content: text(`{"n":7}`), Structured: json.RawMessage(`{"n":7}`), Derived: true},
		"wrong":   {Content: text("x"), Structured: json.RawMessage(`{"n":"no number"}`)},
		"more":    {Content: text("x"), Structured: json.RawMessage(`{"n":7,"m":8}`)},
		"lacking": {Content: text("x"), Structured: json.RawMessage(`{}`)},
		"missing": {Content: text("x")},
		"failed":  {Content: text("no such thing"), IsError: true},
		"costly":  {Content: text("x"), Structured: json.RawMessage(many)},
		"deep": {Content: text("x"), Structured: json.RawMessage(`{"n":1,"more":[{"a":` + strings.Repeat("[", 100) +
			strings.Repeat("]", 100) + `}]}`)},
	}
	var tools []tool.Tool
	for name := range results {
		schema := `{"type":"object","properties":{"n":{"type":"number","minimum":2}},"required":["n"],` +
			`"additionalProperties":false}`
		if name == "costly" || name == "deep" {
			schema = `{"type":"object","properties":{"n":{"type":"number"},` +
				`"more":{"type":"array","items":{"type":"object"}}}}`
		}
		tools = append(tools, tool.Tool{Name: name, Output: json.RawMessage(schema)})
	}
	r.register(t, hub.ProviderRef{ID: "test", Owner: r.Person.ID, Slug: "x", Kind: "test"},
		providerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) { return results[c.Tool], nil }),
		tools...)
	const refused = "The tool was carried out, but its result "
	wants := map[string]string{
		"fits": `"structuredContent":{"n":7}`, "derived": `"structuredContent":{"n":7}`,
		"wrong":   refused + "does not fit its output schema: n must be number, not string.",
		"more":    refused + "does not fit its output schema: unknown member m.",
		"lacking": refused + "does not fit its output schema: missing n.",
		"missing": refused + "has no structured content", "failed": "no such thing",
		"costly": `"structuredContent":{"n":1,`, "deep": `"structuredContent":{"n":1,`,
	}
	for _, version := range revisions {
		c := r.connect(t, r.key, version)
		for name, want := range wants {
			_, got := c.ask(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x_`+name+
				`","arguments":{}}}`)
			if !strings.Contains(got, want) || strings.Contains(got, `"isError":true`) != strings.Contains(want, " ") {
				t.Errorf("%s in %s: %.300s", name, version, got)
			}
		}
	}
	for _, way := range []string{"streamable", "legacy", "modern"} {
		peer := mcptest.TypeScript(t, way, r.url+"/mcp", r.key)
		peer.Do("list", nil) // it checks results against the schemas that it has read
		for name, want := range wants {
			tag := peer.Start("call", map[string]any{"name": "x_" + name, "args": map[string]any{}})
			if got := peer.Finish(tag); got.Name() != "call" {
				t.Errorf("%s: %s fails with %v, want %s", way, name, got, want)
			}
		}
	}
}
