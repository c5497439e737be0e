package hub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// TestInventory checks that an owner sees tools that callers do not: denied and dangerous ones.
func TestInventory(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	for _, rule := range []store.ToolRule{{Tool: "lamp_off", Rule: hub.RuleDeny},
		{Tool: "lamp_reset*", Rule: hub.RuleAllow}} {
		rule.Owner, rule.Created = r.Person.ID, time.Now()
		if err := r.Store.ToolRules.Set(t.Context(), rule); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Hub.OnToolsChanged(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	register(t, r.Hub, hub.ProviderRef{ID: "1", Slug: "lamp", Kind: "k", Owner: r.Person.ID}, echoProvider,
		tool.Tool{Name: "on"}, tool.Tool{Name: "off"}, tool.Tool{Name: "burn", Dangerous: true},
		tool.Tool{Name: "reset_all", Dangerous: true})
	register(t, r.Hub, hub.ProviderRef{ID: "2", Slug: "door", Kind: "k", Owner: "somebody else"}, echoProvider,
		tool.Tool{Name: "open"})
	register(t, r.Hub, hub.ProviderRef{ID: "3", Kind: "k"}, echoProvider, tool.Tool{Name: "ask"})
	// Two tools of one name: the one that may be used counts.
	register(t, r.Hub, hub.ProviderRef{ID: "4", Kind: "k"}, echoProvider, tool.Tool{Name: "ask", Dangerous: true})
	for _, c := range []struct{ person, rules, want string }{
		{r.Person.ID, "", "ask allowed, lamp_burn dangerous, lamp_off denied, lamp_on allowed, lamp_reset_all allowed"},
		{r.Person.ID, `{"deny":["ask"],"dangerous":["lamp_b*"]}`,
			"ask denied, lamp_burn allowed, lamp_off denied, lamp_on allowed, lamp_reset_all allowed"},
		{r.Person.ID, `{"allow":["lamp_on"]}`,
			"ask denied, lamp_burn denied, lamp_off denied, lamp_on allowed, lamp_reset_all denied"},
		{"somebody else", "", "ask allowed, door_open allowed"},
		{"", "", "ask allowed"},
	} {
		list, err := r.Hub.Inventory(c.person, c.rules)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i, l := range list {
			if i > 0 {
				got += ", "
			}
			got += fmt.Sprint(l.Name, " ", l.State)
		}
		if got != c.want {
			t.Errorf("with rules %q there is %q, want %q", c.rules, got, c.want)
		}
	}
	// The list is cached until something changes.
	register(t, r.Hub, hub.ProviderRef{ID: "5", Slug: "a", Kind: "k", Owner: r.Person.ID}, echoProvider,
		tool.Tool{Name: "new"})
	if list, err := r.Hub.Inventory(r.Person.ID, ""); err != nil || len(list) != 6 || list[0].Name != "a_new" {
		t.Errorf("after something was plugged in there is %v, %v", list, err)
	}
	if err := r.Store.ToolRules.Set(t.Context(), store.ToolRule{Owner: r.Person.ID, Tool: "a_*", Rule: hub.RuleDeny,
		Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := r.Hub.RefreshTools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := r.Hub.Inventory(r.Person.ID, ""); err != nil || list[0].State != "denied" {
		t.Errorf("after the owner has denied it there is %v, %v", list, err)
	}
	for _, c := range []struct{ provider, rules, want string }{
		{"1", "", "burn dangerous, off denied, on allowed, reset_all allowed"},
		{"1", `{"deny":["lamp_on"],"dangerous":["lamp_b*"]}`, "burn allowed, off denied, on denied, reset_all allowed"},
		{"2", "", "open allowed"},
		{"9", "", ""},
	} {
		list, err := r.Hub.ProviderInventory(c.provider, c.rules)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range list {
			got = append(got, l.Tool.Name+" "+l.State)
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("of outlet %s with rules %q there is %q, want %q", c.provider, c.rules, got, c.want)
		}
	}
	if _, err := r.Hub.Inventory(r.Person.ID, "nonsense"); err == nil {
		t.Error("rules that cannot be read are taken")
	}
	if _, err := r.Hub.ProviderInventory("1", "nonsense"); err == nil {
		t.Error("rules that cannot be read are taken for one outlet")
	}
}
