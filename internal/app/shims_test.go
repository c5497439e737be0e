package app

import (
	"context"
	"testing"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// lamp is a board with one tool.
type lamp struct{}

func (lamp) Call(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("done"), nil }

// One instance joins a gateway, and another one when the first stops: as the same node, without
// another approval.
func TestShimMovesOn(t *testing.T) {
	gateway := clienttest.Start(t, clienttest.Options{})
	bus, db := bustest.Cluster(t, 1), store.Options{Folder: t.TempDir()}
	all := []*instance{newInstance(t, hubtest.Options{BusURL: bus, DB: db}),
		newInstance(t, hubtest.Options{BusURL: bus, DB: db})}
	socket, err := all[0].Hub.Register(hub.ProviderRef{ID: "board:1", Owner: all[0].Person.ID,
		Slug: "kitchen", Title: "Kitchen", Kind: xiaozhi.Kind, Held: true}, lamp{})
	if err != nil {
		t.Fatal(err)
	}
	socket.SetTools([]tool.Tool{{Name: "self.lamp.on"}})
	for _, i := range all {
		i.await(t, "the board is there", has("kitchen_self_lamp_on"))
	}
	u, _, err := all[0].base.AddUpstream(t.Context(), all[0].Person, "claw", UpstreamShim,
		&ShimSettings{URL: gateway.URL, Token: clienttest.Token})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if err := i.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first := gateway.Peer()
	if c := first.Connect; c.Role != wire.RoleNode || c.Client.DisplayName != "Kitchen" || c.Device == nil {
		t.Fatalf("it joined as %+v", c)
	}
	holder := -1
	for n, i := range all {
		if h := i.joined.health(UpstreamProviderID(u)); h.State != control.UpstreamElsewhere {
			if holder >= 0 {
				t.Error("both have joined")
			}
			holder = n
		}
	}
	if holder < 0 {
		t.Fatal("nobody has joined")
	}
	all[holder].joined.Close()
	second := gateway.Peer()
	if second.Connect.Device.ID != first.Connect.Device.ID {
		t.Error("another node came back")
	}
	if h := all[1-holder].joined.health(UpstreamProviderID(u)); h.State == control.UpstreamElsewhere ||
		len(h.Nodes) != 1 || h.Nodes[0].Node != first.Connect.Device.ID {
		t.Errorf("its health is %+v", h)
	}
	if err := all[0].Store.Upstreams.Remove(t.Context(), u.Number); err != nil {
		t.Fatal(err)
	}
	if err := all[1-holder].refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	second.CloseCode()
}
