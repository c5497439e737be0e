package signin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/fetch"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/plug/mcp/upstream/signin"
	"patchbay/internal/plug/mcp/upstream/signin/signintest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// rig is an installation with an upstream of person "p".
type rig struct {
	t      *testing.T
	db     *store.DB
	as     *signintest.Server
	target signin.Target
	clock  atomic.Int64 // what is added to the time, in seconds
}

func newRig(t *testing.T, o store.Options) *rig {
	t.Helper()
	db, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	r := &rig{t: t, db: db, as: signintest.New(t, nil)}
	r.target = signin.Target{Person: "p", Settings: upstream.Settings{URL: r.as.URL + "/mcp"}}
	if r.target.Number, err = addUpstream(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return r
}

func onSQLite(t *testing.T) *rig {
	t.Helper()
	return newRig(t, store.Options{Folder: storetest.Folder(t, t.TempDir())})
}

// instance returns the service of an instance.
func (r *rig) instance(name string) *signin.Service {
	return signin.New(signin.Options{Store: r.db, Box: newBox(), Instance: name, Logger: slog.New(slog.DiscardHandler),
		Link: func(n int64) string { return fmt.Sprint("http://patchbay.test/", n) },
		Now:  func() time.Time { return time.Now().Add(time.Duration(r.clock.Load()) * time.Second) },
		Identity: func(string) signin.Identity {
			return signin.Identity{Redirect: "http://127.0.0.1:8765/oauth/upstream"}
		}})
}

// signIn signs in, and returns the address at the end.
func (r *rig) signIn(s *signin.Service) string {
	r.t.Helper()
	address, err := s.Start(r.t.Context(), r.target, "p", "")
	if err != nil {
		r.t.Fatal(err)
	}
	end := signintest.Consent(r.t, address)
	if err := s.Finish(r.t.Context(), r.target, "p", end); err != nil {
		r.t.Fatal(err)
	}
	return end
}

// challenge is a refusal of a token by the tool server.
func (r *rig) refusal(token string) upstream.Refusal {
	return upstream.Refusal{Token: token, Status: http.StatusUnauthorized, Challenges: []string{
		`Bearer resource_metadata="` + r.as.URL + `/.well-known/oauth-protected-resource/mcp"`}}
}

func (r *rig) need(s *signin.Service) string {
	r.t.Helper()
	st, err := s.Status(r.t.Context(), r.target)
	if err != nil {
		r.t.Fatal(err)
	}
	return st.Need
}

// token returns the token of a source.
func token(t *testing.T, c *signin.Source) string {
	t.Helper()
	got, err := c.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func wantMessage(t *testing.T, err error, part string) {
	t.Helper()
	told, ok := errors.AsType[*i18n.Error](err)
	if !ok || !strings.Contains(told.Error(), part) {
		t.Errorf("the error is %v, and should be about %q", err, part)
	}
}

// An upstream that answers 401 needs a sign-in; after that it has tokens, which are sealed.
func TestFirstSignIn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := newRig(t, o)
		s := r.instance("a")
		c := s.Source(r.target)
		if got := token(t, c); got != "" {
			t.Fatalf("there is a token already: %q", got)
		}
		_, err := c.Refused(t.Context(), r.refusal(""))
		needed, _ := errors.AsType[*upstream.SignInError](err)
		if needed == nil || !strings.Contains(needed.Told, "http://patchbay.test/") || r.need(s) != signin.NeedSignIn {
			t.Fatalf("a refusal leads to %v", err)
		}
		end := r.signIn(s)
		c.Reload()
		got := token(t, c)
		if got == "" || r.need(s) != signin.NeedNothing || c.Redact("x"+got) != "x[secret]" {
			t.Errorf("the token is %q, needed is %q", got, r.need(s))
		}
		for table, rows := range storetest.Rows(t, o) {
			for _, row := range rows {
				if strings.Contains(row, got) || strings.Contains(row, "refresh-") {
					t.Errorf("%s has a token: %s", table, row)
				}
			}
		}
		wantMessage(t, s.Finish(t.Context(), r.target, "p", end), "has ended")
	})
}

// The answer to a sign-in counts once, in time, and only if it comes from who began it.
func TestAnswerOnce(t *testing.T) {
	r := onSQLite(t)
	s, ctx := r.instance("a"), t.Context()
	start := func(person string) string {
		address, err := s.Start(ctx, r.target, person, "")
		if err != nil {
			t.Fatal(err)
		}
		return signintest.Consent(t, address)
	}
	end := start("p")
	wantMessage(t, s.Finish(ctx, r.target, "eve", end), "Somebody else")
	wantMessage(t, s.Finish(ctx, r.target, "", end), "Somebody else")
	other := start("p") // replaces the first
	wantMessage(t, s.Finish(ctx, r.target, "p", end), "has ended")
	if _, _, err := s.Answered(ctx, end); err == nil {
		t.Error("a sign-in that was begun anew can be answered")
	}
	if n, _, err := s.Answered(ctx, other); err != nil || n != r.target.Number {
		t.Errorf("the answer is for %d, %v", n, err)
	}
	r.clock.Store(601)
	wantMessage(t, s.Finish(ctx, r.target, "p", other), "has ended")
	r.clock.Store(0)
	for _, bad := range []string{"", "http://x/", "http://x/?state=a&state=b", "%zz", "http://x/?state=" + url.QueryEscape("\x00")} {
		if _, _, err := s.Answered(ctx, bad); err == nil {
			t.Errorf("%q is an answer", bad)
		}
	}
	// What the operator has begun, the owner may finish in a browser, and nobody else.
	end = start("")
	wantMessage(t, s.Finish(ctx, r.target, "eve", end), "Somebody else")
	if err := s.Finish(ctx, r.target, "p", end); err != nil {
		t.Error(err)
	}
	if r.as.Count("POST /token") != 1 {
		t.Errorf("%d codes were sent", r.as.Count("POST /token"))
	}
}

// Answers that name another issuer are refused before a code is sent anywhere: an authorization
// server may not collect codes of another one (RFC 9207 §1).
func TestMixUp(t *testing.T) {
	honest, evil := onSQLite(t), onSQLite(t)
	s := honest.instance("a")
	evil.as.Set(func(e *signintest.Server) { e.Iss = honest.as.URL })
	es := evil.instance("a")
	address, err := es.Start(t.Context(), evil.target, "p", "")
	if err != nil {
		t.Fatal(err)
	}
	wantMessage(t, es.Finish(t.Context(), evil.target, "p", signintest.Consent(t, address)), "mixed them up")
	if st, err := es.Status(t.Context(), evil.target); err != nil || st.Pending || st.SignedIn {
		t.Errorf("after the wrong answer: %+v, %v", st, err)
	}
	if _, err = s.Start(t.Context(), honest.target, "p", ""); err != nil {
		t.Fatal(err)
	}
	if n := evil.as.Count("POST /token") + honest.as.Count("POST /token"); n != 0 {
		t.Errorf("%d codes were sent", n)
	}
}

// Tokens are refreshed at 80 % of their life and when the server refuses one, once for all requests
// of all instances.
func TestRefreshOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := newRig(t, o)
		first := r.instance("a")
		r.signIn(first)
		sources := []*signin.Source{first.Source(r.target), r.instance("b").Source(r.target), r.instance("c").Source(r.target)}
		old := token(t, sources[0])
		all := func(get func(*signin.Source) (string, error)) string {
			t.Helper()
			got := make([]string, 30)
			var wg sync.WaitGroup
			for i := range got {
				wg.Go(func() {
					var err error
					if got[i], err = get(sources[i%len(sources)]); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for _, g := range got {
				if g != got[0] {
					t.Errorf("tokens differ: %q", got)
					break
				}
			}
			return got[0]
		}
		get := func(c *signin.Source) (string, error) { return c.Token(t.Context()) }
		r.clock.Store(2870)
		if got := all(get); got != old || r.as.Count("POST /token refresh") != 0 {
			t.Errorf("before 80 %%: %q after %q", got, old)
		}
		r.clock.Store(2890)
		fresh := all(get)
		if fresh == old || r.as.Count("POST /token refresh") != 1 {
			t.Errorf("after 80 %%: %q after %q, %d refreshes", fresh, old, r.as.Count("POST /token refresh"))
		}
		r.as.Expire()
		again := all(func(c *signin.Source) (string, error) { return c.Refused(t.Context(), r.refusal(fresh)) })
		if again == fresh || r.as.Count("POST /token refresh") != 2 {
			t.Errorf("after 401: %q after %q, %d refreshes", again, fresh, r.as.Count("POST /token refresh"))
		}
	})
}

// A refresh token that is refused is not tried again; the owner has to sign in again.
func TestRefreshRefused(t *testing.T) {
	r := onSQLite(t)
	s := r.instance("a")
	r.signIn(s)
	a, b := s.Source(r.target), r.instance("b").Source(r.target)
	old := token(t, a)
	r.as.Revoke()
	for _, c := range []*signin.Source{a, b, a, b} {
		_, err := c.Refused(t.Context(), r.refusal(old))
		if needed, _ := errors.AsType[*upstream.SignInError](err); needed == nil || !strings.Contains(needed.Told, "again") {
			t.Errorf("a refusal leads to %v", err)
		}
	}
	if n := r.as.Count("POST /token refresh"); n != 1 || r.need(s) != signin.NeedAgain {
		t.Errorf("%d refreshes were tried, needed is %q", n, r.need(s))
	}
	b.Reload() // as when the database has told it
	for _, c := range []*signin.Source{a, b, r.instance("c").Source(r.target)} {
		got, err := c.Token(t.Context())
		if needed, _ := errors.AsType[*upstream.SignInError](err); got != "" || needed == nil {
			t.Errorf("the token %q would be sent again, %v", got, err)
		}
	}
	r.signIn(s)
	a.Reload()
	if got := token(t, a); got == old || r.need(s) != signin.NeedNothing {
		t.Errorf("after signing in again: %q, needed is %q", got, r.need(s))
	}
}

// A token without a refresh token that is refused, or one that is refused although it is fresh, is
// not sent again either.
func TestTokenRefused(t *testing.T) {
	for name, repeated := range map[string]bool{"no refresh token": false, "fresh": true} {
		t.Run(name, func(t *testing.T) {
			r := onSQLite(t)
			r.as.Set(func(as *signintest.Server) { as.NoRefresh = !repeated })
			s := r.instance("a")
			r.signIn(s)
			c := s.Source(r.target)
			refusal := r.refusal(token(t, c))
			refusal.Repeated = repeated
			for range 2 {
				_, err := c.Refused(t.Context(), refusal)
				if needed, _ := errors.AsType[*upstream.SignInError](err); needed == nil {
					t.Fatalf("a refusal leads to %v", err)
				}
			}
			if got, err := c.Token(t.Context()); got != "" || err == nil || r.need(s) != signin.NeedAgain {
				t.Errorf("the token %q would be sent again, needed is %q", got, r.need(s))
			}
		})
	}
}

// This installation registers once at a server, whatever becomes of its sign-ins, until the server
// has forgotten it.
func TestRegistrationIsKept(t *testing.T) {
	r := onSQLite(t)
	s, ctx := r.instance("a"), t.Context()
	begin := func(s *signin.Service) string {
		t.Helper()
		address, err := s.Start(ctx, r.target, "p", "")
		if err != nil {
			t.Fatal(err)
		}
		return address
	}
	want := func(n int, when string) {
		t.Helper()
		if got := r.as.Count("POST /register"); got != n {
			t.Errorf("%s: %d registrations instead of %d", when, got, n)
		}
	}
	r.signIn(s)
	begin(s) // and never answered
	r.signIn(r.instance("b"))
	if err := s.Forget(ctx, r.target); err != nil {
		t.Fatal(err)
	}
	r.signIn(s)
	r.as.Revoke()
	c := s.Source(r.target)
	if _, err := c.Refused(ctx, r.refusal(token(t, c))); err == nil {
		t.Error("a revoked grant is refreshed")
	}
	r.signIn(s)
	want(1, "after five sign-ins")

	end := signintest.Consent(t, begin(s))
	r.as.ForgetClients()
	wantMessage(t, s.Finish(ctx, r.target, "p", end), "invalid_client")
	r.signIn(s)
	want(2, "when the server says invalid_client")

	r.as.ForgetClients()
	for range 3 { // the server tells only the person, so that there are no answers
		begin(s)
	}
	want(2, "after three sign-ins that came to nothing")
	r.signIn(s)
	want(3, "after three more")
}

// Signing out withdraws the tokens at their server, and so does another sign-in. If the server
// fails, one is signed out nevertheless.
func TestTokensAreRevoked(t *testing.T) {
	r := onSQLite(t)
	s, ctx := r.instance("a"), t.Context()
	r.signIn(s)
	first := token(t, s.Source(r.target))
	r.signIn(s)
	second := token(t, s.Source(r.target))
	if r.as.Count("POST /revoke "+first) != 1 || r.as.Count("POST /revoke refresh") != 1 || second == first {
		t.Errorf("the tokens of the first sign-in were not revoked: %q, %q", first, second)
	}
	if err := s.Forget(ctx, r.target); err != nil {
		t.Fatal(err)
	}
	if r.as.Count("POST /revoke "+second) != 1 || r.as.Count("POST /revoke") != 4 {
		t.Errorf("signing out made %d revocations", r.as.Count("POST /revoke"))
	}
	st, err := s.Status(ctx, r.target)
	if err != nil || st.Need != signin.NeedOut || st.SignedIn {
		t.Errorf("after signing out: %+v, %v", st, err)
	}
	_, err = s.Source(r.target).Token(ctx)
	if needed, _ := errors.AsType[*upstream.SignInError](err); needed == nil || !strings.Contains(needed.Told, "signed out") {
		t.Errorf("after signing out, a call is refused with %v", err)
	}
	r.signIn(s)
	r.as.ForgetClients()
	if err := s.Forget(ctx, r.target); err != nil || r.need(s) != signin.NeedOut {
		t.Errorf("signing out of a server that fails: %v", err)
	}
}

// A person who declines is told so.
func TestDeclined(t *testing.T) {
	r := onSQLite(t)
	s := r.instance("a")
	address, err := s.Start(t.Context(), r.target, "p", "")
	if err != nil {
		t.Fatal(err)
	}
	end, err := url.Parse(signintest.Consent(t, address))
	if err != nil {
		t.Fatal(err)
	}
	q := end.Query()
	q.Del("code")
	q.Set("error", "access_denied")
	end.RawQuery = q.Encode()
	wantMessage(t, s.Finish(t.Context(), r.target, "p", end.String()), "has declined")
}

// While the authorization server fails, a token is used for as long as it lives, and the server is
// left alone for a while.
func TestRefreshLater(t *testing.T) {
	r := onSQLite(t)
	s := r.instance("a")
	r.signIn(s)
	c := s.Source(r.target)
	old := token(t, c)
	r.as.Set(func(as *signintest.Server) {
		as.Serve = func(w http.ResponseWriter, q *http.Request) bool {
			if q.URL.Path == "/token" {
				w.WriteHeader(http.StatusBadGateway)
				return true
			}
			return false
		}
	})
	r.clock.Store(2890)
	for range 5 {
		if got := token(t, c); got != old {
			t.Errorf("the token is %q", got)
		}
	}
	if n := r.as.Count("POST /token refresh"); n != 1 {
		t.Errorf("%d refreshes were tried", n)
	}
	if _, err := c.Refused(t.Context(), r.refusal(old)); err == nil || r.need(s) != signin.NeedNothing {
		t.Errorf("a refusal meanwhile leads to %v, needed is %q", err, r.need(s))
	}
	r.as.Set(func(as *signintest.Server) { as.Serve = nil })
	r.clock.Store(2890 + 31)
	if got := token(t, c); got == old {
		t.Error("it is not refreshed afterwards")
	}
}

// A server that demands rights gets them by the owner's consent only, and is not asked for them
// more than three times.
func TestRights(t *testing.T) {
	r := onSQLite(t)
	s, ctx := r.instance("a"), t.Context()
	r.signIn(s)
	c := s.Source(r.target)
	refusal := func() upstream.Refusal {
		return upstream.Refusal{Token: token(t, c), Status: http.StatusForbidden,
			Challenges: []string{`Bearer error="insufficient_scope", scope="write"`}}
	}
	before := r.as.Count("")
	for range 3 {
		_, err := c.Refused(ctx, refusal())
		if needed, _ := errors.AsType[*upstream.SignInError](err); needed == nil || needed.Final ||
			!strings.Contains(needed.Told, "write") || r.need(s) != signin.NeedRights {
			t.Fatalf("a refusal leads to %v", err)
		}
		if r.as.Count("") != before {
			t.Error("rights are asked for without the owner")
		}
		r.signIn(s)
		if st, err := s.Status(ctx, r.target); err != nil || len(st.Scopes) != 1 || st.Scopes[0] != "write" {
			t.Errorf("granted is %q, %v", st.Scopes, err)
		}
		before = r.as.Count("")
		c.Reload()
	}
	_, err := c.Refused(ctx, refusal())
	if needed, _ := errors.AsType[*upstream.SignInError](err); needed == nil || !needed.Final {
		t.Errorf("after three times: %v", err)
	}
	if got, err := c.Refused(ctx, upstream.Refusal{Token: "x", Status: http.StatusForbidden}); got != "" || err != nil {
		t.Errorf("a plain 403 leads to %q, %v", got, err)
	}
}

// The upstream of an untrusted person cannot name a private address as its authorization server.
func TestGuarded(t *testing.T) {
	r := onSQLite(t)
	photos := fetch.New(fetch.Options{})
	s := signin.New(signin.Options{Store: r.db, Box: newBox(), Logger: slog.New(slog.DiscardHandler), Dial: photos.Dial,
		Link: func(int64) string { return "" }, Identity: func(string) signin.Identity { return signin.Identity{} }})
	r.target.Untrusted = true
	_, err := s.Start(t.Context(), r.target, "p", "")
	wantMessage(t, err, "cannot be reached")
	if !fetch.IsForbidden(err) || r.as.Count("") != 0 {
		t.Errorf("%v, after %d requests", err, r.as.Count(""))
	}
	if _, err := s.Source(r.target).Refused(t.Context(), r.refusal("")); err == nil || r.as.Count("") != 0 {
		t.Errorf("a refusal leads to %v, after %d requests", err, r.as.Count(""))
	}
}

// An upstream with another address has no tokens of the old one.
func TestAddressOfTokens(t *testing.T) {
	r := onSQLite(t)
	s := r.instance("a")
	r.signIn(s)
	moved := r.target
	moved.Settings.URL = "https://evil.example/mcp"
	if got := token(t, s.Source(moved)); got != "" {
		t.Errorf("the token %q would be sent elsewhere", got)
	}
}

// A server that wants a token that people paste is not taken for one to sign in to.
func TestPlainToken(t *testing.T) {
	r := onSQLite(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	r.target.Settings.URL = plain.URL + "/mcp"
	got, err := r.instance("a").Source(r.target).Refused(t.Context(), upstream.Refusal{Status: http.StatusUnauthorized})
	if got != "" || err != nil {
		t.Errorf("it leads to %q, %v", got, err)
	}
}

// A tool server that redirects does not make us send the token elsewhere.
func TestRedirect(t *testing.T) {
	r := onSQLite(t)
	thief := signintest.New(t, nil)
	var stolen atomic.Int32
	thief.Serve = func(w http.ResponseWriter, q *http.Request) bool {
		if q.Header.Get("Authorization") != "" {
			stolen.Add(1)
		}
		w.WriteHeader(http.StatusTeapot)
		return true
	}
	var redirects atomic.Bool
	r.as.Set(func(as *signintest.Server) {
		as.Serve = func(w http.ResponseWriter, q *http.Request) bool {
			if redirects.Load() && q.URL.Path == "/mcp" {
				http.Redirect(w, q, thief.URL+"/mcp", http.StatusTemporaryRedirect)
				return true
			}
			return false
		}
	})
	s := r.instance("a")
	r.signIn(s)
	redirects.Store(true)
	_, err := upstream.Check(t.Context(), upstream.Spec{ID: "u", Slug: "u", Settings: r.target.Settings},
		upstream.Options{Logger: slog.New(slog.DiscardHandler),
			Tokens: func(upstream.Spec) upstream.Tokens { return s.Source(r.target) }})
	if err == nil || stolen.Load() != 0 {
		t.Errorf("the redirect leads to %v, and %d tokens", err, stolen.Load())
	}
	redirects.Store(false)
	if _, err := s.Source(r.target).Token(context.Background()); err != nil {
		t.Error(err)
	}
}
