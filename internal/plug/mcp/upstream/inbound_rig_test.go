package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	sdkjsonrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newHost returns a rig with an inbound upstream, and the address for its server.
func newHost(t testing.TB, settings Settings, times *timings) (r *rig, url string) {
	t.Helper()
	r = newRig(t, settings, times)
	r.spec.Inbound = true
	r.start()
	return r, r.inboundURL()
}

// inboundURL returns the address for the server of the upstream's current version.
func (r *rig) inboundURL() string {
	id, version := r.spec.ID, r.spec.Version
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch err := r.m.Accept(w, req, id, version); {
		case errors.Is(err, ErrNoUpstream):
			w.WriteHeader(http.StatusServiceUnavailable)
		case errors.Is(err, ErrTooOften):
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	r.t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return "ws" + strings.TrimPrefix(srv.URL, "http")
}

// inboundServer is a hand-written server that connects to an upstream. The test overrides single
// methods; the others work.
type inboundServer struct {
	t    testing.TB
	conn *websocket.Conn
	on   map[string]inboundHandler
	over chan struct{} // closed, with why set, when the connection has ended
	why  error

	mu   sync.Mutex
	seen []message
}

// inboundHandler returns a result, or "" if it has handled the message itself.
type inboundHandler = func(f *inboundServer, m *message) string

func dialInbound(t testing.TB, url string, on map[string]inboundHandler) *inboundServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &inboundServer{t: t, conn: conn, on: on, over: make(chan struct{})}
	go f.run()
	t.Cleanup(func() {
		conn.CloseNow()
		<-f.over
	})
	return f
}

func (f *inboundServer) run() {
	defer close(f.over)
	var work sync.WaitGroup
	defer work.Wait()
	for {
		_, data, err := f.conn.Read(context.Background())
		if err != nil {
			f.why = err
			return
		}
		m, err := readMessage(data)
		if err != nil {
			f.t.Errorf("it was sent %q", data)
			continue
		}
		f.mu.Lock()
		f.seen = append(f.seen, m)
		f.mu.Unlock()
		if m.Method == "" || m.ID == nil {
			if h := f.on[m.Method]; h != nil {
				h(f, &m)
			}
			continue
		}
		work.Go(func() { f.answer(&m) })
	}
}

func (f *inboundServer) answer(m *message) {
	result := `{}`
	switch h := f.on[m.Method]; {
	case h != nil:
		if result = h(f, m); result == "" {
			return
		}
	case m.Method == "initialize":
		result = strings.Replace(initialized, "2025-06-18", "2024-11-05", 1)
	case m.Method == "tools/list":
		result = oneTool
	case m.Method == "tools/call":
		result = `{"content":[{"type":"text","text":"fine"}]}`
	}
	f.write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (f *inboundServer) write(format string, args ...any) {
	// the connection may have ended
	_ = f.conn.Write(context.Background(), websocket.MessageText, fmt.Appendf(nil, format, args...))
}

// count returns how often a method was received.
func (f *inboundServer) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, m := range f.seen {
		if m.Method == method {
			n++
		}
	}
	return n
}

// told waits for the end of the connection, and returns the close code, or -1 if there is none.
func (f *inboundServer) told() websocket.StatusCode {
	f.t.Helper()
	select {
	case <-f.over:
	case <-time.After(testTimeout):
		f.t.Fatal("the connection is still open")
	}
	return websocket.CloseStatus(f.why)
}

// asks returns a handler that passes the ids of requests to the test, which answers them.
func asks() (inboundHandler, <-chan json.RawMessage) {
	ids := make(chan json.RawMessage, 100)
	return func(_ *inboundServer, m *message) string {
		ids <- m.ID
		return ""
	}, ids
}

// socketTransport is a WebSocket as a transport of the official SDK.
type socketTransport struct{ conn *websocket.Conn }

func (s socketTransport) Connect(context.Context) (mcp.Connection, error) { return s, nil }
func (s socketTransport) SessionID() string                               { return "" }
func (s socketTransport) Close() error                                    { return s.conn.CloseNow() }

func (s socketTransport) Read(ctx context.Context) (sdkjsonrpc.Message, error) {
	_, data, err := s.conn.Read(ctx)
	if err != nil {
		return nil, err
	}
	return sdkjsonrpc.DecodeMessage(data)
}

func (s socketTransport) Write(ctx context.Context, m sdkjsonrpc.Message) error {
	data, err := sdkjsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return s.conn.Write(ctx, websocket.MessageText, data)
}
