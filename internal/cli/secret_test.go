package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/control"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// The secret is replaced by the server that runs, which the next one starts with.
func TestSecretCommands(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	var admin struct{ Key string }
	d.json(&admin, "key", "add", "--name", "a", "--scope", "admin")
	if got := d.ok("secret", "forget"); got != "There is no old secret.\n" {
		t.Errorf("forget says %q", got)
	}
	s := d.serve()
	from := []string{"--server", s.URL, "--key", admin.Key}
	before := d.ok("secret", "show", "--reveal")
	d.failing(exitFailed, "", append([]string{"secret", "show", "--reveal"}, from...), "server's machine only")
	var now control.RotatedSecret
	d.json(&now, append([]string{"secret", "rotate"}, from...)...)
	if now.Secret != "" || now.Configured || len(now.Secrets) != 2 || !now.Secrets[0].Own {
		t.Errorf("rotated is %+v", now)
	}
	revealed := d.ok("secret", "show", "--reveal")
	file, err := os.ReadFile(filepath.Join(d.data, seal.FileName))
	if err != nil || revealed == before || strings.TrimSpace(string(file)) != strings.TrimSpace(revealed) {
		t.Errorf("the new secret is not in the file (%v)", err)
	}
	if got := d.ok("secret", "show"); strings.Count(got, "holds until") != 1 || !strings.Contains(got, "starts with it") {
		t.Errorf("shown is\n%s", got)
	}
	if got := d.ok("secret", "forget"); got != "Old secrets removed: 1.\n" {
		t.Errorf("forget says %q", got)
	}
	d.failing(exitUsage, "", append([]string{"secret", "rotate", "--lost"}, from...), "cannot be used with --server")
	events, err := d.base().Store.AdminEvents.Newest(t.Context(), "", 9)
	if err != nil || !slices.ContainsFunc(events[1:], func(e store.AdminEvent) bool {
		return e.Action == control.EventSecretRotated && e.Name == "ada" && e.About == now.Secrets[0].ID
	}) || events[0].Action != control.EventSecretForgotten {
		t.Errorf("the journal has %+v (%v)", events, err)
	}
}

// A configured secret is told to whoever runs the machine; others give one.
func TestConfiguredSecret(t *testing.T) {
	d := newDesk(t)
	d.env = append(d.env, "PATCHBAY_SECRET="+seal.NewSecret())
	d.ok("user", "add", "ada")
	d.failing(exitFailed, "", []string{"secret", "rotate", "--now"}, "run this without --now")
	file := filepath.Join(t.TempDir(), "new")
	for text, want := range map[string]string{"": "is empty", "short": "32"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d.failing(exitFailed, "", []string{"secret", "rotate", "--from", file}, want)
	}
	got := d.ok("secret", "rotate")
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) != 3 || lines[2] != strings.TrimSpace(d.ok("secret", "show", "--reveal")) {
		t.Errorf("rotate says %q", got)
	}
	d.failing(exitFailed, "", []string{"secret", "forget"}, "is the old one still")
	d.failing(exitFailed, "", []string{"secret", "rotate", "--lost"}, "is not lost")
}
