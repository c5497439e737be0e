package oidc_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/oidc"
	"patchbay/internal/oidc/oidctest"
)

const redirect = "https://board.example.org/signin/oidc"

// clock is a clock that tests move.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time       { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) pass(d time.Duration) { c.ahead.Add(int64(d)) }
func options(p *oidctest.Provider, c *clock) oidc.Options {
	return oidc.Options{Issuer: p.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.Secret,
		Scopes: []string{"openid", "profile"}, Now: c.now}
}

// visit sends a browser to the provider, and returns what it comes back with.
func visit(t *testing.T, p *oidc.Provider, again bool) (oidc.Round, url.Values, error) {
	t.Helper()
	r, address, err := p.Begin(t.Context(), redirect, again)
	if err != nil {
		return r, nil, err
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	browser := &http.Client{CheckRedirect: stay}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		t.Fatal(err)
	}
	return r, to.Query(), nil
}

func finish(t *testing.T, p *oidc.Provider, again bool) (oidc.Identity, error) {
	t.Helper()
	r, answer, err := visit(t, p, again)
	if err != nil {
		return oidc.Identity{}, err
	}
	return p.Finish(t.Context(), r, answer)
}

// A person is identified by the ID token, and described by the UserInfo endpoint too.
func TestIdentity(t *testing.T) {
	peer, c := oidctest.New(t), &clock{}
	p := oidc.New(options(peer, c))
	peer.Set(func(s *oidctest.State) {
		s.Claims["groups"] = []string{"family", "admins"}
		s.InToken = []string{"name"}
	})
	id, err := finish(t, p, false)
	if err != nil || id.Subject != "s-1" || id.Issuer != peer.URL || id.Email != "anna@example.org" ||
		id.Username != "anna" || id.Name != "Anna A." || !slices.Equal(id.Groups, []string{"family", "admins"}) ||
		time.Since(id.At).Abs() > time.Minute {
		t.Fatalf("%+v, %v", id, err)
	}
	asked := peer.Asked()
	if asked.Get("scope") != "openid profile" || asked.Get("redirect_uri") != redirect || asked.Has("prompt") ||
		asked.Get("max_age") != "2592000" {
		t.Errorf("asked for %v", asked)
	}
	if _, err := finish(t, p, true); err != nil {
		t.Error(err)
	}
	if asked = peer.Asked(); asked.Get("prompt") != "login" || asked.Get("max_age") != "0" {
		t.Errorf("asked again for %v", asked)
	}
	// Claims of other forms than expected are no failure, and prove nothing.
	peer.Set(func(s *oidctest.State) {
		s.Claims = map[string]any{"sub": "s-1", "email": "anna@example.org", "email_verified": false, "groups": 7,
			"name": "a\nb"}
	})
	if id, err = finish(t, p, false); err != nil || id.Email != "" || id.Groups != nil || id.Name != "" ||
		id.Label() != "s-1" {
		t.Errorf("%+v, %v", id, err)
	}
	peer.Set(func(s *oidctest.State) { s.Claims["groups"], s.Claims["email_verified"] = "family", "true" })
	if id, err = finish(t, p, false); err != nil || !slices.Equal(id.Groups, []string{"family"}) || id.Email == "" {
		t.Errorf("%+v, %v", id, err)
	}
}

func unsigned(claims map[string]any) string {
	text, _ := json.Marshal(claims)
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(text) + "."
}

// Answers that are forged, or for somebody else, identify nobody.
func TestHostileAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		lie  func(peer *oidctest.Provider, s *oidctest.State)
		want error
	}{
		"issuer of the token": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Token = func(c map[string]any) { c["iss"] = "https://evil.example" }
		}, oidc.ErrAnswer},
		"audience": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Token = func(c map[string]any) { c["aud"] = "another" }
		}, oidc.ErrAnswer},
		"audience among others": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Token = func(c map[string]any) { c["aud"] = []string{oidctest.ClientID, "another"} }
		}, oidc.ErrAnswer},
		"made for another client": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Token = func(c map[string]any) { c["azp"] = "another" }
		}, oidc.ErrAnswer},
		"nonce": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Token = func(c map[string]any) { c["nonce"] = "another" }
		}, oidc.ErrAnswer},
		"no nonce": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Token = func(c map[string]any) { delete(c, "nonce") }
		}, oidc.ErrAnswer},
		"expired": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Token = func(c map[string]any) { c["exp"] = time.Now().Add(-time.Minute).Unix() }
		}, oidc.ErrAnswer},
		"no expiry": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Token = func(c map[string]any) { delete(c, "exp") }
		}, oidc.ErrAnswer},
		"not valid yet": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Token = func(c map[string]any) { c["nbf"] = time.Now().Add(time.Hour).Unix() }
		}, oidc.ErrAnswer},
		"no subject": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Token = func(c map[string]any) { delete(c, "sub") }
		}, oidc.ErrAnswer},
		"long subject": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Token = func(c map[string]any) { c["sub"] = strings.Repeat("s", 256) }
		}, oidc.ErrAnswer},
		"hash of the access token": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Token = func(c map[string]any) { c["at_hash"] = "AAAAAAAAAAAAAAAAAAAAAA" }
		}, oidc.ErrAnswer},
		"no signature": {func(_ *oidctest.Provider, s *oidctest.State) { s.Sign = unsigned }, oidc.ErrAnswer},
		"no token": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Sign = func(map[string]any) string { return "" }
		}, oidc.ErrAnswer},
		"the signature of another token": {func(peer *oidctest.Provider, s *oidctest.State) {
			s.Sign = func(c map[string]any) string {
				parts, other := strings.Split(peer.Signed(c), "."), strings.Split(peer.Signed(map[string]any{}), ".")
				return parts[0] + "." + parts[1] + "." + other[2]
			}
		}, oidc.ErrAnswer},
		"answer of another issuer": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Answer = func(a url.Values) { a.Set("iss", "https://evil.example") }
		}, oidc.ErrAnswer},
		"answer of no issuer": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Answer = func(a url.Values) { a.Del("iss") }
		}, oidc.ErrAnswer},
		"two codes": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Answer = func(a url.Values) { a.Add("code", "another") }
		}, oidc.ErrAnswer},
		"no code": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Answer = func(a url.Values) { a.Del("code") }
		}, oidc.ErrAnswer},
		"invented code": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Answer = func(a url.Values) { a.Set("code", "invented") }
		}, oidc.ErrAnswer},
		"declined": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Answer = func(a url.Values) { a.Del("code"); a.Set("error", "access_denied") }
		}, oidc.ErrDeclined},
		"declined by another issuer": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.Answer = func(a url.Values) { a.Set("error", "access_denied"); a.Set("iss", "https://evil.example") }
		}, oidc.ErrAnswer},
		"UserInfo about somebody else": {func(_ *oidctest.Provider, s *oidctest.State) {
			s.UserInfo = func(c map[string]any) { c["sub"] = "s-2" }
		}, oidc.ErrAnswer},
		"UserInfo broken":  {handle("/me", func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }), oidc.ErrAway},
		"UserInfo endless": {handle("/me", func(w http.ResponseWriter) { oidctest.Endless(w) }), oidc.ErrAway},
		"token endless":    {handle("/token", func(w http.ResponseWriter) { oidctest.Endless(w) }), oidc.ErrAway},
		"keys endless":     {handle("/keys", func(w http.ResponseWriter) { oidctest.Endless(w) }), oidc.ErrAway},
		"no keys":          {handle("/keys", func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"keys":[]}`)) }), oidc.ErrAway},
		"token redirects": {handle("/token", func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://evil.example/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}), oidc.ErrAnswer},
		"token endpoint down": {handle("/token", func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }),
			oidc.ErrAway},
	} {
		t.Run(name, func(t *testing.T) {
			peer := oidctest.New(t)
			p := oidc.New(options(peer, &clock{}))
			peer.Set(func(s *oidctest.State) { c.lie(peer, s) })
			if id, err := finish(t, p, false); !errors.Is(err, c.want) {
				t.Errorf("%+v, %v", id, err)
			} else if len(err.Error()) > 600 {
				t.Errorf("%d bytes for the log", len(err.Error()))
			}
		})
	}
}

// handle answers requests of a path with something else.
func handle(path string, answer func(http.ResponseWriter)) func(*oidctest.Provider, *oidctest.State) {
	return func(_ *oidctest.Provider, s *oidctest.State) {
		s.Handle = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			answer(w)
			return true
		}
	}
}

// A code is good once, and only with the verifier of its own round.
func TestCodes(t *testing.T) {
	peer := oidctest.New(t)
	p := oidc.New(options(peer, &clock{}))
	r, answer, err := visit(t, p, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Finish(t.Context(), r, answer); err != nil {
		t.Fatal(err)
	}
	if id, err := p.Finish(t.Context(), r, answer); !errors.Is(err, oidc.ErrAnswer) {
		t.Errorf("a second time: %+v, %v", id, err)
	}
	_, stolen, err := visit(t, p, false)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := p.Finish(t.Context(), r, stolen); !errors.Is(err, oidc.ErrAnswer) {
		t.Errorf("with the code of another round: %+v, %v", id, err)
	}
}

// Who has to prove again who they are is not let in by an old session, if the provider tells.
func TestAgain(t *testing.T) {
	peer := oidctest.New(t)
	p := oidc.New(options(peer, &clock{}))
	peer.Set(func(s *oidctest.State) {
		s.Token = func(c map[string]any) { c["auth_time"] = time.Now().Add(-10 * time.Minute).Unix() }
	})
	if id, err := finish(t, p, false); err != nil || time.Since(id.At) < 9*time.Minute {
		t.Errorf("%+v, %v", id, err)
	}
	if id, err := finish(t, p, true); !errors.Is(err, oidc.ErrAnswer) {
		t.Errorf("%+v, %v", id, err)
	}
	peer.Set(func(s *oidctest.State) { s.Token = func(c map[string]any) { delete(c, "auth_time") } })
	if id, err := finish(t, p, true); err != nil || !id.At.IsZero() {
		t.Errorf("%+v, %v", id, err)
	}
}

// The provider may be down at first and later, and documents that are not its own are refused.
func TestDiscovery(t *testing.T) {
	peer, c := oidctest.New(t), &clock{}
	p := oidc.New(options(peer, c))
	const document = "/.well-known/openid-configuration"
	peer.Set(func(s *oidctest.State) { s.Down = true })
	for range 5 {
		if _, _, err := p.Begin(t.Context(), redirect, false); !errors.Is(err, oidc.ErrAway) {
			t.Fatal(err)
		}
	}
	if n := peer.Seen(document); n != 1 {
		t.Errorf("visitors of a moment ask %d times", n)
	}
	c.pass(4 * time.Second)
	peer.Set(func(s *oidctest.State) { s.Down = false })
	if _, err := finish(t, p, false); err != nil {
		t.Fatal(err)
	}
	c.pass(2 * time.Hour)
	peer.Set(func(s *oidctest.State) { s.Down = true })
	if _, _, err := p.Begin(t.Context(), redirect, false); err != nil {
		t.Errorf("what is known does not outlive an outage: %v", err)
	}
	if n := peer.Seen(document); n != 3 {
		t.Errorf("the document was read %d times", n)
	}
	// A visitor who leaves does not make others fail.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := oidc.New(options(oidctest.New(t), c)).Begin(gone, redirect, false); err != nil {
		t.Error(err)
	}
	for name, lie := range map[string]func(map[string]any){
		"another issuer":     func(d map[string]any) { d["issuer"] = "https://evil.example" },
		"a slash":            func(d map[string]any) { d["issuer"] = d["issuer"].(string) + "/" },
		"no keys":            func(d map[string]any) { delete(d, "jwks_uri") },
		"a script":           func(d map[string]any) { d["authorization_endpoint"] = "javascript:alert(1)" },
		"a path":             func(d map[string]any) { d["token_endpoint"] = "/token" },
		"lists that are not": func(d map[string]any) { d["id_token_signing_alg_values_supported"] = 7 },
	} {
		peer := oidctest.New(t)
		peer.Set(func(s *oidctest.State) { s.Document = lie })
		if _, _, err := oidc.New(options(peer, c)).Begin(t.Context(), redirect, false); !errors.Is(err, oidc.ErrAway) {
			t.Errorf("%s: %v", name, err)
		}
	}
	peer = oidctest.New(t)
	peer.Set(func(s *oidctest.State) {
		handle(document, func(w http.ResponseWriter) { oidctest.Endless(w) })(nil, s)
	})
	if _, _, err := oidc.New(options(peer, c)).Begin(t.Context(), redirect, false); !errors.Is(err, oidc.ErrAway) {
		t.Errorf("endless: %v", err)
	}
}

// Keys are read when a new one signs, and at most once a minute.
func TestKeys(t *testing.T) {
	peer, c := oidctest.New(t), &clock{}
	p := oidc.New(options(peer, c))
	if _, err := finish(t, p, false); err != nil {
		t.Fatal(err)
	}
	c.pass(30 * time.Second)
	peer.Set(func(s *oidctest.State) { s.Key = "unknown" }) // the key set still is as it was read
	for range 10 {
		if _, err := finish(t, p, false); !errors.Is(err, oidc.ErrAnswer) {
			t.Fatal(err)
		}
	}
	if n := peer.Seen("/keys"); n != 1 {
		t.Errorf("a storm of unknown keys has the keys read %d times", n)
	}
	c.pass(time.Minute)
	peer.NewKey(t)
	// The token is valid by the clock of the test.
	peer.Set(func(s *oidctest.State) {
		s.Token = func(claims map[string]any) { claims["exp"] = c.now().Add(time.Minute).Unix() }
	})
	for range 3 {
		if _, err := finish(t, p, false); err != nil {
			t.Fatal(err)
		}
	}
	if n := peer.Seen("/keys"); n != 2 {
		t.Errorf("a new key has the keys read %d times", n)
	}
}

func TestAllows(t *testing.T) {
	anna := oidc.Identity{Email: "Anna@Example.org", Groups: []string{"family"}}
	for item, want := range map[string]bool{
		"*": true, "anna@example.org": true, "@example.org": true, "group:family": true,
		"nna@example.org": false, "@ample.org": false, "@sub.example.org": false, "group:fam": false, "family": false,
		"@": false, "": false,
	} {
		p := oidc.New(oidc.Options{Issuer: "https://auth.example", Allow: []string{item}})
		if p.Allows(&anna) != want {
			t.Errorf("%q: %v", item, !want)
		}
		if unverified := (oidc.Identity{}); item != "*" && p.Allows(&unverified) {
			t.Errorf("%q allows somebody unknown", item)
		}
	}
	google := oidc.New(oidc.Options{Issuer: oidc.Google, Allow: []string{"@example.org"}})
	if google.Allows(&anna) {
		t.Error("an address of elsewhere is taken for one of the company")
	}
	anna.Hosted = "example.org"
	if !google.Allows(&anna) {
		t.Error("the company's people are refused")
	}
	if !oidc.New(oidc.Options{Issuer: oidc.Google}).Allows(&oidc.Identity{}) || oidc.New(oidc.Options{}) != nil {
		t.Error("without items, everybody who is linked is allowed")
	}
}

func TestCheck(t *testing.T) {
	peer := oidctest.New(t)
	for _, c := range []struct {
		change func(*oidc.Options)
		public string
		admins int
		state  check.State
		words  string
	}{
		{func(*oidc.Options) {}, "https://board.example.org", 0, check.OK, redirect},
		{func(*oidc.Options) {}, "", 0, check.OK, "public_url"},
		{func(*oidc.Options) {}, "http://board.example.org", 0, check.Warn, "not encrypted"},
		{func(o *oidc.Options) { o.Only = true }, "https://board.example.org", 0, check.Warn, "no administrator"},
		{func(o *oidc.Options) { o.Only = true }, "https://board.example.org", 1, check.OK, redirect},
		{func(o *oidc.Options) { o.Issuer += "/" }, "", 0, check.Fail, "calls itself"},
		{func(o *oidc.Options) { o.Issuer += "/none" }, "", 0, check.Fail, "does not answer"},
	} {
		o := options(peer, &clock{})
		c.change(&o)
		r := &check.Report{}
		oidc.New(o).Check(t.Context(), r, c.public, c.admins)
		if len(r.Findings) != 1 || r.Findings[0].State != c.state || !strings.Contains(r.Findings[0].Found, c.words) {
			t.Errorf("%+v", r.Findings)
		}
	}
}
