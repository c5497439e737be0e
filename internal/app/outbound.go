package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/config"
	"patchbay/internal/fetch"
)

// trusts reports whether connections made for a person may reach any address, and whether that
// person may see what is found there. Administrators and the command line are trusted. A person who
// cannot be looked up is not.
func (b *Base) trusts(ctx context.Context, person string) bool {
	if b.dial == nil {
		return true
	}
	p, err := b.Store.People.ByID(ctx, person)
	return err == nil && p.Role == account.RoleAdmin
}

// dialGuarded connects to addresses chosen by untrusted people.
func (b *Base) dialGuarded(ctx context.Context, network, address string) (net.Conn, error) {
	if b.dial == nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return b.dial(ctx, network, address)
}

// ownersTransport sends requests on behalf of a person. It checks for each request whether the
// person is trusted, so that a demotion takes effect at once: the two transports share no
// connections.
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

// fetchers returns the fetchers of images: for wearers with a bot, and for anybody who wants to be
// bound.
func fetchers(c *config.Config, log *slog.Logger, reg prometheus.Registerer) (photos, binding *fetch.Fetcher,
	err error) {
	nets, err := config.ParsePrefixes(c.Fetch.AllowNets)
	if err != nil {
		return nil, nil, err
	}
	o := fetch.Options{
		AllowHosts: c.Fetch.AllowHosts, AllowNets: nets, PrivateHosts: c.Fetch.Private,
		MaxBytes: int64(c.Fetch.MaxBytes), Timeout: c.Fetch.Timeout,
		Logger: log, Registerer: reg,
	}
	photos = fetch.New(o)
	o.AllowHosts = c.Lingzhu.BindingHosts
	return photos, fetch.New(o), nil
}
