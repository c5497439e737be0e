package oidc

import (
	"slices"
	"strings"
)

// Google is the issuer of Google accounts.
const Google = "https://accounts.google.com"

// Allows reports whether a person of the provider may sign in: everybody if nothing is configured,
// or else those whom an item of Allow names.
//
//	anna@example.org   a verified e-mail address
//	@example.org       the addresses of a domain
//	group:family       a group, as the provider calls it
//	*                  everybody
func (p *Provider) Allows(i *Identity) bool {
	return len(p.Allow) == 0 || slices.ContainsFunc(p.Allow, func(item string) bool { return p.matches(item, i) })
}

func (p *Provider) matches(item string, i *Identity) bool {
	if item == "*" {
		return true
	}
	if group, ok := strings.CutPrefix(item, "group:"); ok {
		return slices.Contains(i.Groups, group)
	}
	if !strings.HasPrefix(item, "@") {
		return i.Email != "" && strings.EqualFold(item, i.Email)
	}
	at := strings.LastIndexByte(i.Email, '@')
	if at <= 0 || !strings.EqualFold(i.Email[at:], item) {
		return false
	}
	// Anybody can have a Google account with an address of elsewhere; those of a company have hd.
	return p.Issuer != Google || strings.EqualFold(item, "@gmail.com") || strings.EqualFold(i.Hosted, item[1:])
}
