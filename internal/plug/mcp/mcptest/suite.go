package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// suiteTimeout limits a run of the conformance suite, which takes about five seconds.
const suiteTimeout = 3 * time.Minute

// minNodeVersion is the oldest version of Node.js that the external programs support.
const minNodeVersion = "v22.19"

// skipOrFail skips a test because something is missing; in continuous integration it fails the
// test.
func skipOrFail(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// findPeers returns a folder of test/peers.
func findPeers(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		found := filepath.Join(dir, "test", "peers", name)
		if _, err := os.Stat(found); err == nil {
			return found
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no test/peers/" + name + " above the test")
		}
		dir = parent
	}
}

// Installed returns a file of a package of a folder of test/peers. Without it, the test is skipped.
func Installed(t testing.TB, peer, file string) string {
	t.Helper()
	path := filepath.Join(findPeers(t, peer), "node_modules", filepath.FromSlash(file))
	if _, err := os.Stat(path); err != nil {
		skipOrFail(t, "run `npm ci` in test/peers/"+peer)
	}
	return path
}

// Node returns the Node.js that runs the external programs: the one installed with them, or the
// machine's own if it is new enough. Without one, the test is skipped.
func Node(t testing.TB) string {
	t.Helper()
	modules := filepath.Join(findPeers(t, "mcp"), "node_modules")
	if _, err := os.Stat(filepath.Join(modules, ".package-lock.json")); err != nil {
		skipOrFail(t, "run `npm ci` in test/peers/mcp to test with MCP clients and the conformance suite")
	}
	own, _ := filepath.Glob(filepath.Join(modules, "node-*", "bin", "node"))
	for _, path := range append(own, "node") {
		version, err := exec.CommandContext(t.Context(), path, "--version").Output()
		if err == nil && !isOlderVersion(strings.TrimSpace(string(version)), minNodeVersion) {
			return path
		}
	}
	skipOrFail(t, "MCP clients and the conformance suite need node "+minNodeVersion+" or newer")
	return ""
}

// isOlderVersion reports whether version v is older than w, both like v22.1 or v22.1.0.
func isOlderVersion(v, w string) bool {
	a, b := versionNumbers(v), versionNumbers(w)
	return slices.Compare(a, b) < 0
}

func versionNumbers(version string) []int {
	var list []int
	for part := range strings.SplitSeq(strings.TrimPrefix(version, "v"), ".") {
		n := 0
		for _, r := range part {
			if r < '0' || r > '9' {
				break
			}
			n = 10*n + int(r-'0')
		}
		list = append(list, n)
	}
	return list
}

// checkResult is the result of one check of the suite.
type checkResult struct {
	ID           string `json:"id"`
	Description  string `json:"description"`
	Status       string `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED, INFO
	ErrorMessage string `json:"errorMessage"`
}

func (v checkResult) isFailure() bool { return v.Status == "FAILURE" || v.Status == "WARNING" }

// Conformance runs the official suite against the MCP server at a URL, which must be on loopback
// and require no token ([Proxy] adds one), with the requirements of a revision such as
// "2026-07-28". The expected failures are empty, so that warnings, which concern recommendations of
// the specification, fail the test too. Scenarios that the revision does not require are run and
// logged only, except those about tasks.
func Conformance(t *testing.T, url, requirements string) {
	t.Helper()
	node, suite, required := findSuite(t, requirements)
	if requirements == tasksRevision {
		required = append(required, taskScenarios...)
	}
	run, out, err := runSuite(t, node, suite, url, requirements, required)
	if (err != nil || len(run.failures) > 0) && t.Context().Err() == nil {
		// Some scenarios expect a response within half a second, which can fail on a machine that
		// is busy with other tests.
		t.Logf("the suite is run again; at first: %q", run.failures)
		run, out, err = runSuite(t, node, suite, url, requirements, required)
	}
	for _, line := range run.notes {
		t.Log("not required: ", line)
	}
	for _, line := range run.failures {
		t.Error(line)
	}
	if err != nil && len(run.failures) == 0 {
		t.Errorf("the suite ended with %v:\n%s", err, tail(out, 4000))
	}
	t.Logf("%s: %d checks passed and %d failed in %d required scenarios", requirements, run.passed, len(run.failures),
		len(required))
}

// Failures runs the suite like [Conformance] and returns the required checks that fail, as
// "scenario: check". Recommendations do not count. If a required scenario was not run, or the suite
// crashed, the test fails: what was not checked has not passed.
func Failures(t *testing.T, url, requirements string) map[string]string {
	t.Helper()
	node, suite, required := findSuite(t, requirements)
	run, out, err := runSuite(t, node, suite, url, requirements, required)
	if trouble := run.trouble(err); trouble != "" {
		t.Errorf("%s:\n%s", trouble, tail(out, 4000))
	}
	for _, line := range run.warnings {
		t.Log("recommended: ", line)
	}
	t.Logf("%s: %d checks passed and %d failed in %d required scenarios", requirements, run.passed, len(run.failed),
		len(required))
	return run.failed
}

// findSuite returns the program of the suite, its folder, and the scenarios that a revision
// requires.
func findSuite(t *testing.T, requirements string) (node, suite string, required []string) {
	t.Helper()
	node = Node(t)
	suite = filepath.Join(findPeers(t, "mcp"), "node_modules", "@modelcontextprotocol", "conformance")
	required, err := requirementsOf(filepath.Join(suite, "requirements", requirements+".yaml"), "server")
	if err != nil {
		t.Fatal(err)
	}
	return node, suite, required
}

// tasksRevision is the revision with the extension io.modelcontextprotocol/tasks. The suite runs
// scenarios about it but requires none, because it is an extension; [Conformance] requires these.
// tasks-status-notifications is not among them: its only check is always skipped.
const tasksRevision = "2026-07-28"

var taskScenarios = []string{
	"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal",
	"tasks-mrtr-input", "tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-required-task-error",
	"tasks-mrtr-composition",
}

// runSuite runs the suite once.
func runSuite(t *testing.T, node, suite, url, requirements string, required []string) (suiteOutcome, []byte, error) {
	t.Helper()
	folder := t.TempDir()
	baseline := filepath.Join(folder, "baseline.yml")
	if err := os.WriteFile(baseline, []byte("server: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	results := filepath.Join(folder, "results")
	ctx, cancel := context.WithTimeout(t.Context(), suiteTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, filepath.Join(suite, "dist", "index.js"), "server",
		"--url", url, "--requirements", requirements, "--expected-failures", baseline, "-o", results)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	run, jerr := readResults(results, required)
	if jerr != nil {
		t.Error(jerr)
	}
	return run, out, err
}

// requirementsOf reads the required scenarios of a side, server or client: the list below its name
// in one of the suite's YAML files.
func requirementsOf(path, side string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []string
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		switch name, item := strings.CutPrefix(line, "  - "); {
		case line == side+":":
			inside = true
		case inside && item:
			list = append(list, strings.TrimSpace(name))
		case inside && line != "" && line[0] != ' ' && line[0] != '#':
			inside = false
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s requires nothing of a %s", path, side)
	}
	return list, nil
}

// resultsFolder matches the name of a scenario's results folder.
var resultsFolder = regexp.MustCompile(`^server-(.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z$`)

// suiteOutcome is the outcome of a run.
type suiteOutcome struct {
	passed   int      // checks of required scenarios
	failures []string // failures of required scenarios
	notes    []string // failures of others
	// Of the failures: required scenarios that were not run, the warnings, and the rest by scenario
	// and check, with their messages.
	notRun, warnings []string
	failed           map[string]string
}

// trouble returns why the outcome says less than it should; empty if it does not. Err is the error
// of the suite, which also ends with one if checks fail.
func (o *suiteOutcome) trouble(err error) string {
	switch {
	case len(o.notRun) > 0:
		return fmt.Sprintf("not run: %s; the suite ended with %v", strings.Join(o.notRun, ", "), err)
	case err != nil && len(o.failures) == 0:
		return fmt.Sprintf("the suite ended with %v", err)
	}
	return ""
}

// readResults reads the results of a run. It fails if they cannot be read.
func readResults(results string, required []string) (suiteOutcome, error) {
	run := suiteOutcome{failed: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(results, "*", "checks.json"))
	if err != nil {
		return run, err
	}
	seen := map[string]bool{}
	for _, file := range files {
		m := resultsFolder.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		if m == nil {
			return run, fmt.Errorf("the suite wrote %s", file)
		}
		var checks []checkResult
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &checks)
		}
		if err != nil {
			return run, fmt.Errorf("%s: %w", file, err)
		}
		counts := slices.Contains(required, m[1])
		seen[m[1]] = true
		for _, c := range checks {
			line := fmt.Sprintf("%s: %s (%s): %s", m[1], c.ID, c.Description, c.ErrorMessage)
			switch {
			case counts && c.isFailure():
				run.failures = append(run.failures, line)
				if c.Status == "WARNING" {
					run.warnings = append(run.warnings, line)
				} else {
					run.failed[m[1]+": "+c.ID] = c.ErrorMessage
				}
			case c.isFailure():
				run.notes = append(run.notes, line)
			case counts && c.Status == "SUCCESS":
				run.passed++
			}
		}
	}
	for _, scenario := range required {
		if !seen[scenario] {
			run.notRun = append(run.notRun, scenario)
			run.failures = append(run.failures, scenario+" was not run")
		}
	}
	return run, nil
}

func tail(text []byte, n int) []byte { return text[max(0, len(text)-n):] }

// Proxy starts a reverse proxy for target, an origin. It adds a bearer token to every request, for
// programs that cannot. Host and Origin headers stay unchanged, and events are forwarded at once.
// It returns the proxy's origin.
func Proxy(t testing.TB, target, token string) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // of clients that disconnect
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil { // not caused by a client that disconnected
				t.Logf("proxy: %s %s: %v", r.Method, r.URL.Path, err)
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	})
	// The suite closes responses as soon as it has read enough, which sometimes affects the next
	// request on the same connection: then a notification seems to be lost.
	server.Config.SetKeepAlivesEnabled(false)
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections() // streams do not end by themselves
		server.Close()
	})
	return server.URL
}

// MCPRemote returns the command line of mcp-remote, which connects standard input and output
// with the server at a URL. The transport is http-only, sse-only, http-first or sse-first.
func MCPRemote(t testing.TB, url, token, transport string) *exec.Cmd {
	t.Helper()
	node := Node(t)
	home := t.TempDir()
	headers := filepath.Join(home, "headers")
	if err := os.WriteFile(headers, []byte("Authorization: Bearer "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(findPeers(t, "mcp"), "node_modules", "mcp-remote",
		"dist", "proxy.js"),
		url, "--allow-http", "--transport", transport, "--header-file", headers)
	cmd.Env = append(os.Environ(), "HOME="+home, "MCP_REMOTE_CONFIG_DIR="+home)
	cmd.Stderr = newTestLog(t, "mcp-remote")
	return cmd
}

// Inspect runs the MCP Inspector's command line with arguments such as "--method", "tools/list",
// "--protocol-era", "modern", and returns its output, which is JSON. If it fails, the test fails.
func Inspect(t testing.TB, url, token string, args ...string) json.RawMessage {
	t.Helper()
	node := Node(t)
	ctx, cancel := context.WithTimeout(t.Context(), peerTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, append([]string{
		filepath.Join(findPeers(t, "mcp"), "node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher",
			"build", "index.js"),
		"--cli", "--server-url", url, "--header", "Authorization: Bearer " + token, "--format", "json", "--quiet",
	}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.WaitDelay = time.Second
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("the inspector with %q ended with %v: %s%s", args, err, out.Bytes(), complaints.Bytes())
	}
	if !json.Valid(out.Bytes()) {
		t.Fatalf("the inspector with %q says %q", args, out.Bytes())
	}
	return out.Bytes()
}

// testLog writes the error output of a program to the log of a test, while the test runs.
type testLog struct {
	t    testing.TB
	name string

	mu   sync.Mutex
	done bool
}

var _ io.Writer = (*testLog)(nil)

func newTestLog(t testing.TB, name string) *testLog {
	l := &testLog{t: t, name: name}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.done = true
	})
	return l
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done {
		l.t.Logf("%s: %s", l.name, bytes.TrimSpace(p))
	}
	return len(p), nil
}
