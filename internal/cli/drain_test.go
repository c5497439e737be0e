package cli

import (
	"strings"
	"testing"
)

// Only administrators drain a server, and only one that runs.
func TestDrain(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.failing(exitFailed, "", []string{"drain"}, "no server runs on this data folder; give --server")
	var key struct{ Key string }
	d.json(&key, "key", "add", "--name", "laptop", "--scope", "operator")
	s := d.serve()
	for _, args := range [][]string{{"drain"}, {"audit", "verify"}} {
		d.failing(exitFailed, "", append(args, "--server", s.URL, "--key", key.Key), "Only those who run the installation")
	}
	if got := d.ok("drain"); !strings.Contains(got, "is draining") || !strings.Contains(got, "no other instance") {
		t.Errorf("drain says %q", got)
	}
	if got := d.ok("drain", "--undo"); !strings.Contains(got, "accepts devices again") {
		t.Errorf("drain --undo says %q", got)
	}
}
