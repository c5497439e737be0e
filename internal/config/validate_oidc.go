package config

import "strings"

// checkOIDC checks the settings of the OpenID provider.
func (c *Config) checkOIDC(p *Problems) {
	o := c.OIDC
	if o.Issuer == "" {
		for _, given := range []struct {
			key string
			is  bool
		}{{"oidc.client_id", o.ID != ""}, {"oidc.client_secret", o.Secret != ""}, {"oidc.create", o.Create},
			{"oidc.only", o.Only}} {
			if given.is {
				p.add(given.key, "", "is given without oidc.issuer", "give the address of the provider, or take it out")
			}
		}
		return
	}
	if !isWebURL(o.Issuer) {
		p.add("oidc.issuer", "", "is "+show(o.Issuer),
			"give the address of the provider, such as https://auth.example.org")
	}
	if o.ID == "" {
		p.add("oidc.client_id", "", "is not given although oidc.issuer is", "give the id of this server at the provider")
	}
	if o.Secret == Masked {
		p.add("oidc.client_secret", "", "is the mask that stands for a secret that is not shown", "give the secret itself")
	}
	checkItems(p, "oidc.scopes", o.Scopes, isScope, "scopes such as openid, profile, email, groups")
	checkItems(p, "oidc.allow", o.Allow, isAllowed, "anna@example.org, @example.org, group:family or *")
	if o.Create && len(o.Allow) == 0 {
		p.add("oidc.allow", "", "is not given although oidc.create is",
			"give who gets an account, such as @example.org; * means everybody that the provider knows")
	}
}

// isScope reports whether a text is a scope (RFC 6749 §3.3).
func isScope(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

// isAllowed reports whether a text is an item of oidc.allow.
func isAllowed(text string) bool {
	if group, ok := strings.CutPrefix(text, "group:"); ok {
		return group != ""
	}
	_, domain, ok := strings.Cut(text, "@")
	return text == "*" || ok && domain != "" && !strings.ContainsAny(text, " :*") && strings.Count(text, "@") == 1
}
