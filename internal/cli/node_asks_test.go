package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/app"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// asking creates requests in a data directory, as a server does for nodes that connect.
type asking struct {
	t     *testing.T
	b     *app.Base
	owner string
}

func askingNodes(t *testing.T, b *app.Base) *asking {
	t.Helper()
	p, err := b.Store.People.ByName(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	return &asking{t, b, p.ID}
}

func (a *asking) ask(kind, id string, ask store.PeerAsk) {
	a.t.Helper()
	ask.Platform, ask.Family, ask.ClientID, ask.ClientMode = wire.Linux, "Linux", wire.ClientNode, wire.ModeNode
	_, made, err := a.b.Store.Peers.Request(a.t.Context(), store.PeerRequest{
		ID: uuid.NewString(), Kind: kind, Peer: strings.Repeat(id, 32), Owner: a.owner, Address: "192.0.2.7", Ask: ask,
		Refreshed: time.Now(),
	})
	if err != nil || !made {
		a.t.Fatalf("the request is made: %v (%v)", made, err)
	}
}

// device creates a request to connect as a node.
func (a *asking) device(id, name string) {
	a.t.Helper()
	a.ask(store.RequestDevice, id, store.PeerAsk{PublicKey: "key", Name: name, Roles: []string{wire.RoleNode}})
}

// surface creates a request to offer commands.
func (a *asking) surface(id, name string, commands ...string) {
	a.t.Helper()
	a.ask(store.RequestSurface, id, store.PeerAsk{Name: name, Commands: commands})
}
