package mcptest

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestProxy(t *testing.T) {
	read := make(chan struct{})
	var mu sync.Mutex
	var host, origin, token string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		host, origin, token = r.Host, r.Header.Get("Origin"), r.Header.Get("Authorization")
		mu.Unlock()
		w.Header().Set("Content-Type", "text/plain") // flushed although it is not an event stream
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-read // can only be read now if lines are forwarded at once
		_, _ = io.WriteString(w, "second\n")
	}))
	defer server.Close()
	proxy := Proxy(t, server.URL, "secret")

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, proxy+"/mcp", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example.com"
	req.Header.Set("Origin", "http://evil.example.com")
	req.Header.Set("Authorization", "Bearer mine")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		close(read)
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	first, err := lines.ReadString('\n')
	close(read)
	second, _ := lines.ReadString('\n')
	if err != nil || first != "first\n" || second != "second\n" {
		t.Errorf("read %q, %q, %v", first, second, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if host != "evil.example.com" || origin != "http://evil.example.com" || token != "Bearer secret" {
		t.Errorf("the server saw host %q, origin %q, authorization %q", host, origin, token)
	}
}

func TestJudge(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("requirements.yaml",
		"# about\nserver:\n  - ping\n  # a comment\n  - tools-list\n  - caching\n\nclient:\n  - initialize\n")
	required, err := requirementsOf(filepath.Join(folder, "requirements.yaml"), "server")
	if err != nil || !slices.Equal(required, []string{"ping", "tools-list", "caching"}) {
		t.Fatalf("required %v, %v", required, err)
	}
	write("out/server-ping-2026-11-21T12-10-46-611Z/checks.json",
		`[{"id":"a","status":"SUCCESS"},{"id":"b","status":"INFO"},{"id":"c","status":"SKIPPED"}]`)
	write("out/server-tools-list-2026-11-21T12-10-46-611Z/checks.json",
		`[{"id":"d","status":"SUCCESS"},{"id":"e","status":"WARNING","errorMessage":"order"},{"id":"f","status":"FAILURE","errorMessage":"names"}]`)
	write("out/server-tasks-list-2026-11-21T12-10-46-611Z/checks.json",
		`[{"id":"g","status":"FAILURE"},{"id":"h","status":"SUCCESS"}]`)
	run, err := readResults(filepath.Join(folder, "out"), required)
	if err != nil {
		t.Fatal(err)
	}
	if run.passed != 2 || len(run.notes) != 1 || len(run.failures) != 3 ||
		!strings.Contains(run.failures[0], "order") || !strings.Contains(run.failures[1], "names") ||
		run.failures[2] != "caching was not run" {
		t.Errorf("got %+v", run)
	}
	failed := errors.New("exit status 1")
	if got := run.trouble(failed); !strings.HasPrefix(got, "not run: caching;") {
		t.Errorf("a scenario that was not run is told as %q", got)
	}
	if got := (&suiteOutcome{}).trouble(failed); got == "" {
		t.Error("a suite that crashed is no trouble")
	}
	if got := (&suiteOutcome{failures: []string{"a check"}}).trouble(failed); got != "" {
		t.Errorf("a failed check is told as %q", got)
	}
	write("out/server-caching-2026-11-21T12-10-46-611Z/checks.json", `not JSON`)
	if _, err := readResults(filepath.Join(folder, "out"), required); err == nil {
		t.Error("unreadable results are no error")
	}
	write("empty.yaml", "client:\n  - initialize\n")
	if list, err := requirementsOf(filepath.Join(folder, "empty.yaml"), "server"); err == nil {
		t.Errorf("a file without servers requires %v", list)
	}
}

func TestOlder(t *testing.T) {
	tests := []struct {
		v, w  string
		older bool
	}{
		{"v20.20.2", "v22.19", true}, {"v22.18.9", "v22.19", true}, {"v22.19.0", "v22.19", false},
		{"v22.23.3", "v22.19", false}, {"v24.0.0-rc1", "v22.19", false}, {"", "v22.19", true},
		{"v9.1.1", "v22.19", true},
	}
	for _, tt := range tests {
		if got := isOlderVersion(tt.v, tt.w); got != tt.older {
			t.Errorf("older(%q, %q) = %v", tt.v, tt.w, got)
		}
	}
}
