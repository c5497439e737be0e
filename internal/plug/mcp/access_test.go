package mcp

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/tool"
)

// Requests with a Host that a page on the internet could have, or from pages of other origins, are
// refused, and so are requests without a valid key.
func TestWhoMayComeIn(t *testing.T) {
	r := newRig(t, rigOptions{mcp: Options{PublicURL: "https://board.example.org", Hosts: []string{"nas.example.net"},
		Origins: []string{"https://app.example.org"}}})
	for _, c := range []struct {
		host, origin, key string
		want              int
	}{
		{"", "", r.key, 400}, {"localhost:3000", "http://localhost:3000", r.key, 400}, {"pi.local", "", r.key, 400},
		{"[::1]:80", "", r.key, 400},
		{"board.example.org", "https://board.example.org", r.key, 400}, {"nas.example.net:3000", "", r.key, 400},
		{"pi", "https://app.example.org", r.key, 400},
		{"evil.example.com", "", r.key, 403}, {"localhost", "https://evil.example.com", r.key, 403},
		{"localhost", "null", r.key, 403},
		{"", "", "pb_wrong", 401}, {"", "", "", 401},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/mcp", strings.NewReader(pingBody))
		if c.host != "" {
			req.Host = c.host
		}
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		if c.key != "" {
			req.Header.Set("Authorization", "Bearer "+c.key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%+v: %s", c, resp.Status)
		}
	}
}

// A revoked key ends calls and streams.
func TestRevokedKey(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.connect(t, r.key, "2025-11-25")
	s := c.listen(t)
	s.until(t, ":")
	keys, err := r.Store.Keys.ByPerson(t.Context(), r.Person.ID)
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if err := r.Store.Keys.Revoke(t.Context(), keys[0].ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(testTimeout)
	for {
		status, _ := c.ask(t, pingBody)
		if status == http.StatusUnauthorized {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a revoked key still gets %d", status)
		}
	}
	r.server.refreshListeners()
	for range s.lines { // the stream ends
	}
}

// If a key has too many sessions, the oldest idle one is dropped; if all are busy, a new one is
// refused.
func TestSessionLimits(t *testing.T) {
	r := newRig(t, rigOptions{mcp: Options{MaxSessionsPerKey: 2}})
	a, b := r.connect(t, r.key, "2025-11-25"), r.connect(t, r.key, "2025-11-25")
	a.listen(t).until(t, ":")
	b.listen(t).until(t, ":")
	status, _ := r.post(t, "/mcp",
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`,
		http.Header{"Authorization": {"Bearer " + r.key}})
	if status != http.StatusTooManyRequests {
		t.Errorf("a third session while two listen: %d", status)
	}
	r.connect(t, r.addKey(t, "other", ""), "2025-11-25")
}

// A client that does not read is disconnected, without effect on others.
func TestSlowReader(t *testing.T) {
	r := newRig(t, rigOptions{})
	var calls atomic.Int64
	r.register(t, hub.ProviderRef{ID: "a", Kind: "k"}, providerFunc(func(context.Context, *tool.Call) (*tool.Result,
		error) {
		calls.Add(1)
		return tool.Text(strings.Repeat("x", 64<<10)), nil
	}), tool.Tool{Name: "big"})
	key := http.Header{"Authorization": {"Bearer " + r.key}, "Accept": {"text/event-stream"}}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/mcp/sse", nil)
	req.Header = key
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 200)
	n, err := resp.Body.Read(buf) // reads the endpoint event, and nothing more from now on
	if err != nil {
		t.Fatal(err)
	}
	_, endpoint, _ := strings.Cut(strings.TrimSpace(string(buf[:n])), "data: ")
	for i := 0; ; i++ {
		status, _ := r.post(t, endpoint, callBody(i, "big", "{}"), key)
		if status == http.StatusNotFound {
			break
		}
		if status != http.StatusAccepted || i > 5000 {
			t.Fatalf("message %d: %d", i, status)
		}
	}
	c := r.connect(t, r.key, "2025-11-25")
	if _, body := c.ask(t, callBody(1, "big", "{}")); len(body) < 64<<10 {
		t.Errorf("another client gets %.100s", body)
	}
}
