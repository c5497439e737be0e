package signin

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/upstream/signin/signintest"
)

var identity = Identity{Redirect: "http://127.0.0.1:8765/oauth/upstream"}

// begin discovers and registers, and returns a pending sign-in.
func begin(t *testing.T, s *signintest.Server, id Identity) (*Pending, Registration) {
	t.Helper()
	c := Client(nil)
	d, err := Discover(t.Context(), c, s.URL+"/mcp", Challenge{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := register(t.Context(), c, &d.Server, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Pending{Verifier: strings.Repeat("v", 43), Redirect: id.Redirect, Resource: d.Resource,
		Scopes: wantedScopes(&d, Challenge{}, nil), Server: d.Server, Client: r}, r
}

// answerTo consents, and returns the parameters of the answer.
func answerTo(t *testing.T, p *Pending, r Registration) url.Values {
	t.Helper()
	address, err := p.address(r.ID, "state")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(signintest.Consent(t, address))
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

// Every way to be known leads to tokens, which can be refreshed.
func TestSignInAndRefresh(t *testing.T) {
	byHand, document := identity, identity
	byHand.ID, byHand.Secret = "my client", "p&ss wörd"
	document.Document = "https://patchbay.example/oauth/client.json"
	for name, c := range map[string]struct {
		id      Identity
		methods []string
		kind    string
	}{
		"dynamic, public": {identity, []string{"none"}, kindDynamic},
		"dynamic, post":   {identity, []string{"client_secret_post"}, kindDynamic},
		"dynamic, basic":  {identity, []string{"client_secret_basic"}, kindDynamic},
		"by hand":         {byHand, []string{"client_secret_post", "none"}, kindGiven},
		"by document":     {document, []string{"none"}, kindDocument},
		"by hand before all": {Identity{ID: "x", Document: document.Document, Redirect: identity.Redirect}, nil,
			kindGiven},
	} {
		t.Run(name, func(t *testing.T) {
			s := signintest.New(t, nil)
			s.Methods, s.Documents, s.Scopes = c.methods, true, []string{"a", scopeOffline}
			s.AddClient("my client", "p&ss wörd")
			s.AddClient("x", "")
			p, r := begin(t, s, c.id)
			if r.Kind != c.kind || !slices.Equal(p.Scopes, []string{scopeOffline}) {
				t.Fatalf("registered as %+v, scopes %q", r, p.Scopes)
			}
			code, err := p.answer(answerTo(t, p, r))
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			g, err := p.exchange(t.Context(), Client(nil), code, now)
			if err != nil {
				t.Fatal(err)
			}
			if g.Access == "" || g.Refresh == "" || !g.RefreshAt.Equal(now.Add(48*time.Minute)) {
				t.Errorf("got %+v", g)
			}
			next, err := g.refresh(t.Context(), Client(nil), r, now)
			if err != nil || next.Access == g.Access || next.Refresh == g.Refresh {
				t.Errorf("refreshed to %+v, %v", next, err)
			}
			_, err = g.refresh(t.Context(), Client(nil), r, now)
			if e, ok := errors.AsType[*RefusedError](err); !ok || e.Code != "invalid_grant" || IsTemporary(err) {
				t.Errorf("an old refresh token: %v", err)
			}
		})
	}
}

// An identity that belongs to one server is not used at another.
func TestRegistrationsStay(t *testing.T) {
	a, b := signintest.New(t, nil), signintest.New(t, nil)
	known := map[string]Registration{a.URL: {Kind: kindDynamic, ID: "of a", Method: methodNone, Redirect: identity.Redirect}}
	c, sa, sb := Client(nil), &Server{Issuer: a.URL}, &Server{Issuer: b.URL, Register: b.URL + "/register"}
	if r, err := register(t.Context(), c, sa, identity, known); err != nil || r.ID != "of a" {
		t.Errorf("at the same server: %+v, %v", r, err)
	}
	if r, err := register(t.Context(), c, sb, identity, known); err != nil || r.ID == "of a" {
		t.Errorf("at another server: %+v, %v", r, err)
	}
	other := identity
	other.Redirect = "https://patchbay.example/oauth/upstream"
	if _, err := register(t.Context(), c, sa, other, known); err == nil {
		t.Error("a registration is used with another redirect")
	}
	byHand := identity
	byHand.ID = "of a"
	known[a.URL] = Registration{Kind: kindGiven, ID: "of a"}
	if _, err := register(t.Context(), c, sb, byHand, known); err == nil {
		t.Error("a registration by hand is used at another server")
	}
}

// What a server says about itself has to fit.
func TestDiscoverRefuses(t *testing.T) {
	alter := func(path, name string, value any) func(*signintest.Server) {
		return func(s *signintest.Server) {
			s.Alter = func(at string, doc map[string]any) {
				if strings.Contains(at, path) {
					doc[name] = value
				}
			}
		}
	}
	bomb := func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "oauth-authorization-server") {
			return false
		}
		for range 64 << 10 {
			if _, err := w.Write([]byte(strings.Repeat("[", 1024))); err != nil {
				break
			}
		}
		return true
	}
	for name, set := range map[string]func(*signintest.Server){
		"another resource":           alter("resource", "resource", "https://evil.example/mcp"),
		"a resource beside it":       alter("resource", "resource", "http://127.0.0.1/mc"),
		"no server":                  alter("resource", "authorization_servers", []string{}),
		"a server that is no https":  alter("resource", "authorization_servers", []string{"http://evil.example"}),
		"a script":                   alter("resource", "authorization_servers", []string{"javascript:alert(1)"}),
		"another issuer":             func(s *signintest.Server) { s.Issuer, s.Named = "https://evil.example", s.URL },
		"no issuer":                  alter("server", "issuer", ""),
		"no S256":                    alter("server", "code_challenge_methods_supported", []string{"plain"}),
		"no PKCE":                    alter("server", "code_challenge_methods_supported", nil),
		"a script to sign in":        alter("server", "authorization_endpoint", "javascript:alert(1)"),
		"a password in an address":   alter("server", "token_endpoint", "https://a:b@evil.example/token"),
		"plain http elsewhere":       alter("server", "token_endpoint", "http://evil.example/token"),
		"plain http to register":     alter("server", "registration_endpoint", "http://evil.example/register"),
		"a list":                     alter("server", "issuer", []string{"a"}),
		"a document that never ends": func(s *signintest.Server) { s.Serve = bomb },
		"a redirect elsewhere": func(s *signintest.Server) {
			s.Serve = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, "http://localhost:1"+r.URL.Path, http.StatusFound)
				return true
			}
		},
		"trouble": func(s *signintest.Server) {
			s.Serve = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := signintest.New(t, nil)
			set(s)
			d, err := Discover(t.Context(), Client(nil), s.URL+"/mcp", Challenge{})
			if _, told := errors.AsType[*i18n.Error](err); !told {
				t.Errorf("discovered %+v, %v", d, err)
			}
		})
	}
}

// The documents are where the challenge says, or at the well-known addresses.
func TestDiscoverFinds(t *testing.T) {
	for name, c := range map[string]struct {
		moved   map[string]string // from the address of the document to where it is
		named   string
		issuer  string
		guessed bool
	}{
		"as usual": {},
		"at the root": {moved: map[string]string{
			"/.well-known/oauth-protected-resource": "/.well-known/oauth-protected-resource/mcp"}},
		"named": {named: "/about.json", moved: map[string]string{"/about.json": "/.well-known/oauth-protected-resource/mcp"}},
		"path inserted": {issuer: "/tenant", moved: map[string]string{
			"/.well-known/oauth-authorization-server/tenant": "/.well-known/oauth-authorization-server"}},
		"OpenID inserted": {issuer: "/tenant", moved: map[string]string{
			"/.well-known/openid-configuration/tenant": "/.well-known/oauth-authorization-server"}},
		"OpenID appended": {issuer: "/tenant", moved: map[string]string{
			"/tenant/.well-known/openid-configuration": "/.well-known/oauth-authorization-server"}},
		"OpenID": {moved: map[string]string{
			"/.well-known/openid-configuration": "/.well-known/oauth-authorization-server"}},
		"of 2025-03-26": {moved: map[string]string{
			"/.well-known/none": "/.well-known/oauth-protected-resource/mcp"}},
		"without documents": {guessed: true, moved: map[string]string{
			"/.well-known/none": "/.well-known/oauth-protected-resource/mcp",
			"/.well-known/nil":  "/.well-known/oauth-authorization-server"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := signintest.New(t, nil)
			if c.issuer != "" {
				s.Issuer = s.URL + c.issuer
			}
			s.Serve = func(w http.ResponseWriter, r *http.Request) bool {
				for from, to := range c.moved {
					if r.URL.Path == to {
						w.WriteHeader(http.StatusNotFound)
						return true
					}
					if r.URL.Path == from {
						r.URL.Path = to
						return false
					}
				}
				return false
			}
			var ch Challenge
			if c.named != "" {
				ch.Metadata = s.URL + c.named
			}
			d, err := Discover(t.Context(), Client(nil), s.URL+"/mcp", ch)
			if err != nil || d.Resource != s.URL+"/mcp" || d.Server.Issuer != s.URL+c.issuer ||
				d.Server.Token != s.URL+"/token" || d.Guessed != c.guessed {
				t.Errorf("discovered %+v, %v", d, err)
			}
		})
	}
}

// An https server cannot lead to plain http.
func TestCheckAddress(t *testing.T) {
	for _, c := range []struct {
		address, upstream string
		ok                bool
	}{
		{"https://as.example/x", "http://home.lan/mcp", true},
		{"https://as.example/x", "https://tools.example/mcp", true},
		{"http://127.0.0.1:9/x", "http://home.lan/mcp", true},
		{"http://home.lan:8/x", "http://home.lan/mcp", true},
		{"http://127.0.0.1:9/x", "https://tools.example/mcp", false},
		{"http://tools.example/x", "https://tools.example/mcp", false},
		{"http://169.254.169.254/x", "http://home.lan/mcp", false},
		{"https://as.example/x#y", "https://tools.example/mcp", false},
		{"file:///etc/passwd", "http://home.lan/mcp", false},
		{"//as.example/x", "http://home.lan/mcp", false},
	} {
		u, err := url.Parse(c.upstream)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkAddress("it", c.address, u); (err == nil) != c.ok {
			t.Errorf("%s of %s: %v", c.address, c.upstream, err)
		}
	}
}

// The issuer is compared before anything else, without normalizing.
func TestAnswer(t *testing.T) {
	const iss = "https://as.example"
	for _, c := range []struct {
		query   string
		sends   bool
		ok      bool
		message i18n.Message
	}{
		{"code=c&iss=https://as.example", true, true, ""},
		{"code=c&iss=https://as.example", false, true, ""},
		{"code=c", false, true, ""},
		{"code=c", true, false, msgIssuer},
		{"code=c&iss=", false, false, msgIssuer},
		{"code=c&iss=https://as.example/", true, false, msgIssuer},
		{"code=c&iss=HTTPS://as.example", true, false, msgIssuer},
		{"code=c&iss=https://evil.example", false, false, msgIssuer},
		{"error=access_denied&iss=https://evil.example", false, false, msgIssuer},
		{"error=access_denied&iss=https://as.example", true, false, msgDeclined},
		{"error=server_error&iss=https://as.example", true, false, msgDenied},
		{"state=s", false, false, msgNoCode},
		{"code=c&code=d", false, false, msgNoCode},
	} {
		q, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		p := &Pending{Server: Server{Issuer: iss, SendsIssuer: c.sends}}
		code, err := p.answer(q)
		told, _ := errors.AsType[*i18n.Error](err)
		if (err == nil) != c.ok || c.ok && code != "c" || !c.ok && (told == nil || told.Message != c.message) {
			t.Errorf("%s: %q, %v", c.query, code, err)
		}
	}
}

func TestTake(t *testing.T) {
	now := time.Unix(1000, 0)
	for text, want := range map[string]string{
		`{"access_token":"a","token_type":"bearer","expires_in":"100","scope":"x y"}`: "a 100 x,y",
		`{"access_token":"a","token_type":"Bearer"}`:                                  "a 0 old",
		`{"access_token":"a","token_type":"Bearer","expires_in":1e300}`:               "a 315360000 old",
		`{"access_token":"a","token_type":"Bearer","expires_in":-1,"scope":""}`:       "a 0 ",
		`{"access_token":"a","token_type":"DPoP"}`:                                    "",
		`{"access_token":"a b","token_type":"Bearer"}`:                                "",
		`{"access_token":"a\r\nX: y","token_type":"Bearer"}`:                          "",
		`{"token_type":"Bearer"}`:                                                     "",
		`{"error":"invalid_grant"}`:                                                   "",
		`access_token=a&token_type=Bearer`:                                            "",
	} {
		g := &Grant{Scopes: []string{"old"}}
		err := g.take([]byte(text), now)
		got := ""
		if err == nil {
			life := 0
			if !g.Expires.IsZero() {
				life = int(g.Expires.Sub(now).Seconds())
			}
			got = g.Access + " " + strconv.Itoa(life) + " " + strings.Join(g.Scopes, ",")
		}
		if got != want {
			t.Errorf("%s: %q, want %q (%v)", text, got, want, err)
		}
	}
}

func TestParseChallenge(t *testing.T) {
	for header, want := range map[string]Challenge{
		`Bearer resource_metadata="https://a.example/x", scope="a b"`: {"https://a.example/x", []string{"a", "b"}, ""},
		`bearer error=insufficient_scope,scope=a`:                     {"", []string{"a"}, "insufficient_scope"},
		`Basic realm="x, Bearer scope=b", Bearer scope="c\"d e"`:      {"", []string{"e"}, ""},
		`Negotiate YWJj==, Bearer scope="c"`:                          {"", []string{"c"}, ""},
		`Basic scope="a"`:                                             {},
		`Bearer`:                                                      {},
		`Bearer scope="open`:                                          {"", []string{"open"}, ""},
		`Bearer scope = "a a b"`:                                      {"", []string{"a", "b"}, ""},
	} {
		got := ParseChallenge([]string{header})
		if got.Metadata != want.Metadata || got.Error != want.Error || !slices.Equal(got.Scopes, want.Scopes) {
			t.Errorf("%s: %+v", header, got)
		}
	}
}

func FuzzParseChallenge(f *testing.F) {
	f.Add(`Bearer resource_metadata="https://a.example/x", scope="a b", error=x`)
	f.Add(`Negotiate YWJj==, Basic realm="\"`)
	f.Fuzz(func(t *testing.T, header string) {
		c := ParseChallenge([]string{header})
		for _, s := range c.Scopes {
			if s == "" || strings.ContainsAny(s, " \"\\\r\n") {
				t.Errorf("scope %q", s)
			}
		}
		if len(c.Metadata) > maxParameter || len(c.Scopes) > maxScopes {
			t.Error("too much is kept")
		}
	})
}

func FuzzTake(f *testing.F) {
	f.Add(`{"access_token":"a","token_type":"bearer","expires_in":"100","scope":"x y"}`)
	f.Fuzz(func(t *testing.T, text string) {
		g := &Grant{}
		if g.take([]byte(text), time.Unix(0, 0)) == nil && !isToken(g.Access) {
			t.Errorf("token %q", g.Access)
		}
	})
}
