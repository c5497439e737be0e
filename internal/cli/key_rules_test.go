package cli

import (
	"patchbay/internal/control"
	"strings"
	"testing"
)

func TestKeyRules(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	got := d.ok("key", "add", "--name", "editor", "--scope", "mcp", "--allow-tool", "files_*,send_message",
		"--deny-tool", "files_delete", "--dangerous", "lamp_reset", "--rate", "60", "--keep-args")
	const all = "only files_* send_message, not files_delete, dangerous lamp_reset, 60/min, arguments kept"
	if !strings.Contains(got, all) {
		t.Errorf("it is added with %q", got)
	}
	if list := d.ok("key", "list"); !strings.Contains(list, all) {
		t.Errorf("the list is\n%s", list)
	}
	var rows []control.KeyRow
	d.json(&rows, "key", "list")
	id := rows[0].ID
	if rows[0].Rules.PerMinute != 60 || len(rows[0].Rules.Allow) != 2 {
		t.Errorf("the list is %+v", rows)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"editor"}, all},
		{[]string{id[:len(id)-2], "--rate", "5"},
			"only files_* send_message, not files_delete, dangerous lamp_reset, 5/min, arguments kept"},
		{[]string{id, "--allow-tool", "lamp_*", "--no-keep-args"},
			"only lamp_*, not files_delete, dangerous lamp_reset, 5/min"},
		{[]string{"editor", "--deny-tool", "", "--rate", "0"}, "only lamp_*, dangerous lamp_reset"},
		{[]string{"editor", "--clear", "--deny-tool", "x"}, "not x"},
		{[]string{"editor"}, "not x"},
		{[]string{"editor", "--clear"}, "all tools of its owner"},
	} {
		if got := d.ok(append([]string{"key", "rules"}, c.args...)...); got != "The key “editor” ("+id+"): "+c.want+
			"\n" {
			t.Errorf("key rules %q says %q, want %q", c.args, got, c.want)
		}
	}
	d.failing(exitFailed, "", []string{"key", "rules", "editor", "--allow-tool", "a b"}, "a b", "no name of a tool")
	d.failing(exitFailed, "", []string{"key", "rules", "editor", "--rate=-1"}, "0 to 1000000")
	d.failing(exitFailed, "", []string{"key", "rules", "nobody"}, `no key "nobody"`, "key list")
	d.failing(exitFailed, "", []string{"key", "rules", id[:3]}, "no key")
	d.failing(exitFailed, "", []string{"key", "add", "--name", "k", "--scope", "mcp", "--deny-tool", "a.b"}, "a.b", "no name of a tool")
	d.failing(exitFailed, "", []string{"key", "add", "--name", "k", "--scope", "mcp", "--expires", "20000d"}, "ten years")
	d.failing(exitFailed, "", []string{"key", "add", "--name", "k", "--scope", "mcp", "--rate", "5000000"}, "1000000")
	d.ok("key", "add", "--name", "editor", "--scope", "mcp")
	d.failing(exitFailed, "", []string{"key", "rules", "editor"}, "several keys", "key list")
	// A revoked key does not make the name ambiguous.
	d.ok("key", "revoke", id)
	if got := d.ok("key", "rules", "editor"); strings.Contains(got, id) {
		t.Errorf("a revoked key is meant: %q", got)
	}
}
