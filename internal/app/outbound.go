package app

import (
	"context"
	"net"
	"net/http"
	"sync"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// trusts reports whether connections for a person may lead anywhere, and whether that
// person may learn what is found there: administrators run the installation, and the
// command line belongs to whoever runs the machine. Whom nobody can find is not trusted.
func (b *Base) trusts(ctx context.Context, person string) bool {
	if b.dial == nil {
		return true
	}
	p, err := b.Store.People.ByID(ctx, person)
	return err == nil && p.Role == account.RoleAdmin
}

// dialGuarded connects to where people may lead us who are not trusted.
func (b *Base) dialGuarded(ctx context.Context, network, address string) (net.Conn, error) {
	if b.dial == nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return b.dial(ctx, network, address)
}

// ownersTransport sends requests for a person. Who that is to the installation is looked up
// for each, so that a demotion holds at once: the two share no connections.
type ownersTransport struct {
	anywhere, guarded http.RoundTripper
	trusted           func(context.Context) bool
}

// RoundTrip implements [http.RoundTripper].
func (t ownersTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.trusted(r.Context()) {
		return t.anywhere.RoundTrip(r)
	}
	return t.guarded.RoundTrip(r)
}

// models knows how the last answer of each model has ended on this instance. The zero
// models knows nothing. It holds one entry for each bot that was asked.
type models struct{ last sync.Map } // number → lastAnswer

// lastAnswer is what is wrong with a bot with the settings of a version; zero: nothing.
type lastAnswer struct {
	version int64
	trouble talk.Say
}

// ended returns what notes how the answers of a bot end.
func (m *models) ended(b store.Bot) func(talk.Say) {
	return func(trouble talk.Say) { m.last.Store(b.Number, lastAnswer{b.Version, trouble}) }
}

// health is how a bot is. What another version of its settings has brought is forgotten.
func (m *models) health(b store.Bot) control.Health {
	if e, ok := m.last.Load(b.Number); ok && e.(lastAnswer).version == b.Version {
		return control.Health{Trouble: e.(lastAnswer).trouble}
	}
	return control.Health{}
}
