package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
)

// target is a fuzz test.
type target struct{ pkg, name string }

// runFuzz runs every fuzz test for a while, one after the other, because each uses all processors.
// Minimising an input may take a minute by default, in which a test looks as if it had stalled.
// Failing inputs are kept in the package's testdata/fuzz, where ordinary tests run them again.
func runFuzz(ctx context.Context, o options, r *report) {
	var targets []target
	r.step(ctx, "list fuzz tests", func(ctx context.Context) result {
		cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-list", "^Fuzz"}, o.packages...)...)
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		out, err := cmd.Output()
		if err != nil {
			return result{state: failed, note: err.Error(), more: complaint.String() + string(out)}
		}
		targets = fuzzTests(out)
		return result{state: passed}
	})
	for _, t := range targets {
		r.step(ctx, "fuzz "+strings.TrimPrefix(t.pkg, "patchbay/")+" "+t.name, func(ctx context.Context) result {
			return command(ctx, "", nil, "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$",
				"-fuzztime", o.fuzz.String(), "-fuzzminimizetime=10x", t.pkg)
		})
	}
}

// fuzzTests parses the output of "go test -json -list".
func fuzzTests(out []byte) []target {
	var list []target
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action != "output" {
			continue
		}
		if name := strings.TrimSpace(e.Output); strings.HasPrefix(name, "Fuzz") && !strings.ContainsAny(name, " \t") {
			list = append(list, target{e.Package, name})
		}
	}
	return list
}
