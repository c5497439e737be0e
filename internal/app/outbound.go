package app

import (
	"context"
	"net"
	"net/http"

	"patchbay/internal/account"
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
