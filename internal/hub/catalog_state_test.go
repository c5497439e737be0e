package hub_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"patchbay/internal/hub"
	"patchbay/internal/tool"
)

// TestLittleIsSaidWhileNothingChanges checks that the size of periodic announcements does not grow
// with the number of providers, and that an instance that joins later gets all of them.
func TestLittleIsSaidWhileNothingChanges(t *testing.T) {
	const providers, most = 1200, 500
	near, far := newNamedPair(t)
	for i := range providers {
		register(t, far.Hub, hub.ProviderRef{ID: fmt.Sprint("board:", i), Slug: fmt.Sprint("b", i),
			Kind: "k", Owner: near.Person.ID, Held: true}, echoProvider, tool.Tool{Name: "on"})
	}
	waitUntil(t, near, "all are known", func() bool { return near.Hub.HeldCounts()[near.Person.ID] == providers })
	said := make(chan int, 100)
	sub, err := near.Hub.Bus.Subscribe("tools", func(m *nats.Msg) {
		var a struct {
			I string
			N int
		}
		if json.Unmarshal(m.Data, &a) == nil && a.I == far.Hub.Bus.Instance {
			select {
			case said <- len(m.Data):
			default: // enough announcements
			}
		}
	})
	must(t, err)
	defer sub.Unsubscribe() //nolint:errcheck // the connection is closed next
	for range 4 {
		select {
		case n := <-said:
			if n > most {
				t.Errorf("an announcement has %d bytes, more than %d, while nothing changes", n, most)
			}
		case <-t.Context().Done():
			t.Fatal("nothing is said")
		}
	}
}

// TestAMissedChangeIsAskedFor checks that an instance detects a missed change by the sequence
// number of an announcement, and requests a census.
func TestAMissedChangeIsAskedFor(t *testing.T) {
	near, _ := newNamedPair(t)
	provider := func(n int) string {
		return fmt.Sprintf(`{"id":"board:%d","owner":%q,"kind":"k","held":true,"print":%d}`, n, near.Person.ID, n)
	}
	bus := near.Hub.Bus
	tell := func(subject, what string) {
		t.Helper()
		must(t, bus.Publish(subject, []byte(`{"i":"ghost",`+what+`}`)))
	}
	asked := make(chan string, 100)
	sub, err := bus.Subscribe("census.ghost", func(m *nats.Msg) { asked <- string(m.Data) })
	must(t, err)
	defer sub.Unsubscribe() //nolint:errcheck // the connection is closed next
	lists, err := bus.Subscribe("tools.ghost", func(m *nats.Msg) {
		bus.Respond(m, []byte(`{"tools":[]}`)) //nolint:errcheck // no requester
	})
	must(t, err)
	defer lists.Unsubscribe() //nolint:errcheck // as above
	// answer waits until near requests a census, and responds with boards providers.
	answer := func(what string, number, boards int) {
		t.Helper()
		for {
			select {
			case who := <-asked:
				if who != bus.Instance {
					continue // the request of the other instance
				}
			case <-t.Context().Done():
				t.Fatalf("nobody asks: %s", what)
			}
			break
		}
		all := ""
		for i := range boards {
			if i > 0 {
				all += ","
			}
			all += provider(i)
		}
		tell("held."+bus.Instance, fmt.Sprintf(`"n":%d,"h":[%s]`, number, all))
		waitUntil(t, near, what, func() bool { return near.Hub.HeldCounts()[near.Person.ID] == boards })
	}
	tell("tools", `"n":7,"part":true,"h":[]`)
	answer("all of an instance that is new is known", 7, 2)
	tell("tools", `"n":8,"part":true,"h":[`+provider(2)+`]`)
	tell("tools", `"n":8,"part":true,"h":[]`)
	waitUntil(t, near, "a change is known", func() bool { return near.Hub.HeldCounts()[near.Person.ID] == 3 })
	tell("tools", `"n":10,"part":true,"h":[]`)
	answer("two changes that were missed are known", 10, 5)
	tell("tools", `"n":12,"part":true,"h":[`+provider(5)+`]`)
	answer("one before a change is known", 12, 7)
}
