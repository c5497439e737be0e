package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	d := blankDesk(t)
	script := filepath.Join(t.TempDir(), "complete.sh")
	if err := os.WriteFile(script, []byte(d.ok("completion", "bash")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words string // COMP_WORDS; the last one is completed
		want  string
		not   string
	}{
		{`patchbay ""`, "serve demo discover relay user", "add"},
		{`patchbay bo`, "bot", "serve"},
		{`patchbay bot ""`, "add list show set share rm rotate", "serve"},
		{`patchbay --json bot ""`, "add list show set share rm rotate", "serve"},
		{`patchbay bot add --k`, "--kind", "--name"},
		{`patchbay user add ada --role ""`, "admin member", "--role"},
		{`patchbay user add ada --role = a`, "admin", "member"},
		{`patchbay completion ""`, "bash zsh fish", "serve"},
		{`patchbay serve --turn-l`, "--turn-late", "--turn-idle"},
		{`patchbay ask bot --im`, "--image", "list"},
	} {
		program := `source "$1"; COMP_WORDS=(` + c.words +
			`); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _patchbay; echo "${COMPREPLY[@]}"`
		out, err := exec.Command(bash, "--norc", "-c", program, "-", script).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := " " + strings.TrimSpace(string(out)) + " "; !strings.Contains(got, " "+c.want+" ") &&
			!strings.HasPrefix(strings.TrimSpace(got), c.want) {
			t.Errorf("%s gives %q, want %q", c.words, got, c.want)
		} else if strings.Contains(got, " "+c.not+" ") {
			t.Errorf("%s gives %q, which has %q", c.words, got, c.not)
		}
	}
}

// The other shells are not on every machine; their scripts are at least parsed.
func TestCompletionIsAcceptedByItsShell(t *testing.T) {
	d := blankDesk(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			script := d.ok("completion", shell)
			for _, want := range []string{"simulate", "glasses", "rotate", "admin member"} {
				if shell == "zsh" && want == "admin member" {
					want = "--role=admin"
				}
				if !strings.Contains(script, want) {
					t.Errorf("the script does not have %q", want)
				}
			}
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("no %s here", shell)
			}
			file := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(program, "-n", file).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
