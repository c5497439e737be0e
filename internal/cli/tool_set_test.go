package cli

import (
	"strings"
	"testing"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/control"
	"patchbay/internal/store"
)

// A set grows by what is added, and shrinks by what is taken out; only --replace replaces it.
func TestToolSet(t *testing.T) {
	d, _ := withLamp(t)
	for _, c := range []struct{ args, want string }{
		{"add home lamp_set", "lamp_set"},
		{"add home lamp_state lamp_set", "lamp_set lamp_state"},
		{"add home send_message", "lamp_set lamp_state send_message"},
		{"rm home lamp_set send_message", "lamp_state"},
		{"add home lamp_set --replace", "lamp_set"},
	} {
		var row control.ToolSetRow
		d.json(&row, append([]string{"tool", "set"}, strings.Fields(c.args)...)...)
		if got := strings.Join(row.Tools, " "); got != c.want {
			t.Errorf("%s: the set has %s, want %s", c.args, got, c.want)
		}
	}
	d.failing(exitFailed, "", []string{"tool", "set", "rm", "home", "lamp_state"}, "does not name lamp_state")
	d.failing(exitFailed, "", []string{"tool", "set", "rm", "home", "lamp_set"}, "remove the set instead")
	d.failing(exitFailed, "", []string{"tool", "set", "rm", "garden", "lamp_set"}, "no set garden")

	d.ok("key", "add", "--name", "desk", "--scope", "mcp", "--set", "home")
	if _, told := d.examine(exitOK)["key desk"]; told {
		t.Error("the doctor complains of a key whose set is there")
	}
	d.ok("tool", "set", "rm", "home")
	want(t, d.examine(exitOK), "key desk", check.Warn, "set home is gone")
}

// The owners of calls that wait are shown if there are several.
func TestApprovalListOfSeveral(t *testing.T) {
	d := withParrot(t)
	b := d.base()
	bob, err := b.Accounts.AddPerson(t.Context(), "bob", "member", "en", "")
	if err != nil {
		t.Fatal(err)
	}
	ada, err := b.Store.People.ByName(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	wait := func(id, person string) {
		t.Helper()
		a := store.Approval{ID: id, Person: person, Caller: "desk", Tool: "lamp_burn",
			State: store.ApprovalWaiting, Asked: now, Expires: now.Add(time.Hour)}
		if _, _, err := b.Store.Approvals.Ask(t.Context(), a, 9, 9); err != nil {
			t.Fatal(err)
		}
	}
	wait("aaaaaaaaaaaaaaaa", ada.ID)
	if got := d.ok("approval", "list"); strings.Contains(got, "USER") || !strings.Contains(got, "lamp_burn") {
		t.Errorf("the list of one person's is\n%s", got)
	}
	wait("bbbbbbbbbbbbbbbb", bob.ID)
	got := d.ok("approval", "list")
	for _, want := range []string{"USER", "ada", "bob"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
}
