// Package oidctest is an OpenID provider for tests, which can be made to lie.
package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// The client that it knows.
const (
	ClientID = "patchbay"
	Secret   = "a secret: 100% & more" // has to be encoded (RFC 6749 §2.3.1)
)

// Provider signs in whoever comes, without asking. Change its fields with [Provider.Set].
type Provider struct {
	URL string // the issuer

	mu sync.Mutex
	State
	key   *ecdsa.PrivateKey
	codes map[string]url.Values
	seen  map[string]int
	last  url.Values
}

// State is what a provider does.
type State struct {
	// Claims are those of the person; sub is among them.
	Claims map[string]any
	// InToken lists the claims that are in the ID token too, besides sub.
	InToken []string
	Down    bool
	Key     string // id of the key that signs

	// These change what is sent; nil: nothing.
	Document func(document map[string]any)
	Token    func(claims map[string]any)
	Sign     func(claims map[string]any) string
	Answer   func(answer url.Values)
	UserInfo func(claims map[string]any)
	Handle   func(w http.ResponseWriter, r *http.Request) bool
}

// New serves a provider until the test ends.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{codes: map[string]url.Values{}, seen: map[string]int{},
		State: State{Key: "first", Claims: map[string]any{"sub": "s-1", "email": "anna@example.org",
			"email_verified": true, "preferred_username": "anna", "name": "Anna A."}}}
	p.NewKey(t)
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.URL = s.URL
	return p
}

// NewKey replaces the key for signatures.
func (p *Provider) NewKey(t testing.TB) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key = key
}

// Set changes what the provider does.
func (p *Provider) Set(change func(*State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.State)
}

// Seen returns how often a path was requested.
func (p *Provider) Seen(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[path]
}

// Asked returns the parameters with which the last browser came.
func (p *Provider) Asked() url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Signed returns a token with claims.
func (p *Provider) Signed(claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key},
		(&jose.SignerOptions{}).WithHeader("kid", p.Key))
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		panic(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[r.URL.Path]++
	if p.Down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	if p.Handle != nil && p.Handle(w, r) {
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		d := map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize",
			"token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/me",
			"id_token_signing_alg_values_supported":          []string{"ES256", "HS256", "none"},
			"authorization_response_iss_parameter_supported": true}
		if p.Document != nil {
			p.Document(d)
		}
		reply(w, d)
	case "/keys":
		reply(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &p.key.PublicKey, KeyID: p.Key, Algorithm: "ES256",
			Use: "sig"}}})
	case "/authorize":
		p.authorize(w, r)
	case "/token":
		p.token(w, r)
	case "/me":
		claims := maps.Clone(p.Claims)
		if p.UserInfo != nil {
			p.UserInfo(claims)
		}
		reply(w, claims)
	default:
		http.NotFound(w, r)
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.last = q
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
		len(q.Get("nonce")) < 20 || len(q.Get("state")) < 20 {
		http.Error(w, "a bad request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.codes[code] = q
	answer := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}
	if p.Answer != nil {
		p.Answer(answer)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+answer.Encode(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	secret, _ = url.QueryUnescape(secret)
	q, known := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if id != ClientID || secret != Secret || !known || r.PostFormValue("redirect_uri") != q.Get("redirect_uri") ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") {
		w.WriteHeader(http.StatusBadRequest)
		reply(w, map[string]any{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": ClientID, "sub": p.Claims["sub"], "nonce": q.Get("nonce"),
		"exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(), "auth_time": time.Now().Unix()}
	for _, name := range p.InToken {
		claims[name] = p.Claims[name]
	}
	if p.Token != nil {
		p.Token(claims)
	}
	token := ""
	if p.Sign != nil {
		token = p.Sign(claims)
	} else {
		token = p.Signed(claims)
	}
	reply(w, map[string]any{"access_token": "access", "token_type": "Bearer", "expires_in": 60, "id_token": token})
}

// Endless writes more than anybody should read.
func Endless(w io.Writer) {
	text := make([]byte, 1<<16)
	for i := range text {
		text[i] = ' '
	}
	for range 1000 {
		if _, err := w.Write(text); err != nil {
			return
		}
	}
}
