package app

import (
	"patchbay/internal/fetch"
	"patchbay/internal/oauth"
)

// newOAuth returns the authorization server. It reads the documents of clients from public
// addresses only, and ignores fetch.allow_nets: anybody can send the address of a document,
// without a key.
func newOAuth(b *Base, o oauth.Options) *oauth.Service {
	o.Store, o.Box, o.PublicURL = b.Store, b.Box, b.Config.PublicURL
	if o.Dial == nil { // tests have one
		o.Dial = fetch.New(fetch.Options{Logger: o.Logger}).Dial
	}
	return oauth.New(o)
}
