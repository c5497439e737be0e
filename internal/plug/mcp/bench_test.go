package mcp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/internal/hub"
	"patchbay/internal/tool"
)

// BenchmarkCall measures one call of a tool that does nothing, from the request to the response,
// without the network, in both eras. The audit rows are written meanwhile.
func BenchmarkCall(b *testing.B) {
	r := newRig(b, rigOptions{})
	res := tool.Text("hello")
	r.register(b, hub.ProviderRef{ID: "echo", Kind: "echo"},
		providerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return res, nil }),
		tool.Tool{Name: "echo",
			Input: []byte(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
			Hints: tool.ReadOnlyHints()})
	header := http.Header{"Authorization": {"Bearer " + r.key}, "Accept": {"application/json, text/event-stream"},
		"Content-Type": {"application/json"}}
	asked := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/mcp", nil)
	asked.Host = "localhost"
	post := func(body string, h http.Header) *quiet {
		q := asked.WithContext(b.Context())
		q.Body, q.ContentLength, q.Header = io.NopCloser(strings.NewReader(body)), int64(len(body)), h
		w := &quiet{header: http.Header{}}
		r.server.ServeHTTP(w, q)
		return w
	}
	hello := post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`, header)
	sessions, fresh := header.Clone(), header.Clone()
	sessions.Set("Mcp-Session-Id", hello.header.Get("Mcp-Session-Id"))
	sessions.Set("Mcp-Protocol-Version", "2025-11-25")
	fresh.Set("Mcp-Protocol-Version", statelessVersion)
	fresh.Set("Mcp-Method", "tools/call")
	fresh.Set("Mcp-Name", "echo")
	for _, era := range []struct {
		name, meta string
		header     http.Header
	}{
		{"sessions", "", sessions},
		{statelessVersion, `,"_meta":{"` + metaVersion + `":"` + statelessVersion + `","` + metaCapabilities +
			`":{},"` + metaClient + `":{"name":"bench","version":"1"}}`, fresh},
	} {
		b.Run(era.name, func(b *testing.B) {
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}` + era.meta + `}}`
			b.ReportAllocs()
			for b.Loop() {
				if w := post(body, era.header); !bytes.Contains(w.body, []byte(`"text":"hello"`)) {
					b.Fatalf("the answer is %s", w.body)
				}
			}
		})
	}
}

// quiet is a response writer that keeps the last write.
type quiet struct {
	header http.Header
	body   []byte
}

func (q *quiet) Header() http.Header         { return q.header }
func (q *quiet) WriteHeader(int)             {}
func (q *quiet) Write(p []byte) (int, error) { q.body = append(q.body, p...); return len(p), nil }
