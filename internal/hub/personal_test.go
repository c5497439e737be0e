package hub_test

import (
	"testing"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// TestToolsForPeople checks that tools for people are hidden from programs until they are allowed:
// for one key by its rules, or for all by name.
func TestToolsForPeople(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	registration, err := r.Hub.Register(hub.ProviderRef{ID: "board:1", Owner: r.Person.ID,
		Slug: "desk", Kind: "xiaozhi"}, silentProvider{})
	if err != nil {
		t.Fatal(err)
	}
	registration.SetTools([]tool.Tool{{Name: "volume"}, {Name: "record", Audience: "user"},
		{Name: "reboot", Audience: "user", Dangerous: true}})
	shown := func(rules hub.Rules) string {
		t.Helper()
		v, err := r.Hub.View(r.Person.ID, rules.String())
		if err != nil {
			t.Fatal(err)
		}
		names := ""
		for _, o := range v.Tools {
			names += o.Tool.Name + " "
		}
		return names
	}
	for _, c := range []struct {
		rules hub.Rules
		want  string
	}{
		{hub.Rules{}, "volume "},
		{hub.Rules{Allow: []string{"desk_record"}}, ""},
		{hub.Rules{People: true}, "record volume "},
		{hub.Rules{Dangerous: []string{"desk_record"}}, "record volume "},
		{hub.Rules{People: true, Dangerous: []string{"*"}}, "reboot record volume "},
		{hub.Rules{People: true, Deny: []string{"desk_record"}}, "volume "},
	} {
		if got := shown(c.rules); got != c.want {
			t.Errorf("with %q: %s, want %s", c.rules.String(), got, c.want)
		}
	}
	_, err = r.Hub.Call(t.Context(), hub.Access{Caller: tool.Caller{Person: r.Person.ID, Channel: "mcp"}},
		"desk_record", &tool.Call{})
	if e := tool.AsError(err); e == nil || e.Code != tool.Denied {
		t.Errorf("a program that calls it nevertheless: %v", err)
	}
	if err := r.Store.ToolRules.Set(t.Context(), store.ToolRule{Owner: r.Person.ID,
		Tool: "desk_record", Rule: hub.RuleAllow}); err != nil {
		t.Fatal(err)
	}
	if err := r.Hub.OnToolsChanged(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := shown(hub.Rules{}); got != "record volume " {
		t.Errorf("allowed to all: %s", got)
	}
}
