package app

import (
	"fmt"
	"testing"
)

// A relay gives names below its own; others are not believed.
func TestMayName(t *testing.T) {
	for _, c := range []struct {
		server, name string
		want         bool
	}{
		{"relay.example.org", "anna.relay.example.org", true},
		{"Relay.Example.org:8443", "anna.relay.example.org", true},
		{"relay.example.org", "relay.example.org", false},
		{"relay.example.org", "evil.example", false},
		{"relay.example.org", "annarelay.example.org", false},
		{"192.0.2.1:443", "anna.relay.example.org", true},
		{"192.0.2.1", "anna.relay.example.org", true},
		{"[2001:db8::1]:443", "anna.relay.example.org", true},
		{"2001:db8::1", "anna.relay.example.org", true},
	} {
		if got := mayName(c.server, c.name); got != c.want {
			t.Errorf("%s may give %s: %v", c.server, c.name, got)
		}
	}
}

// A relay cannot make this server order any number of certificates.
func TestRelayNamesAreBounded(t *testing.T) {
	seen, added := map[string]bool{}, map[string]int{}
	add := func(name string) { added[name]++ }
	for i := range 100 {
		addNew(seen, []string{"anna.relay.test", fmt.Sprintf("n%d.relay.test", i)}, add)
	}
	if len(added) != maxNames || added["anna.relay.test"] != 1 {
		t.Errorf("%d names were added", len(added))
	}
}
