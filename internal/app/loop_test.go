package app

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/config"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/store/storetest"
)

// Two installations that offer each other's tools, or one that offers its own, do not create an
// endless number of names.
func TestToolsDoNotGoRoundInCircles(t *testing.T) {
	c, _, err := config.Load(config.Sources{Flags: map[string]string{"data": storetest.Folder(t, t.TempDir()),
		"listen": "127.0.0.1:0", "lingzhu.push_url": ""}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type started struct {
		url  string
		base *Base
	}
	ready, done := make(chan started, 1), make(chan error, 1)
	go func() {
		done <- Serve(ctx, c, Options{Version: "test", Logs: io.Discard,
			Ready: func(url string, b *Base) { ready <- started{url, b} }})
	}()
	s := <-ready
	p, err := s.base.Accounts.AddPerson(ctx, "ada", account.RoleAdmin, "en", "")
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := s.base.Accounts.AddKey(ctx, account.NewKey{Person: p.ID,
		Name: "loop", Scopes: []string{account.ScopeMCP}})
	if err != nil {
		t.Fatal(err)
	}
	h := s.base.tools.hub.Load()
	_, operator, err := s.base.Accounts.AddKey(ctx, account.NewKey{Person: p.ID,
		Name: "op", Scopes: []string{account.ScopeOperator}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.base.AddUpstream(ctx, p, "mirror", UpstreamMCP,
		&upstream.Settings{URL: s.url + "/mcp", Token: key}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for !connected(t, s.url, operator) {
		if time.Now().After(deadline) {
			t.Fatal("the upstream is not connected")
		}
	}
	list, err := h.View(p.ID, "")
	if err != nil || len(list.Tools) < 3 {
		t.Fatalf("%d tools, %v", len(list.Tools), err)
	}
	for _, tool := range list.Tools {
		if strings.HasPrefix(tool.Name, "mirror_") {
			t.Errorf("its own tool %s is taken over", tool.Name)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// connected reports whether the only upstream is connected and its list was read.
func connected(t *testing.T, url, key string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/upstreams", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), `"state":"ready"`)
}
