package oidc

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"strings"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
)

const (
	msgCheck      = i18n.Message("OpenID provider")
	msgCheckAway  = i18n.Message("%s does not answer properly: %s")
	msgCheckIss   = i18n.Message("calls itself %q, and oidc.issuer is %q")
	msgCheckPlain = i18n.Message("%s is not encrypted, so that anybody in between can sign in as anybody")
	msgCheckBack  = i18n.Message("browsers come back to %s, which is not encrypted")
	msgCheckHere  = i18n.Message("%s answers; people can sign in with it on this machine only, as public_url is not set")
	msgCheckGood  = i18n.Message("%s answers; register %s there as the redirect address")
	msgCheckAdmin = i18n.Message("no administrator is linked, and oidc.only refuses passwords, so nobody can administrate in the console")

	adviceIss   = i18n.Message("Set oidc.issuer to exactly what the provider calls itself.")
	adviceAway  = i18n.Message("Open %s in a browser: it shows what the provider says about itself.")
	advicePlain = i18n.Message("Give the provider an https address.")
	adviceBack  = i18n.Message("Set public_url to an https address; providers send people nowhere else, and this machine needs none.")
	adviceAdmin = i18n.Message("Take out oidc.only, sign in with a password, link the account in the settings, and set it again.")
)

// Check checks whether people can sign in at the provider, given the public URL and how many
// administrators are linked.
func (p *Provider) Check(ctx context.Context, r *check.Report, public string, admins int) {
	name := msgCheck.With()
	d, err := p.describe(ctx)
	if err == nil {
		_, err = d.keys.current(ctx, nil)
	}
	if other, ok := errors.AsType[*gooidc.IssuerMismatchError](err); ok {
		r.Fail(name, msgCheckIss.With(check.Foreign(other.Discovered), p.Issuer), adviceIss.With())
		return
	}
	if err != nil {
		r.Fail(name, msgCheckAway.With(p.Issuer, check.SingleLine(r.Explained(err).Error())),
			adviceAway.With(strings.TrimSuffix(p.Issuer, "/")+"/.well-known/openid-configuration"))
		return
	}
	switch {
	case !isSafe(p.Issuer):
		r.Warn(name, msgCheckPlain.With(p.Issuer), advicePlain.With())
	case public != "" && !isSafe(public):
		r.Warn(name, msgCheckBack.With(public+CallbackPath), adviceBack.With())
	case p.Only && admins == 0:
		r.Warn(name, msgCheckAdmin.With(), adviceAdmin.With())
	case public == "":
		r.OK(name, msgCheckHere.With(p.Issuer))
	default:
		r.OK(name, msgCheckGood.With(p.Issuer, strings.TrimRight(public, "/")+CallbackPath))
	}
}

// isSafe reports whether nobody is between a browser or this server and an address.
func isSafe(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || err == nil && a.IsLoopback()
}
