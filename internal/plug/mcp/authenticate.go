package mcp

import (
	"errors"
	"net/http"
	"strings"

	"patchbay/internal/account"
)

// choose narrows a caller to the tools that the address names. It answers a request with an invalid
// address itself.
func (s *Server) choose(w http.ResponseWriter, r *http.Request, c *caller) bool {
	if err := c.chooseTools(s.Hub, r); err != nil {
		s.refuse(w, http.StatusBadRequest, "message",
			"the address has tools=… or set=…, which cannot be used: "+err.Error())
		return false
	}
	if set := c.choice.set; set != "" && !s.Hub.HasToolSet(c.access.Person, set) {
		s.refuse(w, http.StatusBadRequest, "message", "the address has set="+set+", and there is no such set of tools")
		return false
	}
	return true
}

// authenticate identifies the caller and checks host and origin. It answers a rejected request
// itself.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request, channel string) (caller, bool) {
	if !s.hosts.isAllowed(r) {
		s.Logger.WarnContext(r.Context(), "a request was refused: it came under a strange name or from a strange page",
			"host", r.Host, "origin", r.Header.Get("Origin"))
		s.refuse(w, http.StatusForbidden, "origin",
			"this host name or origin is not allowed (settings mcp.hosts and mcp.origins)")
		return caller{}, false
	}
	allowPage(w, r)
	secret := bearer(r)
	if secret == "" && s.Anonymous != nil {
		c := newCaller(s.Anonymous(), channel)
		c.access.Address, c.trace = s.Address(r).String(), s.Tracer.LinkOf(r.Header)
		return c, s.choose(w, r, &c)
	}
	p, err := s.Accounts.Authenticate(r.Context(), secret, account.ScopeMCP)
	switch {
	case err == nil:
		c := newCaller(p, channel)
		c.access.Address, c.access.Origin = s.Address(r).String(), s.Origin(r)
		c.trace = s.Tracer.LinkOf(r.Header)
		return c, s.choose(w, r, &c)
	case account.Refused(err):
		tooMany := account.Guessed(err) && s.Guard.Refuse(s.Address(r))
		s.Logger.WarnContext(r.Context(), "a key was refused", "channel", channel, "cause", err,
			"address", s.Address(r))
		if tooMany {
			w.Header().Set("Retry-After", "60")
			s.refuse(w, http.StatusTooManyRequests, "guessing",
				"too many refused keys from this address; wait a minute")
			return caller{}, false
		}
		w.Header().Set("WWW-Authenticate", s.challenge(r, account.ScopeMCP)+keyFault(err))
		s.refuse(w, http.StatusUnauthorized, "key", "a key with scope mcp is needed, as Authorization: Bearer …")
	case r.Context().Err() == nil:
		s.Logger.ErrorContext(r.Context(), "a key could not be checked", "error", err)
		s.refuse(w, http.StatusServiceUnavailable, "database", "the key could not be checked; try again later")
	}
	return caller{}, false
}

// challenge returns the WWW-Authenticate header of a refusal without its error: the scope that is
// needed, and where a program finds out how to get it (RFC 9728 §5.1).
func (s *Server) challenge(r *http.Request, scope string) string {
	text := `Bearer realm="patchbay", scope="` + scope + `"`
	path := strings.TrimSuffix(r.URL.Path, "/messages")
	if path != r.URL.Path {
		path += "/sse"
	}
	if url := s.Metadata(r, path); url != "" {
		text += `, resource_metadata="` + url + `"`
	}
	return text
}

// keyFault returns the error of a challenge for a refused key (RFC 6750 §3.1); empty if none was
// shown.
func keyFault(err error) string {
	if errors.Is(err, account.ErrNoKey) {
		return ""
	}
	return `, error="invalid_token"`
}

func bearer(r *http.Request) string {
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(kind, "Bearer") {
		return strings.TrimSpace(secret)
	}
	return ""
}
