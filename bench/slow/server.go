package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/observe"
)

// target is a server that is measured.
type target struct {
	name, address string
	key           string
	endpoints     []endpoint
	posts         []string // endpoints for the senders
	stop          func()
}

// endpoint is a request whose response has status 200 and contains a text.
type endpoint struct {
	name, method, path, body, has string
}

// endpoints are the measured endpoints: pages, questions and actions.
var endpoints = []endpoint{
	{"health", http.MethodGet, "/healthz", "", `"ok"`},
	{"question", http.MethodPost, "/sse/rokid",
		`{"message_id":"%d","agent_id":"1","message":[{"role":"user","type":"text","text":"go %[1]d"}]}`,
		"event: done"},
	{"mcp", http.MethodPost, "/api/mcp",
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"next_review","arguments":{}}}`, `"content"`},
	{"api", http.MethodGet, "/api/v1/bots", "", `"bots"`},
	{"page", http.MethodGet, "/signin", "", "<form"},
}

// startWhole runs the server in this process.
func startWhole(ctx context.Context) (*target, error) {
	folder, err := os.MkdirTemp("", "patchbay-bench-")
	if err != nil {
		return nil, err
	}
	c, _, err := config.Load(config.Sources{Env: []string{"HOME=" + folder}, Flags: map[string]string{
		"data": folder, "listen": "127.0.0.1:0", "log.level": "error", "limits.call_rate": "0", "lingzhu.push_url": "",
	}})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	t := &target{name: "patchbay", endpoints: endpoints, posts: []string{"/sse/rokid", "/mcp", "/api/v1/bots",
		"/api/mcp", "/"}}
	ready, done := make(chan *app.Base, 1), make(chan error, 1)
	go func() {
		done <- app.Serve(running, c, app.Options{Version: "bench", Demo: true, Logs: os.Stderr,
			Ready: func(url string, b *app.Base) {
				t.address = strings.TrimPrefix(url, "http://")
				ready <- b
			}})
	}()
	stop := func() {
		cancel()
		os.RemoveAll(folder) //nolint:errcheck // a temporary folder
	}
	select {
	case b := <-ready:
		t.stop = func() { cancel(); <-done; stop() }
		if t.key, err = addKey(ctx, b); err != nil {
			t.stop()
		}
		return t, err
	case err := <-done:
		stop()
		return nil, err
	}
}

// addKey creates a key for all endpoints.
func addKey(ctx context.Context, b *app.Base) (string, error) {
	p, err := b.Store.People.ByName(ctx, app.DemoPerson)
	if err != nil {
		return "", err
	}
	_, key, err := b.Accounts.AddKey(ctx, account.NewKey{
		Person: p.ID, Name: "bench", Scopes: []string{account.ScopeLingzhu, account.ScopeLearn, account.ScopeMCP,
			account.ScopeOperator},
	})
	return key, err
}

// startBare runs a handler that only reads the request's body.
func startBare() (*target, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	read := observe.HandleRequests(slog.New(slog.DiscardHandler), prometheus.NewRegistry(),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			io.WriteString(w, "ok") //nolint:errcheck // the client detects it
		}))
	s := &http.Server{Handler: read, ReadHeaderTimeout: observe.BodyGrace, ReadTimeout: observe.BodyGrace}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	return &target{
		name: "net/http", address: l.Addr().String(), endpoints: []endpoint{{"ok", http.MethodGet, "/", "", "ok"}},
		posts: []string{"/"},
		stop:  func() { s.Close(); <-done },
	}, nil
}

// at returns a percentile.
func at(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}

func summary(t *target, d endpoint, senders int, took []time.Duration) line {
	slices.Sort(took)
	return line{Server: t.name, Endpoint: d.name, Senders: senders, Asked: len(took), P50: at(took, 50),
		P99: at(took, 99), Max: at(took, 100)}
}
