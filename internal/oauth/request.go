package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// Messages for the person whose browser a program has sent here. Without a client and a redirect
// that belongs to it, there is nobody else to tell (RFC 6749 §4.1.2.1).
const (
	msgUnknownClient = i18n.Message("The program that sent you here is not known to this server. Connect again from the program; if that does not help, remove the server there and add it anew.")
	msgWrongRedirect = i18n.Message("The program wants the answer at an address that is not one of its own, so the request was stopped.")
	msgRequestGone   = i18n.Message("This request is too old, or was answered already. Connect again from the program.")
	msgManyRequests  = i18n.Message("Programs have asked too often from this address. Wait a minute, and connect again.")
	msgOtherBrowser  = i18n.Message("This request was begun in another browser. Connect again from the program, in this one.")
)

// limits of parameters, in bytes.
const maxState, maxParameter = 4096, 2048

// Begin checks a program's request for consent (RFC 6749 §4.1.1). It returns the id of the stored
// request, or the address to send the browser to with an error. browser identifies the browser, by
// a secret that it keeps. The error is a [*problem.Error] if the browser must not be sent anywhere.
func (s *Service) Begin(r *http.Request, browser string) (id, redirect string, err error) {
	if !s.begun.Take(s.Address(r)) {
		return "", "", problem.New(problem.RateLimited, msgManyRequests)
	}
	q := r.URL.Query()
	c, err := s.client(r.Context(), q.Get("client_id"))
	if errors.Is(err, errUnknownClient) {
		return "", "", problem.New(problem.NotFound, msgUnknownClient)
	}
	if errors.Is(err, errManyClients) {
		return "", "", problem.New(problem.RateLimited, msgManyRequests)
	}
	if err != nil {
		return "", "", err
	}
	to := q.Get("redirect_uri")
	if to == "" && len(c.Redirects) == 1 {
		to = c.Redirects[0]
	}
	if !allowsRedirect(&c, to) || len(q["redirect_uri"]) > 1 || len(q["client_id"]) > 1 {
		return "", "", problem.New(problem.Denied, msgWrongRedirect)
	}
	state := q.Get("state")
	if code, told := s.invalidRequest(r, q); code != "" {
		if len(state) > maxState {
			state = ""
		}
		return "", s.answer(r, to, url.Values{"error": {code}, "error_description": {told}}, state), nil
	}
	plain := newSecret("")
	err = s.Store.OAuth.AddRequest(r.Context(), store.OAuthRequest{
		ID: seal.Hash(plain), Client: c.ID, Browser: seal.Hash(browser), Redirect: to, Challenge: q.Get("code_challenge"),
		State: state, Resource: q.Get("resource"), Scopes: s.grantedScopes(r, q.Get("resource"), q.Get("scope")),
		Expires: s.Now().Add(RequestLife),
	})
	if errors.Is(err, store.ErrNotFound) {
		return "", "", problem.New(problem.NotFound, msgUnknownClient)
	}
	return plain, "", err
}

// invalidRequest returns the error code and the description for an invalid request; "" if it is
// valid.
func (s *Service) invalidRequest(r *http.Request, q url.Values) (code, told string) {
	for name, values := range q {
		if len(values) > 1 && name != "resource" {
			return "invalid_request", name + " is there more than once"
		}
	}
	challenge := q.Get("code_challenge")
	switch {
	case q.Get("response_type") == "":
		return "invalid_request", "response_type is missing"
	case q.Get("response_type") != "code":
		return "unsupported_response_type", "only the response_type code is supported"
	case len(q["resource"]) > 1 || s.resourceScope(r, q.Get("resource")) == "" || len(q.Get("resource")) > maxParameter:
		return "invalid_target", "resource is no endpoint of this server, or under a host name that it does not know (setting mcp.hosts)"
	case challenge == "":
		return "invalid_request", "code_challenge is missing"
	case q.Get("code_challenge_method") != "S256":
		return "invalid_request", "only the code_challenge_method S256 is supported"
	case len(challenge) != 43 || !isURLSafe(challenge):
		return "invalid_request", "code_challenge is no SHA-256 in base64url"
	case len(q.Get("state")) > maxState:
		return "invalid_request", "state is too long"
	case slices.Contains(strings.Fields(q.Get("prompt")), "none"):
		return "consent_required", "a person has to consent"
	}
	return "", ""
}

// isURLSafe reports whether a text is of the alphabet of base64url, or of a verifier (RFC 7636
// §4.1).
func isURLSafe(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~", r)
	})
}

// grantedScopes returns the scopes that a program gets: the one of the resource, and those of
// dangerous tools and offline_access if it asks for them. Others are dropped.
func (s *Service) grantedScopes(r *http.Request, resource, asked string) []string {
	scopes := []string{s.resourceScope(r, resource)}
	want := strings.Fields(asked)
	if scopes[0] == account.ScopeMCP && slices.Contains(want, account.ScopeDangerous) {
		scopes = append(scopes, account.ScopeDangerous)
	}
	if slices.Contains(want, ScopeOffline) {
		scopes = append(scopes, ScopeOffline)
	}
	return scopes
}

// keyScopes returns the scopes of the key that a grant of scopes makes.
func keyScopes(scopes []string) []string {
	return slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return scope == ScopeOffline })
}

// answer returns the address of a redirect with parameters, the program's state, and our identifier
// (RFC 9207).
func (s *Service) answer(r *http.Request, redirect string, with url.Values, state string) string {
	u, err := url.Parse(redirect)
	if err != nil {
		return redirect // it was checked
	}
	q := u.Query()
	for name, values := range with {
		q[name] = values
	}
	if state != "" {
		q.Set("state", state)
	}
	q.Set("iss", s.Issuer(r))
	u.RawQuery = q.Encode()
	return u.String()
}

// Request is what a person is asked.
type Request struct {
	store.OAuthRequest
	Program store.OAuthClient
	// Host is the host that the program has proved to belong to; empty if it has proved nothing.
	Host string
	// RedirectHost is where the answer is sent, and IsLocal reports whether that is a program on
	// the person's own machine.
	RedirectHost string
	IsLocal      bool
}

// Request returns an open request. The error is a [*problem.Error] if there is none, or if another
// browser began it.
func (s *Service) Request(ctx context.Context, id, browser string) (Request, error) {
	in, err := s.Store.OAuth.Request(ctx, seal.Hash(id))
	if errors.Is(err, store.ErrNotFound) || err == nil && (in.Person != "" || !s.Now().Before(in.Expires)) {
		return Request{}, problem.New(problem.NotFound, msgRequestGone)
	}
	if err != nil {
		return Request{}, err
	}
	if browser == "" || seal.Hash(browser) != in.Browser {
		return Request{}, problem.New(problem.NotFound, msgOtherBrowser)
	}
	c, err := s.client(ctx, in.Client)
	if errors.Is(err, errUnknownClient) {
		return Request{}, problem.New(problem.NotFound, msgUnknownClient)
	}
	if err != nil {
		return Request{}, err
	}
	if !allowsRedirect(&c, in.Redirect) { // its document has changed
		return Request{}, problem.New(problem.Denied, msgWrongRedirect)
	}
	q := Request{OAuthRequest: in, Program: c, Host: VerifiedHost(&c)}
	q.RedirectHost, q.IsLocal = RedirectHost(in.Redirect)
	return q, nil
}

// Allow stores a person's consent to the scopes of a request, with the rules of the key that it
// makes and its lifetime in days, and returns the address to send the browser to. 0 days means no
// limit.
func (s *Service) Allow(r *http.Request, q *Request, person, rules string, days int) (redirect string, err error) {
	code := newSecret("")
	err = s.Store.OAuth.Consent(r.Context(), q.ID, store.OAuthConsent{Person: person, Code: seal.Hash(code),
		Scopes: q.Scopes, Rules: rules, Days: days, Expires: s.Now().Add(codeLife)})
	if errors.Is(err, store.ErrNotFound) {
		return "", problem.New(problem.NotFound, msgRequestGone)
	}
	if err != nil {
		return "", err
	}
	return s.answer(r, q.Redirect, url.Values{"code": {code}}, q.State), nil
}

// Deny drops a request, and returns the address to send the browser to.
func (s *Service) Deny(r *http.Request, q *Request) (redirect string, err error) {
	err = s.Store.OAuth.DropRequest(r.Context(), q.ID)
	if errors.Is(err, store.ErrNotFound) {
		return "", problem.New(problem.NotFound, msgRequestGone)
	}
	if err != nil {
		return "", err
	}
	return s.answer(r, q.Redirect, url.Values{"error": {"access_denied"},
		"error_description": {"the person has declined"}}, q.State), nil
}

// NewBrowser returns a secret for [Service.Begin], for a browser that has none.
func NewBrowser() string { return newSecret("") }
