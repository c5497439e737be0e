package page

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"patchbay/internal/account"
)

// PasskeySite returns where passkeys are good that are used on this page. Browsers want https and a
// host name for that, or this machine as localhost (WebAuthn section 5.1.2, and the definition of
// secure contexts). A name that only the request claims is not trusted.
func (v *Visit) PasskeySite() (site account.Site, ok bool) {
	if p := v.Instance.Control.OIDC; p != nil && p.Only {
		return site, false
	}
	host := v.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return account.Site{Host: "localhost", Origin: v.LocalOrigin()}, true
	}
	u, err := url.Parse(v.Instance.Control.PublicURL)
	if err != nil || u.Scheme != "https" || !strings.EqualFold(u.Host, v.Host) {
		return site, false
	}
	if _, err := netip.ParseAddr(strings.Trim(u.Hostname(), "[]")); err == nil {
		return site, false
	}
	return account.Site{Host: strings.ToLower(u.Hostname()), Origin: "https://" + strings.ToLower(u.Host)}, true
}

// askPasskey is what a page needs to offer a passkey for signing in, or for confirming; nil if it
// cannot, or nobody has one.
func (v *Visit) askPasskey() *account.Ceremony {
	site, ok := v.PasskeySite()
	if !ok {
		return nil
	}
	has, err := v.Instance.Accounts.HasPasskeys(v.Context(), v.Session.Person.ID)
	if err == nil && has {
		var c account.Ceremony
		if c, err = v.Instance.Accounts.AskPasskey(site, v.Session.Person); err == nil {
			return &c
		}
	}
	if err != nil { // the page is good without it
		v.Instance.Logger.WarnContext(v.Context(), "no passkey can be offered", "error", err)
	}
	return nil
}
