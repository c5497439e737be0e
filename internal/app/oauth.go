package app

import (
	"patchbay/internal/config"
	"patchbay/internal/fetch"
	"patchbay/internal/oauth"
)

// newOAuth returns the authorization server. The documents of programs are read from public
// addresses only, also if others may be read from elsewhere.
func newOAuth(b *Base, o oauth.Options) (*oauth.Service, error) {
	nets, err := config.ParsePrefixes(b.Config.Fetch.AllowNets)
	if err != nil {
		return nil, err
	}
	o.Store, o.Box, o.PublicURL = b.Store, b.Box, b.Config.PublicURL
	o.Dial = fetch.New(fetch.Options{AllowNets: nets, Logger: o.Logger}).Dial
	return oauth.New(o), nil
}
