package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/bots"
	"patchbay/internal/talk"
)

// seedReader reads the stream of the Rokid endpoint as its clients do: lines that begin with "data:
// ".
type seedReader struct {
	lines  chan string
	cancel context.CancelFunc
}

func (r *rig) openSeed(t *testing.T, path string, header http.Header) *seedReader {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s %s", path, resp.Status, body)
	}
	s := &seedReader{lines: make(chan string, 100), cancel: cancel}
	go func() {
		defer resp.Body.Close()
		defer close(s.lines)
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if in.Text() != "" {
				s.lines <- in.Text()
			}
		}
	}()
	return s
}

// next returns the next line.
func (s *seedReader) next(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-s.lines:
		if !ok {
			t.Fatal("the stream ended")
		}
		return line
	case <-time.After(testTimeout):
		t.Fatal("the stream says nothing")
	}
	return ""
}

// message returns the next line that is not a ping, as JSON.
func (s *seedReader) message(t *testing.T) map[string]any {
	t.Helper()
	for {
		line := s.next(t)
		text, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			t.Fatalf("a line that is not data: %q", line)
		}
		if text == `{"type":"ping"}` {
			continue
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return m
	}
}

func (r *rig) post(t *testing.T, path, body string, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// newRokid returns a rig with bots: 1 is open to anybody, 2 to one device, 3 only with a key.
func newRokid(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, rigOptions{shared: []func() any{func() any { return new(bots.Settings) }},
		mcp: Options{HasOpenBots: func(context.Context) (bool, error) { return true, nil }}})
	says := hubtest.Func(func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		return emit(talk.Text("echo: " + turn.Text()))
	})
	for _, set := range []map[string]string{{"mcp_open": "true"},
		{"mcp_open": "true", "rokid_device_id": "AR-G1-123456"}, {}} {
		r.AddScript(t, set, says)
	}
	asked := bots.New(bots.Options{Hub: r.Hub})
	t.Cleanup(asked.Close)
	r.register(t, bots.ProviderRef(), asked, bots.Tools()...)
	return r
}

// Rokid's dialect, as documented.
func TestRokidDialect(t *testing.T) {
	r := newRokid(t)
	s := r.openSeed(t, "/mcp/rokid/sse", nil)
	first := s.message(t)
	endpoint, _ := first["endpoint"].(string)
	if id, ok := strings.CutPrefix(endpoint, "/messages/?session_id="); !ok || len(id) != 32 || len(first) != 1 {
		t.Fatalf("the first event is %v", first)
	}

	header := http.Header{"X-Device-Id": {"AR-G1-123456"}}
	for _, c := range []struct {
		name, body string
		header     http.Header
		want       string // of the response, by JSON path = value
	}{
		{"list", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, nil,
			`"inputSchema":{"properties":{"botId":{"description":"Bot ID (required)","type":"string"},"deviceId":{"description":"Device ID for authentication (optional)","type":"string"},"message":{"description":"Message content to send to the bot","type":"string"}},"required":["botId","message"],"type":"object"},"name":"send_message"`},
		{"send", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"send_message","arguments":{"botId":"1","message":"你好，乐奇眼镜！","deviceId":"AR-G1-123456"}}}`, nil, `"message":"你好，乐奇眼镜！","status":"sent"`},
		{"send to a number",
			`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"send_message","arguments":{"botId":1,"message":"x"}}}`, nil, `"id":"a"`},
		{"info", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_bot_info","arguments":{"botId":"1"}}}`, nil, `"online":true`},
		{"the device in the header",
			`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"get_bot_info","arguments":{"botId":"2"}}}`,
			header, `"status":"active"`},
		{"the argument counts more",
			`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"get_bot_info","arguments":{"botId":"2","deviceId":"other"}}}`, header, `"error":{"code":-32603,"message":"Device unauthorized"}`},
		{"another device",
			`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"get_bot_info","arguments":{"botId":"2"}}}`,
			nil, `"error":{"code":-32603,"message":"Device unauthorized"}`},
		{"a closed bot",
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_bot_info","arguments":{"botId":"3"}}}`,
			nil, `"error":{"code":-32602,"message":"Bot not found: 3"},"id":7`},
		{"no bot", `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"get_bot_info","arguments":{}}}`,
			nil, `"error":{"code":-32602,"message":"Missing required parameter: botId"}`},
		{"no message",
			`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"send_message","arguments":{"botId":"1"}}}`,
			nil, `"error":{"code":-32602,"message":"Missing required parameter: message"}`},
		{"no tool", `{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"list_bots","arguments":{}}}`, nil,
			`"error":{"code":-32601,"message":"Unknown tool: list_bots"}`},
		{"no method", `{"jsonrpc":"2.0","id":11,"method":"what"}`, nil, `"error":{"code":-32601,`},
		{"a handshake, if somebody wants one",
			`{"jsonrpc":"2.0","id":12,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, nil, `"protocolVersion":"2024-11-05"`},
		{"ping", `{"jsonrpc":"2.0","id":13,"method":"ping"}`, nil, `"result":{}`},
	} {
		for _, path := range []string{endpoint, strings.Replace(endpoint, "/messages/", "/messages", 1)} {
			status, body := r.post(t, path, c.body, c.header)
			if status != http.StatusAccepted || body != "Accepted" {
				t.Errorf("%s: %d %q", c.name, status, body)
			}
			got, _ := json.Marshal(s.message(t)) // keys in order
			if !strings.Contains(string(got), c.want) {
				t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
			}
		}
	}
	for body, want := range map[string]string{
		`{`:                        `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`,
		`{"jsonrpc":"1.0","id":1}`: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`,
	} {
		if status, got := r.post(t, endpoint, body, nil); status != http.StatusBadRequest || got != want {
			t.Errorf("%s: %d %s", body, status, got)
		}
	}
	for _, id := range []string{"", "x", strings.Repeat("0", 32)} {
		status, got := r.post(t, "/messages/?session_id="+id, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil)
		if want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid session_id"}}`; status != http.StatusBadRequest || got != want {
			t.Errorf("session %q: %d %s", id, status, got)
		}
	}

	// A sent message is recorded, although nobody waited for the reply.
	deadline := time.Now().Add(testTimeout)
	for {
		list, err := r.Store.Traces.Newest(t.Context(), r.Person.ID, time.Now().Add(time.Minute), 10)
		if err == nil && len(list) > 0 && list[0].Channel == "mcp" && list[0].Outcome == "done" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no trace of the message: %+v, %v", list, err)
		}
	}
}

// The same address uses the standard dialect for clients that accept event streams, with results
// that clients of both dialects understand.
func TestRokidStandardDialect(t *testing.T) {
	r := newRokid(t)
	for path, accept := range map[string]string{"/mcp/rokid/sse": "text/event-stream",
		"/mcp/rokid/sse?dialect=mcp": "*/*"} {
		s := r.openSeed(t, path, http.Header{"Accept": {accept}})
		if line := s.next(t); line != "event: endpoint" {
			t.Fatalf("the first line is %q", line)
		}
		endpoint := strings.TrimPrefix(s.next(t), "data: ")
		r.post(t, endpoint,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send_message","arguments":{"botId":"1","message":"hi"}}}`, nil)
		if line := s.next(t); line != "event: message" {
			t.Errorf("the answer begins with %q", line)
		}
		answer := s.next(t)
		for _, want := range []string{`"content":[{"type":"text","text":"echo: hi"}]`, `"structuredContent":{`,
			`"isError":false`, `"status":"answered"`, `"reply":"echo: hi"`} {
			if !strings.Contains(answer, want) {
				t.Errorf("%s is missing in %s", want, answer)
			}
		}
	}
}

// Without an open bot, the endpoint requires a key, which opens all of its owner's bots. Sessions
// belong to their key.
func TestRokidAccess(t *testing.T) {
	r := newRokid(t)
	r.server.HasOpenBots = func(context.Context) (bool, error) { return false, nil }
	resp, err := http.Get(r.url + "/mcp/rokid/sse") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %s", resp.Status)
	}
	key := http.Header{"Authorization": {"Bearer " + r.key}}
	s := r.openSeed(t, "/mcp/rokid/sse", key)
	endpoint, _ := s.message(t)["endpoint"].(string)
	r.post(t, endpoint,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_bot_info","arguments":{"botId":"3"}}}`,
		key)
	if got, _ := json.Marshal(s.message(t)); !strings.Contains(string(got), `"status":"active"`) {
		t.Errorf("with a key: %s", got)
	}
	other := http.Header{"Authorization": {"Bearer " + r.addKey(t, "other", "")}}
	if status, _ := r.post(t, endpoint, `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		other); status != http.StatusBadRequest {
		t.Errorf("another key's session: %d", status)
	}
}

// A session survives a broken connection: messages sent meanwhile are delivered when the client
// reconnects.
func TestRokidReconnect(t *testing.T) {
	r := newRokid(t)
	s := r.openSeed(t, "/mcp/rokid/sse", nil)
	endpoint, _ := s.message(t)["endpoint"].(string)
	s.cancel()
	for range s.lines { // it ends
	}
	if status, _ := r.post(t, endpoint, `{"jsonrpc":"2.0","id":7,"method":"ping"}`,
		nil); status != http.StatusAccepted {
		t.Fatalf("while the client is away: %d", status)
	}
	_, id, _ := strings.Cut(endpoint, "?")
	s = r.openSeed(t, "/mcp/rokid/sse?"+id, nil)
	if again := s.message(t)["endpoint"]; again != endpoint {
		t.Errorf("the session is another: %v", again)
	}
	if m := s.message(t); m["id"] != 7.0 {
		t.Errorf("what was said meanwhile is lost: %v", m)
	}
}
