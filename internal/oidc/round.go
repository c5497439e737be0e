package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	// skew is how far the clock of the provider may be behind this one.
	skew = time.Minute
	// maxSession is how old a session at the provider may be. Its purpose is that providers have to
	// tell how old it is only if they are given a limit (OpenID Connect Core 1.0 §2, auth_time).
	maxSession = 30 * 24 * time.Hour
	// maxParameter limits a parameter of an answer, in bytes.
	maxParameter = 4096
)

// Round is one visit of a browser to the provider. All of it is needed to understand the answer.
type Round struct {
	State, Nonce, Verifier string
	Redirect               string
	// Again means that the person has to prove anew who they are, even if the provider knows.
	Again bool
	Began time.Time
}

// Begin begins a visit, and returns the address to send the browser to. The error is [ErrAway].
func (p *Provider) Begin(ctx context.Context, redirect string, again bool) (Round, string, error) {
	d, err := p.describe(ctx)
	if err != nil {
		return Round{}, "", err
	}
	r := Round{State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(),
		Redirect: redirect, Again: again, Began: p.Now()}
	with := []oauth2.AuthCodeOption{gooidc.Nonce(r.Nonce), oauth2.S256ChallengeOption(r.Verifier)}
	if again {
		with = append(with, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	} else {
		with = append(with, oauth2.SetAuthURLParam("max_age", strconv.Itoa(int(maxSession.Seconds()))))
	}
	return r, p.exchange(d, redirect).AuthCodeURL(r.State, with...), nil
}

func (p *Provider) exchange(d *described, redirect string) *oauth2.Config {
	at := d.Endpoint()
	at.AuthStyle = d.auth
	scopes := []string{gooidc.ScopeOpenID}
	for _, s := range p.Scopes {
		if s != gooidc.ScopeOpenID {
			scopes = append(scopes, s)
		}
	}
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: at, RedirectURL: redirect,
		Scopes: scopes}
}

// Identity is a person as the provider knows them.
type Identity struct {
	Issuer, Subject string
	Email           string // only if the provider has verified it
	Hosted          string // hd: the domain of a company at Google
	Groups          []string
	Username, Name  string
	// At is when the person proved who they are; zero: the provider does not say.
	At time.Time
}

// Label returns what people call the identity.
func (i *Identity) Label() string {
	for _, text := range []string{i.Email, i.Username, i.Name} {
		if text != "" {
			return text
		}
	}
	return i.Subject
}

// Finish returns who has signed in, from the parameters with which the browser came back. The state
// among them has found the round, and its browser. The error is [ErrAway], [ErrDeclined] or
// [ErrAnswer].
func (p *Provider) Finish(ctx context.Context, r Round, answer url.Values) (Identity, error) {
	d, err := p.describe(ctx)
	if err != nil {
		return Identity{}, err
	}
	code, err := p.codeOf(d, answer)
	if err != nil {
		return Identity{}, err
	}
	ctx = gooidc.ClientContext(ctx, p.client)
	token, err := p.exchange(d, r.Redirect).Exchange(ctx, code, oauth2.VerifierOption(r.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil &&
		refused.Response.StatusCode < 500 {
		return Identity{}, fmt.Errorf("%w: it refuses the code: %s %s", ErrAnswer, refused.Response.Status,
			short(refused.ErrorCode))
	}
	if err != nil {
		return Identity{}, errors.Join(ErrAway, shorten(err))
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return Identity{}, fmt.Errorf("%w: it has no ID token", ErrAnswer)
	}
	id, err := p.verify(ctx, d, r, raw, token.AccessToken)
	if err != nil {
		return Identity{}, err
	}
	return id, p.addUserInfo(ctx, d, &id, token)
}

// codeOf returns the code of an answer that is this provider's (RFC 9207 §2.4).
func (p *Provider) codeOf(d *described, answer url.Values) (string, error) {
	for name, values := range answer {
		if len(values) != 1 || len(values[0]) > maxParameter {
			return "", fmt.Errorf("%w: %s is given more than once, or too long", ErrAnswer, short(name))
		}
	}
	if iss := answer.Get("iss"); iss != p.Issuer && (iss != "" || d.tellsIss) {
		return "", fmt.Errorf("%w: it is from %q", ErrAnswer, short(iss))
	}
	if e := answer.Get("error"); e != "" {
		return "", fmt.Errorf("%w: %s %s", ErrDeclined, short(e), short(answer.Get("error_description")))
	}
	code := answer.Get("code")
	if code == "" {
		return "", fmt.Errorf("%w: it has no code", ErrAnswer)
	}
	return code, nil
}

// short shortens a text of the provider, or of whoever made the browser come here, for the log.
func short(text string) string {
	const most = 200
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "?")
}

// claims are the claims that are used, in the ID token or from the UserInfo endpoint.
type claims struct {
	Email    string       `json:"email"`
	Verified flexibleBool `json:"email_verified"`
	Hosted   string       `json:"hd"`
	Groups   texts        `json:"groups"`
	Username string       `json:"preferred_username"`
	Name     string       `json:"name"`
	AuthTime float64      `json:"auth_time"`
	Party    string       `json:"azp"`
}

// flexibleBool is a bool that some providers write as a text (AWS Cognito).
type flexibleBool bool

func (b *flexibleBool) UnmarshalJSON(raw []byte) error {
	*b = flexibleBool(string(raw) == "true" || string(raw) == `"true"`)
	return nil
}

// texts is a list of texts; anything else is no list. Some providers write a list of one as a text.
type texts []string

func (t *texts) UnmarshalJSON(raw []byte) error {
	var one string
	var list []string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		list = []string{one}
	} else if json.Unmarshal(raw, &list) != nil {
		list = nil
	}
	*t = list
	return nil
}

// verify checks an ID token (OpenID Connect Core 1.0 §3.1.3.7).
func (p *Provider) verify(ctx context.Context, d *described, r Round, raw, access string) (Identity, error) {
	checked := gooidc.NewVerifier(p.Issuer, d.keys,
		&gooidc.Config{ClientID: p.ClientID, SupportedSigningAlgs: d.algs, Now: p.Now})
	if _, err := d.keys.current(ctx, nil); err != nil { // which the verifier does not tell from a wrong signature
		return Identity{}, err
	}
	token, err := checked.Verify(ctx, raw)
	if err != nil {
		return Identity{}, errors.Join(ErrAnswer, shorten(err))
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return Identity{}, errors.Join(ErrAnswer, err)
	}
	switch {
	case token.Nonce != r.Nonce:
		return Identity{}, fmt.Errorf("%w: the nonce is another one", ErrAnswer)
	case token.Subject == "" || len(token.Subject) > 255: // §2
		return Identity{}, fmt.Errorf("%w: the subject has %d bytes", ErrAnswer, len(token.Subject))
	case c.Party != "" && c.Party != p.ClientID, c.Party == "" && len(token.Audience) > 1:
		return Identity{}, fmt.Errorf("%w: the ID token was made for %q", ErrAnswer, short(c.Party))
	}
	if token.AccessTokenHash != "" {
		if err := token.VerifyAccessToken(access); err != nil {
			return Identity{}, errors.Join(ErrAnswer, err)
		}
	}
	id := Identity{Issuer: p.Issuer, Subject: token.Subject}
	if c.AuthTime > 0 {
		id.At = time.Unix(int64(c.AuthTime), 0)
	}
	if r.Again && !id.At.IsZero() && id.At.Before(r.Began.Add(-skew)) {
		return Identity{}, fmt.Errorf("%w: the person signed in there at %s and was not asked again", ErrAnswer,
			id.At.UTC().Format(time.RFC3339))
	}
	id.add(&c)
	return id, nil
}

// add adds what claims say and is not known yet.
func (i *Identity) add(c *claims) {
	if i.Email == "" && bool(c.Verified) {
		i.Email = plainText(c.Email)
	}
	for _, f := range []struct {
		to   *string
		from string
	}{{&i.Hosted, c.Hosted}, {&i.Username, c.Username}, {&i.Name, c.Name}} {
		if *f.to == "" {
			*f.to = plainText(f.from)
		}
	}
	if len(i.Groups) == 0 {
		i.Groups = c.Groups
	}
}

// plainText returns a text that can be shown and logged, or nothing.
func plainText(text string) string {
	const most = 254 // of an address (RFC 5321 §4.5.3.1.3, erratum 1690)
	hidden := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }
	if len(text) > most || strings.ContainsFunc(text, hidden) {
		return ""
	}
	return strings.TrimSpace(text)
}

// addUserInfo adds what the ID token does not say: Authelia puts nothing but the subject into it.
func (p *Provider) addUserInfo(ctx context.Context, d *described, id *Identity, token *oauth2.Token) error {
	if d.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := d.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return errors.Join(ErrAway, shorten(err))
	}
	if info.Subject != id.Subject { // Core §5.3.2: it must not be used then
		return fmt.Errorf("%w: the UserInfo endpoint speaks about somebody else", ErrAnswer)
	}
	var c claims
	if err := info.Claims(&c); err != nil {
		return errors.Join(ErrAnswer, err)
	}
	id.add(&c)
	return nil
}
