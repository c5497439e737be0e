package mcp

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/observe"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// rig is a server with a hub, behind a real listener.
type rig struct {
	*hubtest.Rig
	server *Server
	url    string // of the listener
	key    string
}

type rigOptions struct {
	open   bool // no key is required
	hub    hub.Options
	shared []func() any
	db     store.Options // the zero value: a fresh database
	mcp    Options
	// streams ends what depends on keys, as in the program.
	streams bool
}

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	r := &rig{Rig: hubtest.New(t, hubtest.Options{Hub: o.hub, Shared: o.shared, DB: o.db})}
	if o.streams {
		o.mcp.Streams = account.NewStreams(r.Accounts, account.StreamLimits{})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- o.mcp.Streams.Run(ctx, func(err error) { t.Error(err) }) }()
		t.Cleanup(func() {
			cancel()
			<-ended
		})
	}
	r.key = r.addKey(t, "test", "")
	o.mcp.Hub, o.mcp.Accounts, o.mcp.Box = r.Hub, account.NewRecent(r.Accounts), r.Box
	o.mcp.Guard = account.NewGuard(1000, nil)
	o.mcp.Logger, o.mcp.Registerer, o.mcp.Version = logger(t), prometheus.NewRegistry(), "test"
	o.mcp.Address = func(r *http.Request) netip.Addr { return netip.MustParseAddrPort(r.RemoteAddr).Addr() }
	if o.open {
		p, err := r.Accounts.Authenticate(context.Background(), r.key, account.ScopeMCP)
		if err != nil {
			t.Fatal(err)
		}
		o.mcp.Anonymous = func() account.Principal { return p }
	}
	r.server = New(o.mcp)
	mux := http.NewServeMux()
	mux.Handle("/mcp", r.server)
	mux.HandleFunc("GET /mcp/sse", r.server.ServeSSE)
	mux.HandleFunc("POST /mcp/messages", r.server.ServeMessages)
	mux.HandleFunc("GET /mcp_endpoint/call/", r.server.ServeWebSocket)
	mux.HandleFunc("GET /mcp/rokid/sse", r.server.ServeRokid)
	mux.HandleFunc("POST /messages", r.server.ServeRokidMessages)
	mux.HandleFunc("POST /messages/", r.server.ServeRokidMessages)
	mux.HandleFunc("/api/mcp", r.server.ServeLearn)
	mux.HandleFunc("/api/mcp/sse", r.server.ServeLearnSSE)
	mux.HandleFunc("/api/mcp/messages", r.server.ServeLearnMessages)
	web := httptest.NewServer(observe.HandleRequests(o.mcp.Logger, o.mcp.Registerer, mux)) // as in the program
	r.url = web.URL
	t.Cleanup(func() {
		r.server.Drain()
		r.server.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return r
}

func (r *rig) addKey(t testing.TB, name, rules string) string {
	t.Helper()
	_, secret, err := r.Accounts.AddKey(context.Background(),
		account.NewKey{Person: r.Person.ID, Name: name, Scopes: []string{account.ScopeMCP}, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// register registers a provider.
func (r *rig) register(t testing.TB, o hub.ProviderRef, p tool.Provider, tools ...tool.Tool) *hub.Registration {
	t.Helper()
	s, err := r.Hub.Register(o, p)
	if err != nil {
		t.Fatal(err)
	}
	s.SetTools(tools)
	return s
}

// providerFunc is a provider made of a function.
type providerFunc func(context.Context, *tool.Call) (*tool.Result, error)

func (f providerFunc) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) { return f(ctx, c) }

func logger(t testing.TB) *slog.Logger {
	var w io.Writer = io.Discard
	if testing.Verbose() && os.Getenv("LOG") != "" {
		w = os.Stderr
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

const testTimeout = 10 * time.Second
