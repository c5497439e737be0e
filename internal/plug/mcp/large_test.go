package mcp

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A client that sends too much reads why, also if it says no length before.
func TestTooLarge(t *testing.T) {
	r := newRig(t, rigOptions{})
	text := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 5<<20) + `"}}`)
	for name, body := range map[string]io.Reader{
		"with a length": bytes.NewReader(text), "in chunks": io.MultiReader(bytes.NewReader(text)),
	} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/mcp", body)
		if err != nil {
			t.Fatal(err)
		}
		q.Header = http.Header{"Authorization": {"Bearer " + r.key}, "Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"}}
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(got), "at most 4 MiB") {
			t.Errorf("%s: %s %s", name, res.Status, got)
		}
	}
}
