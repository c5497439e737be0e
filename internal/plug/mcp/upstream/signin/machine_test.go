package signin_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/plug/mcp/upstream/signin"
	"patchbay/internal/plug/mcp/upstream/signin/signintest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

const machineSecret = "a secret/with & signs"

// asMachine makes an upstream sign in by itself.
func (r *rig) asMachine() *rig {
	r.as.AddClient("robot", machineSecret)
	r.target.Settings.OAuthGrant, r.target.Settings.ClientID = upstream.ClientCredentials, "robot"
	r.target.Settings.ClientSecret = machineSecret
	return r
}

// tokens counts the requests for tokens.
func (r *rig) tokens() int { return r.as.Count("POST /token client_credentials") }

// refused returns the token in place of one that was refused. It may run in any goroutine.
func (r *rig) refused(c *signin.Source, old string) string {
	r.t.Helper()
	got, err := c.Refused(r.t.Context(), r.refusal(old))
	if err != nil || got == "" || got == old {
		r.t.Errorf("a refusal leads to %q, %v", got, err)
	}
	return got
}

// wantSettings checks that an error is about the settings, and says nothing secret.
func wantSettings(t *testing.T, err error, part string) {
	t.Helper()
	e, _ := errors.AsType[*upstream.SignInError](err)
	if e == nil || !e.BySettings || !strings.Contains(e.Error(), part) || strings.Contains(e.Error(), machineSecret) {
		t.Errorf("the error is %v, and should be about %q", err, part)
	}
}

// A machine signs in by itself when it is refused, once for all instances, renews its token at 80 %
// of its life and when it is refused, and keeps it sealed.
func TestMachine(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := newRig(t, o).asMachine()
		r.as.Set(func(as *signintest.Server) { as.Scope = "read" })
		first := r.instance("a")
		sources := []*signin.Source{first.Source(r.target), r.instance("b").Source(r.target),
			r.instance("c").Source(r.target)}
		if got := token(t, sources[0]); got != "" {
			t.Fatalf("there is a token already: %q", got)
		}
		all := func(old string) string {
			t.Helper()
			got := make([]string, 12)
			var wg sync.WaitGroup
			for i := range got {
				wg.Go(func() { got[i] = r.refused(sources[i%len(sources)], old) })
			}
			wg.Wait()
			for _, g := range got {
				if g != got[0] {
					t.Fatalf("tokens differ: %q", got)
				}
			}
			return got[0]
		}
		got := all("")
		if r.tokens() != 1 {
			t.Errorf("%d tokens were fetched", r.tokens())
		}
		for table, rows := range storetest.Rows(t, o) {
			for _, row := range rows {
				if strings.Contains(row, got) || strings.Contains(row, machineSecret) {
					t.Errorf("%s has a secret: %s", table, row)
				}
			}
		}
		r.clock.Store(2870)
		if again := token(t, sources[1]); again != got {
			t.Errorf("before 80 %% the token is %q", again)
		}
		r.clock.Store(2890)
		fresh := token(t, sources[1])
		if fresh == got || r.tokens() != 2 || r.as.Count("POST /token refresh") != 0 {
			t.Errorf("after 80 %% the token is %q, after %d", fresh, r.tokens())
		}
		r.as.Expire()
		if all(fresh); r.tokens() != 3 {
			t.Errorf("after 401 there are %d", r.tokens())
		}
		if s, err := first.Status(t.Context(), r.target); err != nil || !s.Machine || !s.SignedIn || s.Need != "" ||
			s.Issuer != r.as.URL {
			t.Errorf("the state is %+v, %v", s, err)
		}
		_, err := first.Start(t.Context(), r.target, "p", "")
		wantMessage(t, err, "Nobody has to sign in")
	})
}

// keyText returns a private key in PEM.
func keyText(t *testing.T, key any) string {
	t.Helper()
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
}

// A machine with a key signs who it is, with each kind of key; another key is refused.
func TestMachineKey(t *testing.T) {
	ec, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	long, err2 := rsa.GenerateKey(rand.Reader, 2048)
	_, ed, err3 := ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"P-256": ec, "RSA": long, "Ed25519": ed} {
		t.Run(name, func(t *testing.T) {
			r := onSQLite(t).asMachine()
			r.as.Set(func(as *signintest.Server) { as.Keys["robot"] = key.Public() })
			r.target.Settings.ClientSecret, r.target.Settings.PrivateKey = "", keyText(t, key)
			if err := r.target.Settings.Validate(); err != nil {
				t.Fatal(err)
			}
			c := r.instance("a").Source(r.target)
			r.refused(c, r.refused(c, ""))

			other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			r.target.Settings.PrivateKey = keyText(t, other)
			_, err = r.instance("a").Source(r.target).Refused(t.Context(), r.refusal(""))
			wantSettings(t, err, "private_key")
		})
	}
}

// A server that refuses the secret is asked once in a while by all instances together, and at once
// after the settings have changed or the owner wants it. Nobody is shown the secret.
func TestMachineRefused(t *testing.T) {
	r := onSQLite(t).asMachine()
	r.target.Settings.ClientSecret = "wrong and secret"
	s := r.instance("a")
	for _, c := range []*signin.Source{s.Source(r.target), r.instance("b").Source(r.target), s.Source(r.target)} {
		for range 3 {
			_, err := c.Refused(t.Context(), r.refusal(""))
			wantSettings(t, err, "invalid_client")
			if strings.Contains(err.Error(), r.target.Settings.ClientSecret) {
				t.Errorf("the secret is shown: %v", err)
			}
			_, err = c.Token(t.Context())
			wantSettings(t, err, "invalid_client")
		}
	}
	st, err := s.Status(t.Context(), r.target)
	if r.tokens() != 1 || err != nil || st.Need != signin.NeedSettings || !strings.Contains(st.Message.String(),
		"client_secret") {
		t.Errorf("%d requests, state %+v, %v", r.tokens(), st, err)
	}
	c := s.Source(r.target)
	r.clock.Store(301)
	if got := token(t, c); got != "" {
		t.Errorf("the token is %q", got)
	}
	if _, err := c.Refused(t.Context(), r.refusal("")); err == nil || r.tokens() != 2 {
		t.Errorf("after a while: %v, %d requests", err, r.tokens())
	}
	if err := s.Forget(t.Context(), r.target); err != nil {
		t.Fatal(err)
	}
	c.Reload()
	if got := token(t, c); got != "" {
		t.Errorf("the token is %q", got)
	}
	if _, err := c.Refused(t.Context(), r.refusal("")); err == nil || r.tokens() != 3 {
		t.Errorf("when its owner wants it: %v, %d requests", err, r.tokens())
	}
	r.target.Settings.ClientSecret = machineSecret
	r.refused(s.Source(r.target), "")
	if need := r.need(s); need != "" {
		t.Errorf("with the right secret, needed is %q", need)
	}
}

// A token that is refused although it is fresh is not replaced again and again.
func TestMachineTokenRefused(t *testing.T) {
	r := onSQLite(t).asMachine()
	s := r.instance("a")
	c := s.Source(r.target)
	again := r.refusal(r.refused(c, ""))
	again.Repeated = true
	for range 3 {
		_, err := c.Refused(t.Context(), again)
		wantSettings(t, err, "does not accept the token")
		_, err = c.Token(t.Context())
		wantSettings(t, err, "does not accept the token")
	}
	if r.tokens() != 1 {
		t.Errorf("%d tokens were fetched", r.tokens())
	}
}

// The secret is sent to no other authorization server than the first one, until the owner agrees,
// to none over plain http, and not where a token endpoint redirects to.
func TestMachineSecretStays(t *testing.T) {
	r, evil := onSQLite(t).asMachine(), signintest.New(t, nil)
	evil.AddClient("robot", machineSecret)
	s := r.instance("a")
	c := s.Source(r.target)
	old := r.refused(c, "")
	r.as.Set(func(as *signintest.Server) { as.Named = evil.URL })
	_, err := c.Refused(t.Context(), r.refusal(old))
	wantSettings(t, err, evil.URL)
	if n := evil.Count("POST /token"); n != 0 {
		t.Errorf("%d secrets were sent elsewhere", n)
	}
	if err := s.Forget(t.Context(), r.target); err != nil {
		t.Fatal(err)
	}
	c.Reload()
	token(t, c)
	_, err = c.Refused(t.Context(), r.refusal(""))
	if evil.Count("POST /token client_credentials") != 1 { // it wants another resource, which is fine here
		t.Errorf("after its owner has agreed: %v", err)
	}

	r = onSQLite(t).asMachine()
	r.as.Set(func(as *signintest.Server) {
		as.Serve = func(w http.ResponseWriter, q *http.Request) bool {
			if q.URL.Path == "/token" {
				http.Redirect(w, q, evil.URL+"/token", http.StatusTemporaryRedirect)
				return true
			}
			return false
		}
	})
	before := evil.Count("")
	if _, err := r.instance("a").Source(r.target).Refused(t.Context(), r.refusal("")); err == nil ||
		evil.Count("") != before {
		t.Errorf("a redirect leads to %v", err)
	}
	r = onSQLite(t).asMachine()
	r.as.Set(func(as *signintest.Server) {
		as.Alter = func(_ string, doc map[string]any) {
			if doc["token_endpoint"] != nil {
				doc["token_endpoint"] = "http://192.0.2.1/token"
			}
		}
	})
	_, err = r.instance("a").Source(r.target).Refused(t.Context(), r.refusal(""))
	if err == nil || !strings.Contains(err.Error(), "not https") {
		t.Errorf("a token endpoint without https leads to %v", err)
	}
}

// The rights are those that the server demands, or those of the settings. More are asked for once.
func TestMachineRights(t *testing.T) {
	r := onSQLite(t).asMachine()
	s := r.instance("a")
	c := s.Source(r.target)
	old := r.refused(c, "")
	more := func(token string, repeated bool) (string, error) {
		return c.Refused(t.Context(), upstream.Refusal{Token: token, Status: http.StatusForbidden, Repeated: repeated,
			Challenges: []string{`Bearer error="insufficient_scope", scope="write"`}})
	}
	got, err := more(old, false)
	if err != nil || got == old || r.tokens() != 2 {
		t.Fatalf("more rights lead to %q, %v", got, err)
	}
	if st, err := s.Status(t.Context(), r.target); err != nil || len(st.Scopes) != 1 || st.Scopes[0] != "write" {
		t.Errorf("granted is %q, %v", st.Scopes, err)
	}
	for range 3 {
		_, err = more(got, false)
		wantSettings(t, err, "write")
	}
	if again := token(t, c); again != got || r.tokens() != 2 {
		t.Errorf("the token is %q after %d requests", again, r.tokens())
	}
	r.target.Settings.Scope = "forbidden"
	_, err = r.instance("a").Source(r.target).Refused(t.Context(), r.refusal(""))
	wantSettings(t, err, "oauth_scope")
}

// An authorization server that fails for now is left alone for a moment, and is no reason to change
// settings. An upstream that is only looked at leaves nothing behind.
func TestMachineLater(t *testing.T) {
	r := onSQLite(t).asMachine()
	r.as.Set(func(as *signintest.Server) {
		as.Serve = func(w http.ResponseWriter, q *http.Request) bool {
			if q.URL.Path == "/token" {
				w.WriteHeader(http.StatusBadGateway)
				return true
			}
			return false
		}
	})
	s := r.instance("a")
	c := s.Source(r.target)
	for range 3 {
		_, err := c.Refused(t.Context(), r.refusal(""))
		if e, _ := errors.AsType[*upstream.ConnectionError](err); e == nil || e.Lasting || !e.SignInFails {
			t.Errorf("the error is %v", err)
		}
	}
	if r.tokens() != 1 || r.need(s) != "" {
		t.Errorf("%d requests, needed is %q", r.tokens(), r.need(s))
	}
	r.as.Set(func(as *signintest.Server) { as.Serve = nil })
	number := r.target.Number
	r.target.Number = 0
	c = s.Source(r.target)
	if got := r.refused(c, ""); token(t, c) != got || c.Redact(got) != "[secret]" {
		t.Errorf("the token is %q", got)
	}
	r.target.Number = number
	if st, err := s.Status(t.Context(), r.target); err != nil || st.SignedIn {
		t.Errorf("looking leaves %+v, %v", st, err)
	}
}
