package hub_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/bus"
	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// TestRefreshEverywhere checks that a rule applies on every instance when the refresh returns, and
// that an instance that does not confirm it is reported.
func TestRefreshEverywhere(t *testing.T) {
	urls := strings.Split(bustest.Cluster(t, 2), ",")
	db := store.Options{Folder: t.TempDir()}
	here := hubtest.New(t, hubtest.Options{DB: db, BusURL: urls[0], Name: "here"})
	there := hubtest.New(t, hubtest.Options{DB: db, BusURL: urls[1], Name: "there"})
	rigs := []*hubtest.Rig{here, there}
	for _, r := range rigs {
		register(t, r.Hub, hub.ProviderRef{ID: "lamp", Slug: "lamp", Kind: "k"}, echoProvider, tool.Tool{Name: "set"})
	}
	await(t, "they know one another", func() bool {
		return len(here.Hub.Bus.Peers()) == 1 && len(there.Hub.Bus.Peers()) == 1
	})
	for i := range 20 {
		from, rule := rigs[i%2], []string{hub.RuleDeny, ""}[i%2]
		if err := from.Store.ToolRules.Set(t.Context(), store.ToolRule{Owner: from.Person.ID,
			Tool: "lamp_*", Rule: rule, Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
		unconfirmed, err := from.Hub.RefreshToolsEverywhere(t.Context())
		if err != nil || len(unconfirmed) > 0 {
			t.Fatalf("not confirmed by %v (%v)", unconfirmed, err)
		}
		for _, r := range rigs {
			v, err := r.Hub.View(from.Person.ID, "")
			if err != nil || (v.Tool("lamp_set") == nil) != (rule == hub.RuleDeny) {
				t.Errorf("%s: with the rule %q the tools are %q (%v)", r.Hub.Bus.Instance, rule, names(v), err)
			}
		}
	}

	// One instance that does not respond, and one that fails.
	mute := peer(t, urls[0], "mute", func(*bus.Bus, *nats.Msg) {})
	broken := peer(t, urls[1], "broken", func(b *bus.Bus, m *nats.Msg) { b.Respond(m, []byte("the disk is full")) }) //nolint:errcheck // the test fails then
	await(t, "it knows them", func() bool { return len(here.Hub.Bus.Peers()) == 3 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	unconfirmed, err := here.Hub.RefreshToolsEverywhere(ctx)
	if want := []string{broken.Instance, mute.Instance}; err != nil || !slices.Equal(unconfirmed, want) {
		t.Errorf("not confirmed by %v (%v), want %v", unconfirmed, err, want)
	}
	// Instances that have left are not waited for.
	mute.Close()
	broken.Close()
	if unconfirmed, err := here.Hub.RefreshToolsEverywhere(t.Context()); err != nil || len(unconfirmed) > 0 {
		t.Errorf("not confirmed by %v, which are gone (%v)", unconfirmed, err)
	}
}

// peer returns the bus of a fake instance, which only handles refresh requests.
func peer(t *testing.T, url, name string, refresh func(*bus.Bus, *nats.Msg)) *bus.Bus {
	t.Helper()
	box, err := seal.New(hubtest.Secret)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.Open(t.Context(), bus.Options{URL: url, Name: name, Installation: "rig", Signer: box})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Subscribe("refresh."+b.Instance, func(m *nats.Msg) { refresh(b, m) }); err != nil {
		t.Fatal(err)
	}
	return b
}
