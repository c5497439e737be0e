package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/config"
)

func TestConfigCommands(t *testing.T) {
	d := blankDesk(t)
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	if err := os.WriteFile(file, []byte(d.ok("config", "default")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.ok("config", "check", "--config", file); !strings.Contains(got, "settings are valid") ||
		!strings.Contains(got, "data comes from PATCHBAY_DATA") {
		t.Errorf("the default file is checked as\n%s", got)
	}
	got := d.ok("config", "check", "--config", file, "--effective", "--listen", ":4000", "--metrics-open=yes",
		"--secret", strings.Repeat("ab", 32))
	if !strings.Contains(got, "listen: :4000") || !strings.Contains(got, "open: true") ||
		strings.Contains(got, "abab") {
		t.Errorf("the effective settings are\n%s", got)
	}
	if got := d.ok("config", "doc"); !strings.Contains(got, "| `turn.late` | `PATCHBAY_TURN_LATE` | `--turn-late` |") {
		t.Errorf("the table is\n%.500s", got)
	}
	var list []setting
	d.json(&list, "config", "doc")
	if len(list) != len(config.Keys()) {
		t.Errorf("%d settings as JSON, want %d", len(list), len(config.Keys()))
	}
}

func TestConfigCheckFindsEverything(t *testing.T) {
	d := blankDesk(t)
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	if err := os.WriteFile(file, []byte("lisen: :3000\nturn:\n  idle: 2 days\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := d.do("", "config", "check", "--config", file)
	lines := strings.Split(strings.TrimSpace(o.stderr), "\n")
	if o.code != exitFailed || len(lines) != 2 || !strings.Contains(lines[0], "lisen on line 1") ||
		!strings.Contains(lines[1], "turn.idle on line 3") {
		t.Errorf("exit code %d, stderr\n%s", o.code, o.stderr)
	}
	o = d.do("", "config", "check", "--config", file, "--json")
	if o.code != exitFailed || !strings.Contains(o.stdout, `"ok": false`) ||
		!strings.Contains(o.stdout, `"key": "turn.idle"`) || o.stderr != "" {
		t.Errorf("as JSON: %+v", o)
	}
}

func TestSettingsReadSecretsFromFiles(t *testing.T) {
	d := blankDesk(t)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(strings.Repeat("cd", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.ok("config", "check", "--secret-file", file); !strings.Contains(got,
		"secret comes from --secret-file") {
		t.Errorf("said\n%s", got)
	}
}
