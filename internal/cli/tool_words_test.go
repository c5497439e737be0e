package cli

import (
	"strings"
	"testing"

	"patchbay/internal/control"
)

// A tool that was renamed is understood by its new name wherever one tool is named, and rules are
// about the original one.
func TestToolWords(t *testing.T) {
	d, _ := withLamp(t)
	var row control.ToolWordsRow
	d.json(&row, "tool", "rename", "lamp_set", "lights")
	d.json(&row, "tool", "describe", "lights", "Illuminates a room.", "--title", "Lights")
	if row.Tool != "lamp_set" || row.Name != "lights" || row.Description != "Illuminates a room." ||
		row.Title != "Lights" {
		t.Errorf("%+v", row)
	}
	all := d.states()
	if x := all["lights"]; x.Original != "lamp_set" || x.Description != "Illuminates a room." || x.Title != "Lights" {
		t.Errorf("%+v", x)
	}
	if _, ok := all["lamp_set"]; ok {
		t.Error("the original name is listed, too")
	}
	for _, name := range []string{"lights", "lamp_set"} {
		if got := d.ok("tool", "show", name); !strings.Contains(got, "lights (") || !strings.Contains(got, "lamp_set;") {
			t.Errorf("tool show %s: %s", name, got)
		}
	}
	for _, c := range []struct{ tool, name, why string }{
		{"lights", "lamp_state", "has the name"}, {"lamp_state", "lights", "lamp_set has the name"},
		{"lamp_state", "lamp_set", "before it was renamed"}, {"lights", "a b", "cannot be the name"},
		{"lights", "find_tools", "Patchbay's own"}, {"nosuch", "x", "no tool called nosuch"},
	} {
		d.failing(exitFailed, "", []string{"tool", "rename", c.tool, c.name}, c.why)
	}
	d.failing(exitFailed, "", []string{"tool", "describe", "lights", "a\u200bb"}, "⟨U+200B⟩")

	// Whatever is typed, the original name is kept.
	d.ok("tool", "deny", "lights")
	if got := d.ok("tool", "rules"); !strings.Contains(got, "lamp_set") {
		t.Error(got)
	}
	if x := d.states("--all")["lights"]; x.State != control.ToolDenied {
		t.Errorf("%+v", x)
	}
	d.ok("tool", "reset", "lights")
	var set control.ToolSetRow
	d.json(&set, "tool", "set", "add", "home", "lights", "l*")
	if got := strings.Join(set.Tools, " "); got != "lamp_set l*" {
		t.Error(got)
	}
	var key struct{ ID string }
	d.json(&key, "key", "add", "--name", "desk", "--scope", "mcp", "--allow-tool", "lights", "--deny-tool", "kitchen")
	var key2 control.KeyRow
	d.json(&key2, "key", "rules", key.ID)
	if got := key2.Rules.String(); got != `{"allow":["lamp_set"],"deny":["kitchen"]}` {
		t.Error(got)
	}
	// A rule that was there before a tool got the name is about another tool, also when others
	// change.
	d.ok("tool", "rename", "lights", "kitchen")
	d.json(&key2, "key", "rules", key.ID, "--allow-tool", "kitchen", "--deny-tool", "kitchen")
	if got := key2.Rules.String(); got != `{"allow":["lamp_set"],"deny":["kitchen"]}` {
		t.Error(got)
	}

	if got := d.ok("tool", "words"); !strings.Contains(got, "lamp_set") || !strings.Contains(got, "kitchen") {
		t.Error(got)
	}
	d.ok("tool", "describe", "kitchen", "")
	if x := d.states()["kitchen"]; x.Title != "Lights" || x.Description == "Illuminates a room." {
		t.Errorf("%+v", x)
	}
	d.ok("tool", "original", "kitchen")
	if _, ok := d.states()["lamp_set"]; !ok {
		t.Error("the original name is not back")
	}
	d.failing(exitFailed, "", []string{"tool", "original", "kitchen"}, "no tool kitchen with a name")
}
