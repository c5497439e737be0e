package app

import (
	"patchbay/internal/fetch"
	"patchbay/internal/oauth"
)

// newOAuth returns the authorization server. The documents of programs are read from public
// addresses only, also if others may be read from elsewhere: whoever asks to be let in says where
// they are, before anybody has signed in.
func newOAuth(b *Base, o oauth.Options) *oauth.Service {
	o.Store, o.Box, o.PublicURL = b.Store, b.Box, b.Config.PublicURL
	if o.Dial == nil { // tests have one
		o.Dial = fetch.New(fetch.Options{Logger: o.Logger}).Dial
	}
	return oauth.New(o)
}
