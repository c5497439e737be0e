package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/bus/bustest"
	"patchbay/internal/netx"
	"patchbay/internal/plug/mcp/sim"
	"patchbay/internal/plug/mcp/upstream/signin/signintest"
	"patchbay/internal/seal"
	"patchbay/internal/store/storetest"
)

// sharedTools is a tool server with a sign-in that notes the token of each call.
type sharedTools struct {
	*signintest.Server
	mu    sync.Mutex
	calls []string // tokens of tools/call
	all   []string // tokens of all requests
}

func newSharedTools(t *testing.T) *sharedTools {
	t.Helper()
	tools, err := sim.Start()
	must(t, err)
	t.Cleanup(func() { must(t, tools.Close()) })
	to, err := url.Parse(tools.URL)
	must(t, err)
	to.Path = ""
	s, proxy := &sharedTools{}, httputil.NewSingleHostReverseProxy(to)
	s.Server = signintest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.mu.Lock()
		s.all = append(s.all, token)
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			s.calls = append(s.calls, token)
		}
		s.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	return s
}

// lastCall returns the token of the last call, and how many there were.
func (s *sharedTools) lastCall() (token string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) == 0 {
		return "", 0
	}
	return s.calls[len(s.calls)-1], len(s.calls)
}

// user is a person who uses the API of an installation.
type user struct {
	t    *testing.T
	id   string
	name string
	key  string
}

func (s *oauthServer) user(name, role string, scopes ...string) *user {
	s.t.Helper()
	p, err := s.base.Accounts.AddPerson(s.t.Context(), name, role, "en", "correct horse")
	must(s.t, err)
	return s.userOf(p.ID, name, scopes...)
}

func (s *oauthServer) userOf(id, name string, scopes ...string) *user {
	s.t.Helper()
	_, key, err := s.base.Accounts.AddKey(s.t.Context(), account.NewKey{Person: id, Name: "api", Scopes: scopes})
	must(s.t, err)
	return &user{s.t, id, name, key}
}

// ask sends a request to an installation, and returns the status and the text.
func (u *user) ask(s *oauthServer, method, path, body string) (int, string) {
	u.t.Helper()
	req, err := http.NewRequestWithContext(u.t.Context(), method, s.url+"/api/v1"+path, strings.NewReader(body))
	must(u.t, err)
	req.Header.Set("Authorization", "Bearer "+u.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	must(u.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(u.t, err)
	return resp.StatusCode, string(text)
}

// ok is ask for what has to succeed.
func (u *user) ok(s *oauthServer, method, path, body string) string {
	u.t.Helper()
	status, text := u.ask(s, method, path, body)
	if status/100 != 2 {
		u.t.Fatalf("%s: %s %s returns %d: %s", u.name, method, path, status, text)
	}
	return text
}

// begin begins a sign-in, consents, and returns the answer.
func (u *user) begin(s *oauthServer, path string) string {
	u.t.Helper()
	var started struct{ Address string }
	must(u.t, json.Unmarshal([]byte(u.ok(s, http.MethodPost, path+"/signin", "{}")), &started))
	answer, err := json.Marshal(map[string]string{"address": signintest.Consent(u.t, started.Address)})
	must(u.t, err)
	return string(answer)
}

func (u *user) signIn(s *oauthServer, path string) {
	u.t.Helper()
	u.ok(s, http.MethodPost, path+"/signin/answer", u.begin(s, path))
}

const sharedTool = "notion_get_temperature"

func (u *user) has(s *oauthServer) bool {
	u.t.Helper()
	return strings.Contains(u.ok(s, http.MethodGet, "/tools", ""), sharedTool)
}

// awaitTools waits until a person has the tools, or has them no more, and returns how long that
// took.
func (u *user) awaitTools(s *oauthServer, want bool) time.Duration {
	u.t.Helper()
	began := time.Now()
	for u.has(s) != want {
		if err := netx.Wait(u.t.Context(), 10*time.Millisecond); err != nil {
			u.t.Fatalf("%s has the tools: %v, %v", u.name, !want, err)
		}
	}
	return time.Since(began)
}

func (u *user) call(s *oauthServer) string {
	u.t.Helper()
	_, text := u.ask(s, http.MethodPost, "/tools/"+sharedTool+"/call", `{"arguments":{"room":"kitchen"}}`)
	return text
}

// callsAs makes a call, and returns the token that it carried.
func (u *user) callsAs(s *oauthServer, tools *sharedTools) string {
	u.t.Helper()
	_, before := tools.lastCall()
	if text := u.call(s); !strings.Contains(text, "21.5") {
		u.t.Fatalf("a call of %s returns %s", u.name, text)
	}
	token, n := tools.lastCall()
	if n != before+1 {
		u.t.Errorf("%d calls reached the server", n-before)
	}
	return token
}

// A tool server is shared. Each person signs in alone, and each call carries the caller's own
// token. Whoever has not signed in has no tools, and what one does ends nothing of the others.
func TestSharedUpstream(t *testing.T) {
	as := newSharedTools(t)
	s := newOAuthServer(t, Options{})
	root := s.userOf(s.person, "ada", account.ScopeOperator, account.ScopeAdmin)
	bob, eve := s.user("bob", account.RoleMember, account.ScopeOperator), s.user("eve", account.RoleMember,
		account.ScopeOperator)
	const path = "/upstreams/1"
	root.ok(s, http.MethodPost, "/upstreams", `{"name":"notion","kind":"mcp","settings":{"url":"`+as.URL+
		`/mcp","headers":"{\"X-Team\":\"s3cret-header\"}"}}`)

	if status, _ := bob.ask(s, http.MethodGet, path, ""); status != http.StatusNotFound {
		t.Errorf("before it is shared, bob sees it: %d", status)
	}
	if status, _ := bob.ask(s, http.MethodPost, path+"/signin", "{}"); status != http.StatusNotFound {
		t.Errorf("before it is shared, bob signs in: %d", status)
	}
	for _, u := range []*user{bob, s.userOf(s.person, "ada without admin", account.ScopeOperator)} {
		if status, _ := u.ask(s, http.MethodPut, path+"/sharing", `{"everybody":true}`); status/100 == 2 {
			t.Errorf("%s shares it: %d", u.name, status)
		}
	}
	root.ok(s, http.MethodPut, path+"/sharing", `{"users":["bob","eve"]}`)

	// It is offered, without the settings and the secrets of its owner.
	for _, at := range []string{"/upstreams", path} {
		text := bob.ok(s, http.MethodGet, at, "")
		if !strings.Contains(text, `"needs_sign_in":true`) || !strings.Contains(text, `"member":true`) ||
			!strings.Contains(text, `"where":"`+strings.TrimPrefix(as.URL, "http://")+`"`) {
			t.Errorf("bob sees %s", text)
		}
		for _, secret := range []string{"s3cret", "/mcp", "X-Team", "signed_in_users", `"users"`} {
			if strings.Contains(text, secret) {
				t.Errorf("bob sees %s in %s", secret, text)
			}
		}
	}
	for _, do := range [][3]string{
		{http.MethodPatch, path, `{"settings":{"url":"https://evil.example/mcp"}}`},
		{http.MethodDelete, path, ""},
		{http.MethodGet, path + "/diff", ""},
		{http.MethodPost, path + "/check", `{"settings":{}}`},
		{http.MethodPost, path + "/approve", `{"changes":[{"kind":"tool","name":"x","fingerprint":"y"}]}`},
		{http.MethodPut, path + "/sharing", `{"everybody":true}`},
	} {
		if status, text := bob.ask(s, do[0], do[1], do[2]); status/100 == 2 {
			t.Errorf("bob may %s %s: %s", do[0], do[1], text)
		}
	}
	if bob.has(s) || eve.has(s) {
		t.Error("there are tools before anybody has signed in")
	}

	// Only who began a sign-in finishes it.
	answer := bob.begin(s, path)
	for _, u := range []*user{eve, root} {
		if status, text := u.ask(s, http.MethodPost, path+"/signin/answer", answer); status != http.StatusConflict {
			t.Errorf("%s finishes bob's sign-in: %d %s", u.name, status, text)
		}
	}
	if status, _ := eve.ask(s, http.MethodPost, path+"/signin", `{"user":"bob"}`); status != http.StatusForbidden {
		t.Errorf("eve begins a sign-in of bob: %d", status)
	}
	if status, _ := root.ask(s, http.MethodPost, path+"/signin", `{"user":"bob"}`); status != http.StatusForbidden {
		t.Errorf("an admin begins a sign-in of bob: %d", status)
	}
	bob.ok(s, http.MethodPost, path+"/signin/answer", answer)
	bob.awaitTools(s, true)
	of := map[*user]string{bob: bob.callsAs(s, as)}
	if eve.has(s) || root.has(s) {
		t.Error("the others have tools by bob's sign-in")
	}
	if text := eve.call(s); strings.Contains(text, "21.5") {
		t.Errorf("eve, who has not signed in, calls: %s", text)
	}

	eve.signIn(s, path)
	eve.awaitTools(s, true)
	root.signIn(s, path)
	root.awaitTools(s, true)
	of[eve], of[root] = eve.callsAs(s, as), root.callsAs(s, as)
	if of[bob] == of[eve] || of[eve] == of[root] || of[bob] == of[root] {
		t.Errorf("the tokens are %v", of)
	}
	var wg sync.WaitGroup
	for range 5 {
		for u := range of {
			wg.Go(func() { u.call(s) })
		}
	}
	wg.Wait()
	counts := map[string]int{}
	as.mu.Lock()
	for _, token := range as.calls {
		counts[token]++
	}
	as.mu.Unlock()
	for u, token := range of {
		if counts[token] != 6 {
			t.Errorf("%d calls carried the token of %s", counts[token], u.name)
		}
	}
	if n := as.Count("POST /register"); n != 1 {
		t.Errorf("Patchbay registered %d times", n)
	}
	if text := root.ok(s, http.MethodGet, path, ""); !strings.Contains(text, `"signed_in":2`) ||
		!strings.Contains(text, `"users":["bob","eve"]`) {
		t.Errorf("its owner sees %s", text)
	}

	// A member cannot have another one of that name, and settings cannot make all act as the owner.
	if status, text := bob.ask(s, http.MethodPost, "/upstreams", `{"name":"notion","kind":"mcp","unchecked":true,`+
		`"settings":{"url":"https://x.example/mcp"}}`); status != http.StatusConflict || !strings.Contains(text,
		"shared with you") {
		t.Errorf("bob adds another one: %d %s", status, text)
	}
	for _, set := range []string{`"token":"t0ken"`, `"headers":"{\"X-Api-Key\":\"x\"}"`,
		`"url":"` + as.URL + `/mcp?key=x"`, `"headers":"{\"Authorization\":\"Bearer x\"}"`,
		`"oauth_grant":"client_credentials","client_id":"x","client_secret":"y"`} {
		if status, text := root.ask(s, http.MethodPatch, path, `{"settings":{`+set+`}}`); status != http.StatusBadRequest ||
			!strings.Contains(text, "signs in to a shared tool server alone") {
			t.Errorf("setting %s returns %d %s", set, status, text)
		}
	}

	// Signing out ends one's own only.
	eve.ok(s, http.MethodDelete, path+"/signin", "")
	eve.awaitTools(s, false)
	if bob.callsAs(s, as) != of[bob] || as.Count("POST /revoke "+of[bob]) != 0 {
		t.Error("bob's sign-in has changed")
	}
	eve.signIn(s, path)
	eve.awaitTools(s, true)

	// Who is no longer named has nothing any more, and neither has anybody when it is not shared.
	root.ok(s, http.MethodPut, path+"/sharing", `{"users":["bob"]}`)
	eve.awaitTools(s, false)
	if status, _ := eve.ask(s, http.MethodGet, path, ""); status != http.StatusNotFound {
		t.Errorf("eve still sees it: %d", status)
	}
	if _, err := s.base.Store.UpstreamSignIns.Find(t.Context(), 1, eve.id); err == nil {
		t.Error("eve's sign-in is kept")
	}
	if bob.callsAs(s, as) != of[bob] {
		t.Error("bob's token has changed")
	}
	answer = bob.begin(s, path)
	root.ok(s, http.MethodPut, path+"/sharing", `{}`)
	bob.awaitTools(s, false)
	if status, _ := bob.ask(s, http.MethodPost, path+"/signin/answer", answer); status/100 == 2 {
		t.Errorf("bob finishes a sign-in after the end: %d", status)
	}
	if root.callsAs(s, as) != of[root] {
		t.Error("the owner's token has changed")
	}
	root.ok(s, http.MethodPut, path+"/sharing", `{"everybody":true}`)
	if bob.has(s) {
		t.Error("bob's old sign-in is back")
	}
	bob.signIn(s, path)
	bob.awaitTools(s, true)
	must(t, s.base.Accounts.SetRole(t.Context(), s.user("zoe", account.RoleAdmin, account.ScopeAdmin).id,
		account.RoleAdmin))
	must(t, s.base.Accounts.SetRole(t.Context(), s.person, account.RoleMember))
	bob.awaitTools(s, false) // what somebody shares who is no admin any more is not shared
	must(t, s.base.Accounts.SetRole(t.Context(), s.person, account.RoleAdmin))
	if _, err := s.base.Store.UpstreamSignIns.Find(t.Context(), 1, bob.id); err == nil {
		t.Error("the sign-in at a server whose owner was no admin for a while is kept")
	}
	bob.signIn(s, path)
	bob.awaitTools(s, true)
	must(t, s.base.Accounts.RemovePerson(t.Context(), bob.id))
	if _, err := s.base.Store.UpstreamSignIns.Find(t.Context(), 1, bob.id); err == nil {
		t.Error("the sign-in of a removed person is kept")
	}
	events := root.ok(s, http.MethodGet, "/admin-events", "")
	for _, action := range []string{"upstream.shared", "upstream.unshared", "upstream.signed_in"} {
		if !strings.Contains(events, action) {
			t.Errorf("the events have no %s: %s", action, events)
		}
	}
}

// On two instances, one's connections and their end are the same.
func TestSharedUpstreamOnTwoInstances(t *testing.T) {
	as := newSharedTools(t)
	urls, o, secret := strings.Split(bustest.Cluster(t, 2), ","), storetest.Postgres(t), seal.NewSecret()
	with := func(bus string) map[string]string {
		return map[string]string{"database.url": o.URL, "bus.url": bus, "secret": secret}
	}
	one := newOAuthServerWith(t, Options{}, with(urls[0]))
	two := serveOAuth(t, Options{}, with(urls[1]))
	root := one.userOf(one.person, "ada", account.ScopeOperator, account.ScopeAdmin)
	bob, eve := one.user("bob", account.RoleMember, account.ScopeOperator), one.user("eve", account.RoleMember,
		account.ScopeOperator)
	const path = "/upstreams/1"
	root.ok(one, http.MethodPost, "/upstreams", `{"name":"notion","kind":"mcp","settings":{"url":"`+as.URL+`/mcp"}}`)
	root.ok(one, http.MethodPut, path+"/sharing", `{"everybody":true}`)
	// What one instance begins, another one finishes.
	bob.ok(two, http.MethodPost, path+"/signin/answer", bob.begin(one, path))
	eve.ok(one, http.MethodPost, path+"/signin/answer", eve.begin(two, path))
	of := map[string]string{}
	for _, s := range []*oauthServer{one, two} {
		for _, u := range []*user{bob, eve} {
			u.awaitTools(s, true)
			of[fmt.Sprint(s == one, u.name)] = u.callsAs(s, as)
		}
	}
	if of["truebob"] != of["falsebob"] || of["trueeve"] != of["falseeve"] || of["truebob"] == of["trueeve"] {
		t.Errorf("the tokens are %v", of)
	}
	eve.ok(two, http.MethodDelete, path+"/signin", "")
	for _, s := range []*oauthServer{one, two} {
		if took := eve.awaitTools(s, false); took > 5*time.Second { // a second, on a busy machine
			t.Errorf("after %s the connection ended", took)
		}
		bob.callsAs(s, as)
	}
	root.ok(one, http.MethodPut, path+"/sharing", `{}`)
	for _, s := range []*oauthServer{one, two} {
		if took := bob.awaitTools(s, false); took > 5*time.Second {
			t.Errorf("after %s the connection ended", took)
		}
	}
}
