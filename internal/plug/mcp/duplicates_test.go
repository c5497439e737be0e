package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"patchbay/internal/hub"
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
