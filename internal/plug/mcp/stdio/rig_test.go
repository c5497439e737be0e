package stdio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/mcp"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/seal"
	"patchbay/internal/tool"
)

// server is the Learn endpoint behind a real listener. It can be restarted.
type server struct {
	*hubtest.Rig
	registration *hub.Registration
	tools        []tool.Tool
	names        []string
	stopped      chan string
	address      string
	key          string
	stop         func()
	// endedSessions counts the sessions ended by clients.
	endedSessions atomic.Int32
}

func newServer(t testing.TB) *server {
	t.Helper()
	stopped := make(chan string, 10)
	learn := mcptest.NewFakeLearn(stopped)
	s := &server{Rig: hubtest.New(t, hubtest.Options{}), tools: learn.Tools(), names: learn.Names(), stopped: stopped,
		address: "127.0.0.1:0"}
	var err error
	if s.registration, err = s.Hub.Register(hub.ProviderRef{ID: "learn", Kind: "learn"}, learn); err != nil {
		t.Fatal(err)
	}
	s.registration.SetTools(s.tools)
	s.key = s.Key(t, account.NewKey{Scopes: []string{account.ScopeLearn}})
	s.start(t, hubtest.Secret)
	t.Cleanup(func() { s.stop() })
	return s
}

// start starts the endpoint. With another secret, earlier sessions are unknown.
func (s *server) start(t testing.TB, secret string) {
	t.Helper()
	box, err := seal.New(secret)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := mcp.New(mcp.Options{
		Hub: s.Hub, Accounts: account.NewRecent(s.Accounts), Guard: account.NewGuard(1000, nil), Box: box,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), LearnTools: s.names,
		Version: "test",
		Address: func(r *http.Request) netip.Addr { return netip.MustParseAddrPort(r.RemoteAddr).Addr() },
	})
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("/api/mcp", func(w http.ResponseWriter, r *http.Request) {
		endpoint.ServeLearn(w, r)
		if r.Method == http.MethodDelete {
			s.endedSessions.Add(1)
		}
	})
	web := httptest.NewUnstartedServer(mux)
	web.Listener.Close()
	web.Listener = listener
	web.Start()
	s.stop = sync.OnceFunc(func() {
		endpoint.Drain()
		endpoint.Close()
		web.CloseClientConnections()
		web.Close()
	})
}

// program is a program that communicates with a proxy through pipes.
type program struct {
	t     testing.TB
	in    io.WriteCloser
	lines chan string
	ended chan error
	log   *log
}

// log records log output.
type log struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{} // signals a write; nil: no waiter
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.wrote <- struct{}{}:
	default:
	}
	return l.b.Write(b)
}

// until waits for a text.
func (l *log) until(t testing.TB, text string) {
	t.Helper()
	for limit := time.After(testTimeout); !strings.Contains(l.String(), text); {
		select {
		case <-l.wrote:
		case <-limit:
			t.Fatalf("the log does not say %q, but %s", text, l)
		}
	}
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func run(t testing.TB, url, key string) *program {
	t.Helper()
	return runFor(t, t.Context(), url, key, retryTimeout)
}

func runFor(t testing.TB, ctx context.Context, url, key string, patience time.Duration) *program {
	t.Helper()
	in, write := io.Pipe()
	read, out := io.Pipe()
	p := &program{t: t, in: write, lines: make(chan string, 1000), ended: make(chan error, 1),
		log: &log{wrote: make(chan struct{}, 1)}}
	proxy, err := newProxy(ctx, Options{In: in, Out: out, URL: url, Key: key,
		Logger: slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	proxy.retryTimeout = patience
	go func() {
		p.ended <- proxy.serve()
		out.Close()
	}()
	go func() {
		defer close(p.lines)
		lines := bufio.NewScanner(read)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		write.Close()
		for range p.lines {
			// the writer must not wait for its reader
		}
		if t.Failed() {
			t.Log(p.log)
		}
	})
	return p
}

func (p *program) says(lines ...string) {
	p.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(p.in, l+"\n"); err != nil {
			p.t.Fatal(err)
		}
	}
}

// hears returns the next line, which must be a message.
func (p *program) hears() string {
	p.t.Helper()
	select {
	case l, ok := <-p.lines:
		if !ok {
			p.t.Fatal("it has ended")
		}
		if !json.Valid([]byte(l)) || !strings.HasPrefix(l, `{"jsonrpc":"2.0"`) {
			p.t.Fatalf("a line that is no message: %q", l)
		}
		return l
	case <-time.After(testTimeout):
		p.t.Fatalf("nothing is heard; the log says %s", p.log)
	}
	return ""
}

// until returns the first line that contains a text, and drops those before it.
func (p *program) until(text string) string {
	p.t.Helper()
	for {
		if l := p.hears(); strings.Contains(l, text) {
			return l
		}
	}
}

func (p *program) ends() error {
	p.t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(testTimeout):
		p.t.Fatal("it does not end")
	}
	return nil
}

const (
	hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"desk","version":"1"}}}`
	ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func call(id, name, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":` +
		args + `,"_meta":{"progressToken":` + id + `}}}`
}
