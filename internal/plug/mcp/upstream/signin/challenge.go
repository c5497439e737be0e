package signin

import "strings"

// Challenge is what a server demands in WWW-Authenticate (RFC 6750 §3, RFC 9728 §5.1).
type Challenge struct {
	// Metadata is the address of the document about the server; empty: not given.
	Metadata string `json:"metadata,omitempty"`
	// Scopes are what the request needs; nil: not given.
	Scopes []string `json:"scopes,omitempty"`
	// Error is a code such as "invalid_token" or "insufficient_scope".
	Error string `json:"error,omitempty"`
}

const (
	// maxParameter limits a parameter of a challenge that is kept.
	maxParameter = 2 << 10
	// maxScopes limits the scopes that are asked for.
	maxScopes = 100
)

// ParseChallenge reads the bearer challenge of WWW-Authenticate headers. What it cannot read it
// leaves out.
func ParseChallenge(headers []string) (c Challenge) {
	for _, h := range headers {
		bearer := false
		for h = trim(h); h != ""; {
			var name, value string
			if name, h = token(h); name == "" {
				h = trim(h[1:]) // not a challenge; on to what may be one
				continue
			}
			rest := strings.TrimLeft(h, " \t")
			if !strings.HasPrefix(rest, "=") || strings.HasPrefix(rest, "==") { // a scheme, or a token68
				bearer, h = strings.EqualFold(name, "Bearer"), trim(strings.TrimLeft(rest, "="))
				continue
			}
			value, h = parameter(strings.TrimLeft(rest[1:], " \t"))
			if h = trim(h); bearer && len(value) <= maxParameter {
				c.set(strings.ToLower(name), value)
			}
		}
	}
	return c
}

func (c *Challenge) set(name, value string) {
	switch name {
	case "resource_metadata":
		c.Metadata = value
	case "error":
		c.Error = value
	case "scope":
		c.Scopes = scopesOf(value)
	}
}

// trim removes what separates challenges and parameters.
func trim(text string) string { return strings.TrimLeft(text, " \t,") }

// token cuts a token off (RFC 9110 §5.6.2); "/" is in the texts of other schemes.
func token(text string) (name, rest string) {
	n := strings.IndexFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),:;<=>?@[\]{}`, r)
	})
	if n < 0 {
		n = len(text)
	}
	return text[:n], text[n:]
}

// parameter cuts a value off: a token, or a quoted string.
func parameter(text string) (value, rest string) {
	if !strings.HasPrefix(text, `"`) {
		n := strings.IndexAny(text, ", \t")
		if n < 0 {
			n = len(text)
		}
		return text[:n], text[n:]
	}
	var out strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return out.String(), text[i+1:]
		case '\\':
			if i++; i == len(text) {
				return out.String(), ""
			}
		}
		out.WriteByte(text[i])
	}
	return out.String(), ""
}

// scopesOf splits a list of scopes, and leaves out what cannot be one (RFC 6749 §3.3).
func scopesOf(text string) []string { return usableScopes(strings.Fields(text)) }

func usableScopes(list []string) (out []string) {
	seen := map[string]bool{}
	for _, s := range list {
		bad := strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
		if s != "" && !bad && !seen[s] && len(out) < maxScopes {
			out, seen[s] = append(out, s), true
		}
	}
	return out
}

// union returns the scopes of a, and those of b that are not among them.
func union(a, b []string) []string { return usableScopes(append(append([]string(nil), a...), b...)) }
