package mcp

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/internal/hub"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/tool"
)

// FuzzPost posts any body to /mcp, in both eras. Each response is empty, a message, or a stream of
// messages.
func FuzzPost(f *testing.F) {
	r := newRig(f, rigOptions{open: true})
	all := mcptest.New(mcptest.Options{})
	r.register(f, hub.ProviderRef{ID: "fixtures", Kind: "fixtures"}, all, all.Tools()...)
	c := newCaller(r.server.Anonymous(), channelMCP)
	session, err := r.server.makeSession(r.server.newID(c, revisions[0], tool.Capabilities{}), channelMCP, revisions[0],
		tool.Capabilities{}, c)
	if err != nil {
		f.Fatal(err)
	}
	if err := r.server.sessions.add(session); err != nil {
		f.Fatal(err)
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"progressToken":1,"io.modelcontextprotocol/logLevel":"debug"}`
	for _, seed := range []struct{ body, version, method, name string }{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"eA"}}`, "", "", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_echo","arguments":{"text":"x"},` + meta +
			`}}`, statelessVersion, "tools/call", "test_echo"},
		{`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"test_x_mcp_header","arguments":{"region":"eu"},` + meta + `}}`, statelessVersion, "tools/call", "=?base64?dGVzdF94X21jcF9oZWFkZXI=?="},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_input_required_result_request_state","inputResponses":{"a":1},"requestState":"e30.00",` + meta + `}}`, statelessVersion, "tools/call", "test_input_required_result_request_state"},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"test_prompt_with_arguments","arguments":{"arg1":"x"}}}`, "2025-11-25", "", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}}`, "", "", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://static-text"}}`, "", "", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`, statelessVersion,
			"server/discover", ""},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "2025-03-26", "", ""},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "", "", ""},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, "", "", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"x","capabilities":{"roots":{}},"clientInfo":{}}}`, "", "", ""},
	} {
		f.Add([]byte(seed.body), seed.version, seed.method, seed.name)
	}
	f.Fuzz(func(t *testing.T, body []byte, version, method, name string) {
		if strings.Contains(string(body), "subscriptions/listen") || strings.Contains(string(body), "test_slow") ||
			strings.Contains(string(body), "test_reconnection") {
			t.Skip("they take their time")
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://localhost/mcp", strings.NewReader(string(body)))
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header["Mcp-Protocol-Version"], req.Header["Mcp-Method"], req.Header["Mcp-Name"] = []string{version},
			[]string{method}, []string{name}
		if version < statelessVersion {
			req.Header.Set("Mcp-Session-Id", session.id)
		}
		w := httptest.NewRecorder()
		r.server.ServeHTTP(w, req)
		text := w.Body.String()
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
			if text != "" && !json.Valid([]byte(text)) {
				t.Fatalf("%s is answered %q", body, text)
			}
			return
		}
		for line := range strings.Lines(text) {
			if data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: "); ok && data != "" &&
				!json.Valid([]byte(data)) {
				t.Fatalf("%s is answered with the event %q", body, data)
			}
		}
	})
}

// FuzzRokidArguments parses arguments in Rokid's dialect: the result is valid for the tools, or the
// error names what is missing.
func FuzzRokidArguments(f *testing.F) {
	f.Add("send_message", []byte(`{"botId":1,"message":"x","deviceId":"d"}`))
	f.Add("get_bot_info", []byte(`{"botId":"1"}`))
	f.Add("x", []byte(`[]`))
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		if !json.Valid(raw) {
			t.Skip()
		}
		args, e := rokidArguments(name, raw)
		if (args == nil) == (e == nil) {
			t.Fatalf("%s, %v", args, e)
		}
		var a struct {
			BotID, Message string
			Wait           *bool
		}
		if e == nil && (json.Unmarshal(args, &a) != nil || a.BotID == "" ||
			name == "send_message" && (a.Message == "" || a.Wait == nil)) {
			t.Fatalf("%s of %s become %s", name, raw, args)
		}
	})
}

// FuzzHeader compares headers with JSON values: a value that is encoded as specified is equal.
func FuzzHeader(f *testing.F) {
	f.Add("x")
	f.Add("=?base64?eA==?=")
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := decodeHeader(text)
		if !strings.HasPrefix(text, "=?base64?") && (!ok || got != text) {
			t.Fatalf("%q is read as %q, %t", text, got, ok)
		}
		value, err := json.Marshal(text)
		if err == nil && json.Valid(value) && strings.ToValidUTF8(text, "") == text && !sameValue(value, text) {
			t.Fatalf("%q is not itself", text)
		}
		if _, _, e := splitCursor(text); text == "" && e != nil {
			t.Fatal("no cursor is refused")
		}
	})
}
