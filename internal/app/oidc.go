package app

import (
	"context"

	"patchbay/internal/account"
	"patchbay/internal/config"
	"patchbay/internal/oidc"
)

// newOIDC returns the OpenID provider of the configuration, or nil if there is none. Its address is
// the administrator's, so it may be private.
func newOIDC(c *config.Config) *oidc.Provider {
	o := c.OIDC
	return oidc.New(oidc.Options{Issuer: o.Issuer, ClientID: o.ID, ClientSecret: o.Secret, Name: o.Name,
		Scopes: o.Scopes, Allow: o.Allow, Create: o.Create, Only: o.Only})
}

// checkOIDC checks the OpenID provider, if there is one.
func (e *examination) checkOIDC(ctx context.Context) {
	p := newOIDC(e.settings)
	if p == nil {
		return
	}
	admins, err := e.base.Store.Linked.CountAdmins(ctx, p.Issuer, account.RoleAdmin)
	if err != nil {
		admins = 1 // the check of the database says what is wrong
	}
	p.Check(ctx, e.Report, e.settings.PublicURL, admins)
}
