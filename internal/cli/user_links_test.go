package cli

import (
	"strings"
	"testing"

	"patchbay/internal/control"
	"patchbay/internal/store"
)

func TestLinkCommands(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("user", "add", "bob")
	b := d.base()
	for _, name := range []string{"ada", "bob"} {
		p, err := b.Store.People.ByName(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Accounts.Link(t.Context(), store.Linked{Issuer: "https://auth.example.org", Subject: "of " + name,
			Person: p.ID, Label: name + "@example.org"}); err != nil {
			t.Fatal(err)
		}
	}
	var links []control.Link
	d.json(&links, "user", "links", "--user", "bob")
	if len(links) != 1 || links[0].PersonName != "bob" || links[0].Label != "bob@example.org" {
		t.Fatalf("%+v", links)
	}
	if all := d.ok("user", "links"); strings.Count(all, "https://auth.example.org") != 2 {
		t.Errorf("the list is\n%s", all)
	}
	if told := d.ok("user", "unlink", links[0].ID); !strings.Contains(told, "bob can no longer sign in as bob@example.org") {
		t.Errorf("it says %q", told)
	}
	if o := d.do("", "user", "unlink", links[0].ID); o.code == 0 || !strings.Contains(o.stderr, "no such link") {
		t.Errorf("a second time: %+v", o)
	}
	d.json(&links, "user", "links")
	if len(links) != 1 || links[0].PersonName != "ada" {
		t.Errorf("%+v", links)
	}
}
