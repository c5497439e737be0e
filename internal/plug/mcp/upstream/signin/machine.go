package signin

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/seal"
)

// This file signs in by itself, for services without people (RFC 6749 §4.4; the extension
// io.modelcontextprotocol/oauth-client-credentials).

const (
	// methodKey authenticates by an assertion that a private key signs (RFC 7523 §2.2).
	methodKey     = "private_key_jwt"
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// assertionLife is short, as an assertion is used at once.
	assertionLife = 60 * time.Second
	// machinePause is how long a server that has refused this installation is left alone: servers
	// lock out whoever knocks too often.
	machinePause = 5 * time.Minute
)

// Why a server refuses a machine.
const (
	failedClient = "client" // its id, its secret or its key
	failedScope  = "scope"  // the rights that it asks for
	failedOther  = "other"
	failedToken  = "token"  // the tool server does not accept the token
	failedRights = "rights" // the tool server demands more rights
	failedMoved  = "moved"  // there is another authorization server now
)

const (
	msgByItself     = i18n.Message("Nobody has to sign in: Patchbay signs in to this server by itself, with the client_id of its settings.")
	msgFailedClient = i18n.Message("The server where Patchbay signs in does not accept it (%s). See whether client_id and client_secret or private_key are right and not expired, whether this client may use client_credentials there, and, with a key, whether the clock of this machine is right.")
	msgFailedScope  = i18n.Message("The server where Patchbay signs in does not grant the rights that were asked for (%s). Set oauth_scope to rights that this client has there.")
	msgFailedOther  = i18n.Message("The server where Patchbay signs in refuses to give a token (%s). See how this client is set up there.")
	msgFailedToken  = i18n.Message("The server does not accept the token that it has been given by %s. See whether this client may use the server.")
	msgFailedRights = i18n.Message("The server demands rights that Patchbay does not get by itself: %s. Grant them to this client where Patchbay signs in, and add them to oauth_scope if that is set.")
	msgFailedMoved  = i18n.Message("The server now has Patchbay sign in at %s, while its client_id belongs to %s, so nothing was sent there. If you trust the new place, forget the tokens of this upstream.")
)

// failed is why a machine gets no token.
type failed struct {
	Kind  string   `json:"kind"`
	About []string `json:"about,omitempty"` // texts of the message
	// Until is when it is tried again.
	Until time.Time `json:"until"`
}

// Error implements error.
func (f *failed) Error() string { return f.Kind + " " + strings.Join(f.About, " ") }

// text returns what the owner is told.
func (f *failed) text() i18n.Text {
	about := append(slices.Clone(f.About), "?", "?")
	switch f.Kind {
	case failedClient:
		return msgFailedClient.With(about[0])
	case failedScope:
		return msgFailedScope.With(about[0])
	case failedToken:
		return msgFailedToken.With(about[0])
	case failedRights:
		return msgFailedRights.With(about[0])
	case failedMoved:
		return msgFailedMoved.With(about[0], about[1])
	}
	return msgFailedOther.With(about[0])
}

// login identifies the credentials of a machine; empty: a person signs in. What was got with others
// is void.
func (t *Target) login() string {
	s := &t.Settings
	if !s.IsMachine() {
		return ""
	}
	return seal.Hash(strings.Join([]string{s.OAuthGrant, s.ClientID, s.ClientSecret, s.PrivateKey, s.KeyID,
		s.Scope}, "\x00"))
}

// machineClient returns who a machine is at a server. What belongs to one issuer is never sent to
// another one, which the tool server may name at any time.
func (s *Service) machineClient(t *Target, server *Server, known map[string]Registration) (Registration, error) {
	for issuer, r := range known {
		if r.Kind == kindGiven && r.ID == t.Settings.ClientID && issuer != server.Issuer {
			return r, &failed{Kind: failedMoved, About: []string{clip(server.Issuer), clip(issuer)}}
		}
	}
	r := Registration{Kind: kindGiven, ID: t.Settings.ClientID, Secret: t.Settings.ClientSecret,
		Method: server.method(true)}
	if t.Settings.PrivateKey != "" {
		r.Method = methodKey
	}
	return r, s.addKey(t, &r, server.Issuer)
}

// addKey lets a registration sign its assertions, whose audience is the issuer
// (draft-ietf-oauth-rfc7523bis §4: the issuer alone, so that nobody else can use them).
func (s *Service) addKey(t *Target, r *Registration, issuer string) error {
	if r.Method != methodKey {
		return nil
	}
	key, err := upstream.ParsePrivateKey(t.Settings.PrivateKey)
	if err != nil {
		return err
	}
	id, keyID := r.ID, t.Settings.KeyID
	r.assert = func() (string, error) { return assertion(key, keyID, id, issuer, s.Now()) }
	return nil
}

// assertion returns a signed statement of who a client is (RFC 7523 §3).
func assertion(key crypto.Signer, keyID, client, audience string, now time.Time) (string, error) {
	algorithm := jose.EdDSA
	switch key.(type) {
	case *ecdsa.PrivateKey:
		algorithm = jose.ES256
	case *rsa.PrivateKey:
		algorithm = jose.RS256
	}
	options := (&jose.SignerOptions{}).WithType("JWT")
	if keyID != "" {
		options = options.WithHeader("kid", keyID)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{"iss": client, "sub": client, "aud": audience, "jti": seal.NewToken(16),
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix()})
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// obtain gets a token for a machine. What is wrong with the machine is a *failed; other errors are
// for the owner.
func (s *Service) obtain(ctx context.Context, t *Target, r *record, ch Challenge) (*Grant, error) {
	c, now := s.client(t), s.Now()
	d, err := discoverAny(ctx, c, t.Settings.URL, ch)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(d.Server.Token); err != nil || u.Scheme != "https" && !netx.IsLoopback(u.Hostname()) {
		return nil, explain(errors.New("token_endpoint is not https")) // a secret is sent there
	}
	client, err := s.machineClient(t, &d.Server, r.Clients)
	if err != nil {
		return nil, err
	}
	g := &Grant{Issuer: d.Server.Issuer, Token: d.Server.Token, Resource: d.Resource, Since: now, Client: client,
		Revoke: d.Server.Revoke, Asked: machineScopes(&t.Settings, &d, r.Grant, ch)}
	g.Scopes = g.Asked
	form := url.Values{"grant_type": {upstream.ClientCredentials}}
	if len(g.Asked) > 0 {
		form.Set("scope", strings.Join(g.Asked, " "))
	}
	err = g.request(ctx, c, client, form, now)
	if e, refused := errors.AsType[*RefusedError](err); refused {
		return nil, &failed{Kind: kindOf(e), About: []string{e.Error()}}
	}
	if err != nil {
		return nil, explain(err)
	}
	g.Refresh = "" // of no use, as another token is to be had at any time (RFC 6749 §4.4.3)
	return g, nil
}

// kindOf returns what is wrong with a machine that is refused.
func kindOf(e *RefusedError) string {
	switch e.Code {
	case "invalid_client", "unauthorized_client":
		return failedClient
	case "invalid_scope":
		return failedScope
	}
	return failedOther
}

// machineScopes returns the rights to ask for: those of the settings, else those that the challenge
// names, and those of the last token, else those that the tool server lists.
func machineScopes(s *upstream.Settings, d *Discovery, last *Grant, ch Challenge) []string {
	if s.Scope != "" {
		return scopesOf(s.Scope)
	}
	list := ch.Scopes
	if last != nil {
		list = union(last.Asked, list)
	}
	if len(list) == 0 {
		list = d.Scopes
	}
	return list
}

// loadMachine is [Service.load] for a machine. Of an upstream that is only looked at, what is known
// is in memory.
func (c *Source) loadMachine(ctx context.Context) (record, error) {
	if c.target.Number == 0 {
		return c.memory, nil
	}
	r, _, err := c.s.load(ctx, &c.target)
	return r, err
}

// changeMachine is [Service.change] for a machine. Running instances take it over if the state has
// changed that people are shown.
func (c *Source) changeMachine(ctx context.Context, told bool, f func(*record) error) error {
	var now record
	var err error
	if c.target.Number == 0 {
		if err = f(&c.memory); errors.Is(err, errUnchanged) {
			err = nil
		}
		now = c.memory
	} else {
		now, err = c.s.change(ctx, &c.target, told, f)
	}
	if err == nil {
		c.keep(&now)
	}
	return err
}

// accessOf returns the token of a grant; empty: there is none.
func accessOf(g *Grant) string {
	if g == nil {
		return ""
	}
	return g.Access
}

// isPaused reports whether a machine was refused a moment ago. The caller holds c.mu.
func (c *Source) isPaused() bool { return c.trouble != nil && c.s.Now().Before(c.trouble.Until) }

// machineToken returns the token of a machine. An expired one is not sent while there is no other.
// The caller holds c.mu.
func (c *Source) machineToken() (string, error) {
	g := c.grant
	dead := g == nil || !g.Expires.IsZero() && !c.s.Now().Before(g.Expires)
	if dead && c.isPaused() {
		return "", c.s.machineNeeds(&c.target, c.trouble)
	}
	return accessOf(g), nil
}

// machineRefused gets a token for a machine whose request was refused. The caller holds c.mu.
func (c *Source) machineRefused(ctx context.Context, r upstream.Refusal, ch Challenge) (string, error) {
	now, err := c.loadMachine(ctx)
	if err != nil {
		return "", err
	}
	c.keep(&now)
	if now.Grant != nil && now.Grant.Access != r.Token { // another request or instance has got it
		return now.Grant.Access, nil
	}
	more := r.Status == http.StatusForbidden && r.Token != ""
	switch {
	case r.Status == http.StatusForbidden && ch.Error != "insufficient_scope":
		return "", nil
	case now.Grant != nil && more && (r.Repeated || c.target.Settings.Scope != "" || isSubset(ch.Scopes,
		now.Grant.Asked)):
		return "", c.refuse(ctx, now.Grant, false,
			&failed{Kind: failedRights, About: []string{clip(strings.Join(ch.Scopes, " "))}})
	case now.Grant != nil && r.Repeated:
		return "", c.refuse(ctx, now.Grant, true, &failed{Kind: failedToken, About: []string{now.Grant.Issuer}})
	}
	c.asked, c.dead = &ch, !more
	err = c.refresh(ctx, accessOf(now.Grant))
	c.asked, c.dead = nil, false
	if err != nil || accessOf(c.grant) == r.Token {
		return "", err
	}
	return accessOf(c.grant), nil
}

// isSubset reports whether all scopes of a are among those of b.
func isSubset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

// refuse records that the tool server does not accept a token, which is given up if it is dead.
func (c *Source) refuse(ctx context.Context, g *Grant, dead bool, f *failed) error {
	f.Until = c.s.Now().Add(machinePause)
	err := c.changeMachine(ctx, true, func(now *record) error {
		if accessOf(now.Grant) != g.Access || now.Failed != nil && !dead && now.Failed.Error() == f.Error() {
			return errUnchanged
		}
		if now.Failed, now.Need = f, NeedSettings; dead {
			now.Grant = nil
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.s.machineNeeds(&c.target, f)
}

// obtainNow gets a token in place of that of a record, which was read when it was our turn. The
// caller holds c.mu.
func (c *Source) obtainNow(ctx context.Context, r *record) error {
	if c.keep(r); c.isPaused() {
		return c.s.machineNeeds(&c.target, r.Failed)
	}
	ch := r.Challenge
	if c.asked != nil {
		ch = *c.asked
	}
	g, err := c.s.obtain(ctx, &c.target, r, ch)
	trouble, isFailed := errors.AsType[*failed](err)
	if isFailed {
		trouble.Until = c.s.Now().Add(machinePause)
	} else if err != nil {
		return machineError(err)
	}
	told := isFailed != (r.Failed != nil)
	err = c.changeMachine(ctx, told, func(now *record) error {
		if accessOf(now.Grant) != accessOf(r.Grant) { // forgotten meanwhile
			return errUnchanged
		}
		if isFailed {
			if now.Failed, now.Need = trouble, NeedSettings; c.dead {
				now.Grant = nil
			}
			return nil
		}
		now.Grant, now.Challenge, now.Failed, now.Need = g, ch, nil, NeedNothing
		now.Clients = map[string]Registration{g.Issuer: {Kind: kindGiven, ID: g.Client.ID, Method: g.Client.Method}}
		return nil
	})
	if err == nil && isFailed {
		return c.s.machineNeeds(&c.target, trouble)
	}
	return err
}

// machineError returns an error of [Service.obtain] as that of a connection, which is tried again
// soon if the server has trouble of its own.
func machineError(err error) error {
	if e, ok := errors.AsType[*upstream.ConnectionError](ownersError(err)); ok {
		e.Auth, e.SignInFails = e.Lasting, true
		return e
	}
	return err
}

// machineNeeds returns the error of what the owner has to do.
func (s *Service) machineNeeds(t *Target, f *failed) *upstream.SignInError {
	return &upstream.SignInError{Message: f.text(), BySettings: true,
		Told: "cannot be signed in to, or demands more rights; its owner can see why: " + s.Link(t.Number)}
}

// forgetMachine forgets the token of a machine and why it got none, so that it tries again at once.
func (r *record) forgetMachine() {
	if r.Failed != nil && r.Failed.Kind == failedMoved { // the owner trusts the new place
		r.Clients = nil
	}
	r.Grant, r.Failed, r.Need = nil, nil, NeedNothing
}
