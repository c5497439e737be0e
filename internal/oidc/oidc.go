// Package oidc lets people sign in at an OpenID provider: their home's Authelia, the company's
// Keycloak, Google. It is the relying party of OpenID Connect Core 1.0, with the code flow, PKCE
// (RFC 7636) and the issuer in the answer (RFC 9207).
//
//	oidc   the provider: its settings, and the document that describes it
//	keys   the keys with which it signs
//	round  one visit of a browser to it: what is asked, and what it answers
//	allow  who of the people that it knows may sign in
//	check  what `patchbay doctor` says about it
//
// Who a person of the provider is here is decided by packages account and console.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// CallbackPath is where the provider sends browsers back to.
const CallbackPath = "/signin/oidc"

const (
	// requestTimeout limits one request to the provider, and maxDocument its answer, in bytes.
	requestTimeout = 10 * time.Second
	maxDocument    = 1 << 20
	// documentFresh is for how long the document that describes the provider is used, or longer if
	// it cannot be read again.
	documentFresh = time.Hour
	// retryAfter is for how long a failure to read it is the answer to everybody, so that visitors
	// do not wait one after the other for a provider that hangs.
	retryAfter = 3 * time.Second
)

// Reasons why nobody was identified. They wrap the cause, which is for the log.
var (
	// ErrAway means that the provider does not answer, or not as an OpenID provider does.
	ErrAway = errors.New("the OpenID provider does not answer properly")
	// ErrDeclined means that the provider answered that it did not sign the person in.
	ErrDeclined = errors.New("the OpenID provider declined")
	// ErrAnswer means that the answer is for somebody else, forged or outdated.
	ErrAnswer = errors.New("the answer of the OpenID provider is not acceptable")
)

// Options configures a [Provider].
type Options struct {
	Issuer, ClientID, ClientSecret string
	Name                           string   // what the button says; empty: the host of the issuer
	Scopes                         []string // besides openid
	Allow                          []string // who may sign in; see [Provider.Allows]
	Create                         bool     // open accounts for those who have none
	Only                           bool     // no passwords
	Transport                      http.RoundTripper
	Now                            func() time.Time // nil means time.Now
}

// Provider is an OpenID provider. It is safe for concurrent use, and usable while the provider is
// away: everything is read at the first use.
type Provider struct {
	Options
	client *http.Client

	mu      sync.Mutex
	known   *described
	failure error
	tried   time.Time
}

// described is what the provider says about itself.
type described struct {
	*gooidc.Provider
	keys     *keySet
	algs     []string
	auth     oauth2.AuthStyle
	tellsIss bool // authorization_response_iss_parameter_supported
}

// New returns the provider, or nil without an issuer.
func New(o Options) *Provider {
	if o.Issuer == "" {
		return nil
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	if u, err := url.Parse(o.Issuer); err == nil && o.Name == "" {
		o.Name = u.Host
	}
	return &Provider{Options: o, client: &http.Client{
		Timeout:   requestTimeout,
		Transport: bounded{o.Transport},
		// A provider has no reason to redirect requests of programs, which carry secrets.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// bounded limits the size of answers.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{resp.Body, maxDocument}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxDocument)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// describe returns what the provider says about itself, from memory if that is fresh.
func (p *Provider) describe(ctx context.Context) (*described, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := p.Now().Sub(p.tried)
	switch {
	case p.known != nil && (age < documentFresh && p.failure == nil || age < retryAfter):
		return p.known, nil
	case p.failure != nil && age < retryAfter:
		return nil, p.failure
	}
	// Others wait for this request, and need its result even if this visitor leaves.
	d, err := p.read(context.WithoutCancel(ctx))
	p.tried, p.failure = p.Now(), err
	if err != nil {
		if p.known != nil {
			return p.known, nil
		}
		return nil, err
	}
	if p.known != nil && p.known.keys.url == d.keys.url {
		d.keys = p.known.keys
	}
	p.known = d
	return d, nil
}

// read reads the document that describes the provider (OpenID Connect Discovery 1.0 §4).
func (p *Provider) read(ctx context.Context) (*described, error) {
	found, err := gooidc.NewProvider(gooidc.ClientContext(ctx, p.client), p.Issuer)
	if err != nil {
		return nil, errors.Join(ErrAway, shorten(err))
	}
	var more struct {
		Keys     string   `json:"jwks_uri"`
		Methods  []string `json:"token_endpoint_auth_methods_supported"`
		Algs     []string `json:"id_token_signing_alg_values_supported"`
		TellsIss bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, errors.Join(ErrAway, err)
	}
	for _, address := range []string{found.Endpoint().AuthURL, found.Endpoint().TokenURL, more.Keys} {
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" ||
			u.Scheme == "http" && strings.HasPrefix(p.Issuer, "https:") {
			return nil, fmt.Errorf("%w: the document of the issuer gives %q as an address", ErrAway, address)
		}
	}
	d := &described{Provider: found, keys: &keySet{url: more.Keys, client: p.client, now: p.Now},
		auth: oauth2.AuthStyleInHeader, tellsIss: more.TellsIss}
	// The default is client_secret_basic (OpenID Connect Discovery 1.0 §3).
	if p.ClientSecret == "" || len(more.Methods) > 0 && !slices.Contains(more.Methods, "client_secret_basic") {
		d.auth = oauth2.AuthStyleInParams
	}
	for _, alg := range more.Algs {
		if slices.Contains(algorithmNames, alg) { // neither none nor HS256, whose key is the client's secret
			d.algs = append(d.algs, alg)
		}
	}
	if len(d.algs) == 0 {
		d.algs = []string{gooidc.RS256}
	}
	return d, nil
}

// shorten removes the body of a page from an error: go-oidc quotes what is no JSON completely.
func shorten(err error) error {
	const most = 300
	if text := err.Error(); len(text) > most {
		return errors.New(strings.ToValidUTF8(text[:most], "") + "…")
	}
	return err
}
