package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// skippedTest matches why a test of packages was skipped.
var skippedTest = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: (.*)\n--- SKIP`)

// checkPackages runs the tests of the packages of Linux distributions, which are a module of their
// own. The note says what was skipped.
func checkPackages(ctx context.Context) result {
	cmd := exec.CommandContext(ctx, "go", "test", "-v", "./...")
	cmd.Dir = filepath.Join("tools", "packages")
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return result{state: failed, note: err.Error(), more: string(out)}
	}
	var reasons []string
	for _, m := range skippedTest.FindAllStringSubmatch(string(out), -1) {
		reasons = append(reasons, m[1])
	}
	return result{state: passed, note: strings.Join(reasons, "; ")}
}
