package mcptest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scenarioTimeout limits a scenario of a client.
const scenarioTimeout = 90 * time.Second

// ClientConformance runs the official suite against a client: a program that gets the address of a
// server as its last argument. It runs the scenarios that a revision requires and whose names begin
// with a prefix, and expects no failures; warnings fail the test too.
func ClientConformance(t *testing.T, command, requirements, prefix string) {
	t.Helper()
	node := Node(t)
	suite := suiteFolder(t)
	required, err := requirementsOf(filepath.Join(suite, "requirements", requirements+".yaml"), "client")
	if err != nil {
		t.Fatal(err)
	}
	for _, scenario := range required {
		if strings.HasPrefix(scenario, prefix) {
			t.Run(strings.TrimPrefix(scenario, prefix), func(t *testing.T) {
				t.Parallel()
				runScenario(t, node, suite, command, scenario, "--spec-version", requirements)
			})
		}
	}
}

// ClientScenario runs one scenario of the official suite, of an extension that no revision
// requires.
func ClientScenario(t *testing.T, command, scenario string) {
	t.Helper()
	runScenario(t, Node(t), suiteFolder(t), command, scenario)
}

func suiteFolder(t *testing.T) string {
	t.Helper()
	return filepath.Join(findPeers(t, "mcp"), "node_modules", "@modelcontextprotocol", "conformance")
}

// runScenario runs one scenario of a client.
func runScenario(t *testing.T, node, suite, command, scenario string, more ...string) {
	t.Helper()
	folder := t.TempDir()
	baseline := filepath.Join(folder, "baseline.yml")
	if err := os.WriteFile(baseline, []byte("client: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scenarioTimeout)
	defer cancel()
	args := append([]string{filepath.Join(suite, "dist", "index.js"), "client", "--command", command,
		"--scenario", scenario, "--expected-failures", baseline, "--timeout", "60000",
		"-o", filepath.Join(folder, "results")}, more...)
	cmd := exec.CommandContext(ctx, node, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the suite ended with %v:\n%s", err, tail(out, 4000))
	}
	if text := string(out); strings.Contains(text, "WARNING") || strings.Contains(text, "FAILURE") {
		t.Errorf("not all is well:\n%s", tail(out, 4000))
	}
}
