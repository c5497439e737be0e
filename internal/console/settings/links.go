package settings

import (
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgLinksTold   = i18n.Message("You can sign in there, instead of with a password. Link the account once: you are sent there, and come back.")
	msgLinksNone   = i18n.Message("No account is linked.")
	msgLinkAdd     = i18n.Message("Link an account")
	msgLinkRemove  = i18n.Message("Remove")
	msgLinkOne     = i18n.Message("Remove the link to %s")
	msgLinkUsed    = i18n.Message("Used")
	msgLinked      = i18n.Message("The account is linked; from now on you can sign in with it.")
	msgLinkGone    = i18n.Message("The link is removed.")
	msgLinksOf     = i18n.Message("Accounts of the OpenID provider")
	msgLinksOfTold = i18n.Message("With these accounts, this person can sign in.")
)

// links returns the links of a person; none if there is no provider.
func (p pages) links(v *page.Visit, name string) ([]control.Link, error) {
	if p.OIDC == nil {
		return nil, nil
	}
	list, err := p.Links(v.Context(), v.Operator(), control.LinkQuery{User: name})
	return list.Links, err
}

// removeLink removes a link of the visitor, or for administrators of anybody.
func (p pages) removeLink(v *page.Visit) {
	l, err := p.RemoveLink(v.Context(), v.Operator(), control.LinkRef{Link: v.PathValue("link")})
	switch {
	case err != nil:
		v.Fail(err)
	case l.Person != v.Session.Person.ID:
		v.Redirect("/settings/people/" + l.Person + "?unlinked=1")
	default:
		v.Redirect("/settings?unlinked=1")
	}
}
