package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The service of OpenRC passes the lines of patchbay.env on as they are; no shell runs them.
func TestEnvironmentOfOpenRC(t *testing.T) {
	env := filepath.Join(t.TempDir(), "patchbay.env")
	lines := `# a comment with = in it
PATCHBAY_DATABASE_URL=postgres://ada:p$a(ss@db/x?a=b&c=d
PATCHBAY_TOUCHED=$(touch ` + env + `.touched)
PATCHBAY_QUOTED="two words"
PATCHBAY_BAD NAME=1
no assignment
PATCHBAY_LAST='$x'`
	if err := os.WriteFile(env, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	script, err := scripts.ReadFile("scripts/openrc.sh")
	if err != nil {
		t.Fatal(err)
	}
	text := "checkpath() { :; }\n" + strings.ReplaceAll(string(script), "/etc/patchbay/patchbay.env", env) +
		"\nset -eu; start_pre; env; echo name=$name\n"
	out, err := exec.CommandContext(t.Context(), "sh", "-c", text).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"PATCHBAY_DATABASE_URL=postgres://ada:p$a(ss@db/x?a=b&c=d\n",
		"PATCHBAY_TOUCHED=$(touch ", "PATCHBAY_QUOTED=two words\n", "PATCHBAY_LAST=$x\n", "name=Patchbay\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if _, err := os.Stat(env + ".touched"); err == nil {
		t.Error("a value was run")
	}
}
