package xiaozhi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/wire"
)

// Browsers ask what a page of another origin may send, and hand it the answer only with the header
// that allows it.
func TestOrigins(t *testing.T) {
	for _, c := range []struct {
		name          string
		origins       xiaozhi.Origins
		origin, fetch string // headers
		allowed       string // "": refused
	}{
		{"any page", xiaozhi.Origins{"*"}, "https://talk.example", "cross-site", "*"},
		{"a file", xiaozhi.Origins{"*"}, "null", "cross-site", "*"},
		{"one of the list", xiaozhi.Origins{"http://localhost:8006", "https://talk.example"}, "https://talk.example", "",
			"https://talk.example"},
		{"another", xiaozhi.Origins{"https://talk.example"}, "https://talk.example.org", "cross-site", ""},
		{"a file that is not in the list", xiaozhi.Origins{"https://talk.example"}, "null", "", ""},
		{"the server's own", nil, "http://board.example:8080", "", "http://board.example:8080"},
		{"the server's own behind a proxy", nil, "https://talk.example", "same-origin", "https://talk.example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			called := false
			h := c.origins.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
			ask := func(method string, more ...string) *http.Response {
				r := httptest.NewRequest(method, "http://board.example:8080/xiaozhi/ota/", nil)
				r.Header.Set("Origin", c.origin)
				if c.fetch != "" {
					r.Header.Set("Sec-Fetch-Site", c.fetch)
				}
				for i := 0; i < len(more); i += 2 {
					r.Header.Set(more[i], more[i+1])
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w.Result()
			}
			before := ask(http.MethodOptions, "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "client-id,content-type,device-id")
			if called {
				t.Error("the question of the browser is taken for a request")
			}
			after := ask(http.MethodPost)
			for _, r := range []*http.Response{before, after} {
				if got := r.Header.Get("Access-Control-Allow-Origin"); got != c.allowed ||
					r.Header.Get("Access-Control-Allow-Credentials") != "" ||
					c.allowed != "*" && r.Header.Get("Vary") != "Origin" {
					t.Errorf("allowed is %q: %v", got, r.Header)
				}
			}
			if ok := c.allowed != ""; called != ok || ok != (before.StatusCode == http.StatusNoContent) ||
				ok != (after.StatusCode == http.StatusOK) {
				t.Errorf("before: %s, after: %s", before.Status, after.Status)
			}
		})
	}
}

// The test page of xiaozhi-esp32-server (main/xiaozhi-server/test/js/xiaoZhiConnect.js) gets its
// configuration from another origin, with a header of its own, and connects with what it got in the
// query of the WebSocket. Its hello names no transport and no audio format.
func TestPageOfOthers(t *testing.T) {
	ctx := limit(t, 30*time.Second)
	h := newTestServer(t, testServerOptions{})
	const origin, id, client = "http://localhost:8006", "00:11:22:33:44:55", "web_test_client"
	at := h.http.URL + xiaozhi.OTAPath
	before := h.fromPage(ctx, http.MethodOptions, at, origin, "", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "agent-id,client-id,content-type,device-id")
	if before.StatusCode != http.StatusNoContent || before.Header.Get("Access-Control-Allow-Origin") != "*" ||
		before.Header.Get("Access-Control-Allow-Headers") != "Authorization, *" {
		t.Fatalf("the browser is told: %s %v", before.Status, before.Header)
	}
	got := h.fromPage(ctx, http.MethodPost, at, origin, `{"version":0,"uuid":"","application":{"name":"xiaozhi-web-test","version":"1.0.0"},"ota":{"label":"xiaozhi-web-test"},"board":{"type":"xiaozhi-web-test","rssi":0,"mac":"`+id+`"},"flash_size":0,"minimum_free_heap_size":0,"mac_address":"`+id+`","chip_info":{"model":0},"partition_table":[{"label":"","type":0}]}`,
		"Device-Id", id, "Client-Id", client, "Agent-Id", "1")
	var config wire.OTAResponse
	must(t, json.NewDecoder(got.Body).Decode(&config))
	if config.WebSocket == nil || got.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Fatalf("the page gets %+v %v", config, got.Header)
	}
	u, err := url.Parse(config.WebSocket.URL)
	must(t, err)
	u.RawQuery = url.Values{"authorization": {"Bearer " + config.WebSocket.Token}, "device-id": {id},
		"client-id": {client}, "agent-id": {"1"}}.Encode()
	conn, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{
		HTTPHeader: http.Header{"Origin": {origin}}, Subprotocols: []string{"xiaozhi", "other"}})
	must(t, err)
	defer conn.CloseNow() //nolint:errcheck // the test is over
	if resp.Header.Get("Sec-WebSocket-Protocol") != "xiaozhi" {
		t.Errorf("of two subprotocols, the server accepts %q", conn.Subprotocol())
	}
	must(t, conn.Write(ctx, websocket.MessageText, []byte(`{"type":"hello","device_id":"`+id+
		`","device_name":"测试设备","device_mac":"`+id+`","token":"your-token1","features":{"mcp":true}}`)))
	_, text, err := conn.Read(ctx)
	must(t, err)
	if hello, err := wire.ParseHello(text); err != nil || hello.Audio.Format != "opus" || hello.SessionID == "" {
		t.Errorf("its hello is answered %s (%v)", text, err)
	}
}

// fromPage makes a request as the browser of a page does.
func (h *testServer) fromPage(ctx context.Context, method, at, origin, body string, header ...string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
	must(h.t, err)
	r.Header.Set("Origin", origin)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	must(h.t, err)
	h.t.Cleanup(func() {
		io.Copy(io.Discard, resp.Body) //nolint:errcheck // the test is over
		resp.Body.Close()
	})
	return resp
}
