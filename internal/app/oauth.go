package app

import (
	"patchbay/internal/config"
	"patchbay/internal/fetch"
	"patchbay/internal/oauth"
)

// newOAuth returns the authorization server. The documents of programs are read from public
// addresses and from the networks of fetch.allow_nets, but not from the hosts of
// fetch.private_hosts: any stranger can name a document.
func newOAuth(b *Base, o oauth.Options) (*oauth.Service, error) {
	nets, err := config.ParsePrefixes(b.Config.Fetch.AllowNets)
	if err != nil {
		return nil, err
	}
	o.Store, o.Box, o.PublicURL = b.Store, b.Box, b.Config.PublicURL
	o.Dial = fetch.New(fetch.Options{AllowNets: nets, Logger: o.Logger}).Dial
	return oauth.New(o), nil
}
