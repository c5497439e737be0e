package signin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/i18n"
)

const (
	msgIssuer   = i18n.Message("The answer came from %s, but you were sent to %s. Somebody may have mixed them up on purpose, so nothing was taken over. Begin again, and see that you sign in at the right place.")
	msgDeclined = i18n.Message("Whoever was asked to agree has declined. Nothing has changed; you can sign in again.")
	msgDenied   = i18n.Message("The sign-in was refused or ended there: %s")
	msgNoCode   = i18n.Message("The address has no answer to a sign-in. Paste the whole address to which the sign-in led at the end.")
)

const (
	scopeOffline = "offline_access"
	// revokeTimeout limits withdrawing tokens.
	revokeTimeout = 5 * time.Second
	// maxToken limits a token, which is part of every request.
	maxToken = 16 << 10
	// maxLife limits how long a token is believed to be valid.
	maxLife = 10 * 365 * 24 * time.Hour
)

// Grant is what an authorization server has given.
type Grant struct {
	Issuer   string   `json:"issuer"`
	Token    string   `json:"token_endpoint"`
	Resource string   `json:"resource"`
	Scopes   []string `json:"scopes,omitempty"` // granted, as far as known
	Access   string   `json:"access"`
	Refresh  string   `json:"refresh,omitempty"`
	// Expires is the end of the access token, RefreshAt when to get another one; zero: not told.
	Expires   time.Time `json:"expires,omitzero"`
	RefreshAt time.Time `json:"refresh_at,omitzero"`
	Since     time.Time `json:"since"`
	// Client is who this installation was when it got it, and Revoke where it is withdrawn; empty:
	// nowhere.
	Client Registration `json:"client,omitzero"`
	Revoke string       `json:"revocation_endpoint,omitempty"`
	// Asked are the scopes that a machine has asked for.
	Asked []string `json:"asked,omitempty"`
}

// Pending is a sign-in that has begun.
type Pending struct {
	Person   string       `json:"person"` // who began it; empty: the operator of this machine
	State    string       `json:"state"`  // the hash of the text that the answer has to carry
	Verifier string       `json:"verifier"`
	Redirect string       `json:"redirect"`
	Resource string       `json:"resource"`
	Scopes   []string     `json:"scopes,omitempty"`
	Server   Server       `json:"server"`
	Until    time.Time    `json:"until"`
	Client   Registration `json:"client,omitzero"`
	// Unanswered is how many sign-ins before it came to nothing.
	Unanswered int `json:"unanswered,omitempty"`
	// Taken means that its answer has come, and its code is being exchanged.
	Taken bool `json:"taken,omitempty"`
}

// wantedScopes returns the scopes to ask for: what the challenge says, else what the tool server
// knows, else none; and offline access if the authorization server lists it. What was granted
// before stays (2026-07-28 basic/authorization, "Scope Selection Strategy").
func wantedScopes(d *Discovery, ch Challenge, granted []string) []string {
	list := ch.Scopes
	if len(list) == 0 {
		list = d.Scopes
	}
	list = union(granted, list)
	if slices.Contains(d.Server.Scopes, scopeOffline) {
		list = union(list, []string{scopeOffline})
	}
	return list
}

// address returns where a person consents (RFC 6749 §4.1.1, RFC 7636 §4.3, RFC 8707 §2.1).
func (p *Pending) address(client, state string) (string, error) {
	u, err := url.Parse(p.Server.Authorize)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(p.Verifier))
	q := u.Query()
	q.Set("response_type", "code")
	q.Set("client_id", client)
	q.Set("redirect_uri", p.Redirect)
	q.Set("state", state)
	q.Set("code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]))
	q.Set("code_challenge_method", "S256")
	q.Set("resource", p.Resource)
	if len(p.Scopes) > 0 {
		q.Set("scope", strings.Join(p.Scopes, " "))
	}
	if slices.Contains(p.Scopes, scopeOffline) {
		q.Set("prompt", "consent") // OpenID Connect Core §11
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// answer returns the code of the answer to a sign-in. The issuer is compared before anything else,
// also of errors, without normalizing (RFC 9207 §2.4).
func (p *Pending) answer(q url.Values) (code string, err error) {
	iss, given := q.Get("iss"), q.Has("iss")
	if given && iss != p.Server.Issuer || !given && p.Server.SendsIssuer {
		if iss == "" {
			iss = "?"
		}
		return "", msgIssuer.Errorf(clip(iss), p.Server.Issuer)
	}
	if e := q.Get("error"); e == "access_denied" {
		return "", msgDeclined.Errorf()
	} else if e != "" {
		return "", msgDenied.Errorf(clip(e + " " + q.Get("error_description")))
	}
	if code = q.Get("code"); code == "" || len(q["code"]) > 1 || len(code) > maxToken {
		return "", msgNoCode.Errorf()
	}
	return code, nil
}

// exchange exchanges a code for tokens (RFC 6749 §4.1.3).
func (p *Pending) exchange(ctx context.Context, c *http.Client, code string, now time.Time) (*Grant, error) {
	g := &Grant{Issuer: p.Server.Issuer, Token: p.Server.Token, Resource: p.Resource, Scopes: p.Scopes, Since: now,
		Client: p.Client, Revoke: p.Server.Revoke}
	err := g.request(ctx, c, p.Client, url.Values{"grant_type": {"authorization_code"}, "code": {code},
		"redirect_uri": {p.Redirect}, "code_verifier": {p.Verifier}}, now)
	return g, err
}

// refresh replaces the access token (RFC 6749 §6).
func (g *Grant) refresh(ctx context.Context, c *http.Client, r Registration, now time.Time) (*Grant, error) {
	next := *g
	err := next.request(ctx, c, r, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}, now)
	return &next, err
}

// RefusedError is an error answer of a token or registration endpoint (RFC 6749 §5.2).
type RefusedError struct {
	Code, Description string
	status            int
}

func (e *RefusedError) Error() string {
	return clip(strings.TrimSpace(e.Code + " " + e.Description))
}

// isUnknownClient reports whether a server does not know this installation any more.
func isUnknownClient(err error) bool {
	e, ok := errors.AsType[*RefusedError](err)
	return ok && e.Code == "invalid_client"
}

// refusal reads an error answer.
func refusal(status int, text []byte) error {
	var e struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(text, &e) != nil || e.Code == "" || status/100 != 4 || status == http.StatusTooManyRequests {
		return &statusError{status}
	}
	return &RefusedError{clip(e.Code), clip(e.Description), status}
}

// request asks the token endpoint for tokens, and takes them over.
func (g *Grant) request(ctx context.Context, c *http.Client, r Registration, form url.Values, now time.Time) error {
	form.Set("resource", g.Resource)
	status, text, err := r.post(ctx, c, g.Token, form)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return refusal(status, text)
	}
	return g.take(text, now)
}

// revoke withdraws the tokens (RFC 7009). The refresh token comes first, as the other one may go
// with it.
func (g *Grant) revoke(ctx context.Context, c *http.Client) error {
	for _, t := range []struct{ kind, token string }{{"refresh_token", g.Refresh}, {"access_token", g.Access}} {
		if t.token == "" {
			continue
		}
		status, text, err := g.Client.post(ctx, c, g.Revoke, url.Values{"token": {t.token}, "token_type_hint": {t.kind}})
		if err != nil {
			return err
		}
		if status/100 != 2 {
			return refusal(status, text)
		}
	}
	return nil
}

// post sends a form to an authorization server that knows this installation.
func (r *Registration) post(ctx context.Context, c *http.Client, address string,
	form url.Values) (status int, text []byte, err error) {
	basic := r.Method == methodBasic && r.Secret != ""
	if !basic {
		form.Set("client_id", r.ID)
	}
	if r.Method == methodPost && r.Secret != "" {
		form.Set("client_secret", r.Secret)
	}
	if r.assert != nil {
		signed, err := r.assert()
		if err != nil {
			return 0, nil, err
		}
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", signed)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, errors.New("its endpoint is not a web address")
	}
	if basic { // encoded as RFC 6749 §2.3.1 says
		req.SetBasicAuth(url.QueryEscape(r.ID), url.QueryEscape(r.Secret))
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	status, text, err = do(c, req)
	return status, r.hide(status, text), err
}

// hide removes the secret from an error answer, since people read it.
func (r *Registration) hide(status int, text []byte) []byte {
	if r.Secret == "" || status/100 == 2 {
		return text
	}
	quoted, _ := json.Marshal(r.Secret)
	for _, s := range []string{r.Secret, string(quoted[1 : len(quoted)-1]), url.QueryEscape(r.Secret)} {
		text = bytes.ReplaceAll(text, []byte(s), []byte("[secret]"))
	}
	return text
}

// take reads an answer with tokens (RFC 6749 §5.1).
func (g *Grant) take(text []byte, now time.Time) error {
	var got struct {
		Access  string          `json:"access_token"`
		Type    string          `json:"token_type"`
		Life    json.RawMessage `json:"expires_in"`
		Refresh string          `json:"refresh_token"`
		Scope   *string         `json:"scope"`
		Code    string          `json:"error"` // some send errors with status 200
	}
	switch err := json.Unmarshal(text, &got); {
	case err != nil:
		return errors.New("the answer with the tokens is not JSON")
	case got.Code != "":
		return &RefusedError{Code: clip(got.Code), status: http.StatusBadRequest}
	case !strings.EqualFold(got.Type, "Bearer"):
		return fmt.Errorf("its tokens are of type %s, not Bearer", clip(got.Type))
	case !isToken(got.Access) || got.Refresh != "" && len(got.Refresh) > maxToken:
		return errors.New("its access token cannot be used")
	}
	g.Access, g.Expires, g.RefreshAt = got.Access, time.Time{}, time.Time{}
	if got.Refresh != "" {
		g.Refresh = got.Refresh
	}
	if got.Scope != nil {
		g.Scopes = scopesOf(*got.Scope)
	}
	// Some servers send the number as a text.
	if seconds, err := strconv.ParseFloat(strings.Trim(string(got.Life), `"`), 64); err == nil && seconds > 0 {
		life := time.Duration(min(seconds, maxLife.Seconds()) * float64(time.Second))
		g.Expires, g.RefreshAt = now.Add(life), now.Add(life*8/10)
	}
	return nil
}

// isToken reports whether a text can be sent as a bearer token (RFC 6750 §2.1, generously).
func isToken(text string) bool {
	return text != "" && len(text) <= maxToken &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}
