package app

import (
	"context"
	"net"
	"net/url"

	"patchbay/internal/config"
	"patchbay/internal/discovery"
	"patchbay/internal/netx"
)

// FirstSteps is what somebody has to know who starts a server for the first time.
type FirstSteps struct {
	SetupCode string // needed to open the first account; empty if there is an account
	// LockedOut is the name of the first person, if there are people and none has a password; empty
	// otherwise.
	LockedOut string
	FirstBot  string // name of bot 1, or its number
	// Network are the addresses under which other devices of the network reach the server; none if
	// it listens on this machine alone.
	Network []string
}

// FirstSteps returns what is known. What cannot be read is left out.
// address is that of the server.
func (b *Base) FirstSteps(ctx context.Context, address string) (f FirstSteps) {
	f.Network = networkAddresses(b.Config, address)
	f.SetupCode, _ = b.Accounts.SetupCode(ctx) //nolint:errcheck // see above
	if people, err := b.Store.People.All(ctx); err == nil && len(people) > 0 {
		f.LockedOut = people[0].Name
		for _, p := range people {
			if p.Password != "" {
				f.LockedOut = ""
			}
		}
	}
	f.FirstBot = "1"
	if bot, err := b.Store.Bots.ByNumber(ctx, 1); err == nil { // an earlier start may have named it
		f.FirstBot = bot.Name
	}
	return f
}

// networkAddresses returns the addresses of a server in its network.
func networkAddresses(c *config.Config, address string) (out []string) {
	host, _, err := net.SplitHostPort(c.Listen)
	u, bad := url.Parse(address)
	if err != nil || bad != nil || netx.IsLoopback(host) {
		return nil
	}
	if host != "" && host != "0.0.0.0" && host != "::" {
		return nil // address is the one
	}
	hosts := discovery.PrivateAddresses()
	if c.LocalName != "" && len(hosts) > 0 {
		hosts = append(hosts, c.LocalName+".local")
	}
	for _, h := range hosts {
		u.Host = net.JoinHostPort(h, u.Port())
		out = append(out, u.String())
	}
	return out
}
