package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/config"
	"patchbay/internal/netx"
	"patchbay/internal/plug/mcp/sim"
	"patchbay/internal/plug/mcp/upstream/signin/signintest"
)

// toolsWithSignIn is a tool server to which one has to sign in.
func toolsWithSignIn(t *testing.T) *signintest.Server {
	t.Helper()
	tools, err := sim.Start()
	must(t, err)
	t.Cleanup(func() { must(t, tools.Close()) })
	to, err := url.Parse(tools.URL)
	must(t, err)
	to.Path = ""
	return signintest.New(t, httputil.NewSingleHostReverseProxy(to))
}

// operator gives the person of a server a key for the API, and returns a function that uses it.
func (s *oauthServer) operator() func(method, path, body string, into any) int {
	s.t.Helper()
	_, key, err := s.base.Accounts.AddKey(s.t.Context(), account.NewKey{Person: s.person, Name: "operator",
		Scopes: []string{account.ScopeOperator}})
	must(s.t, err)
	return func(method, path, body string, into any) int {
		s.t.Helper()
		req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/api/v1"+path, strings.NewReader(body))
		must(s.t, err)
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		must(s.t, err)
		defer resp.Body.Close()
		if into != nil {
			must(s.t, json.NewDecoder(resp.Body).Decode(into))
		}
		return resp.StatusCode
	}
}

// await waits until an upstream is in a state.
func await(t *testing.T, api func(string, string, string, any) int, path, state string) {
	t.Helper()
	for last := ""; ; {
		var u struct {
			State   string `json:"state"`
			Problem string `json:"problem"`
		}
		api(http.MethodGet, path, "", &u)
		if u.State == state {
			return
		}
		last = fmt.Sprint(u)
		if err := netx.Wait(t.Context(), 20*time.Millisecond); err != nil {
			t.Fatalf("it is %s: %v", last, err)
		}
	}
}

// enter signs in to the console.
func (s *oauthServer) enter() {
	s.t.Helper()
	s.page(http.MethodPost, s.url+"/signin", url.Values{"name": {"ada"}, "password": {"correct horse"}, "next": {"/"}})
}

// goTo returns where the page of a sign-in leads.
func goTo(t *testing.T, text, origin string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, `href="`+origin)
	address, _, _ := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("the page leads nowhere: %.2000s", text)
	}
	return origin + strings.ReplaceAll(address, "&amp;", "&")
}

// A person adds a server, signs in to it from its page, and calls its tools. When the sign-in ends,
// the tools stay listed, and calls say what is to be done; signing in again helps at once.
func TestUpstreamSignIn(t *testing.T) {
	as := toolsWithSignIn(t)
	s := newOAuthServer(t, Options{})
	s.enter()
	path, text, _ := s.page(http.MethodPost, s.url+"/tools/upstreams", url.Values{"way": {"url"}, "name": {"notion"},
		"url": {as.URL + "/mcp"}})
	if !strings.HasPrefix(path, "/tools/upstreams/") {
		t.Fatalf("adding it shows %s: %.2000s", path, text)
	}
	id := strings.TrimPrefix(path, "/tools/upstreams/")
	api := s.operator()
	await(t, api, "/upstreams/"+id, "failed")
	if _, text, _ = s.page(http.MethodGet, s.url+path, nil); !strings.Contains(text, path+"/signin") {
		t.Fatalf("the page has no button: %.3000s", text)
	}
	signIn := func() {
		t.Helper()
		_, text, _ := s.page(http.MethodPost, s.url+path+"/signin", url.Values{})
		end := signintest.Consent(t, goTo(t, text, as.URL))
		if !strings.HasPrefix(end, s.url+"/oauth/upstream?") {
			t.Fatalf("the sign-in leads to %s", end)
		}
		if at, text, _ := s.page(http.MethodGet, end, nil); at != path {
			t.Fatalf("the sign-in ends at %s: %.2000s", at, text)
		}
		await(t, api, "/upstreams/"+id, "ready")
	}
	signIn()
	call := func() string {
		t.Helper()
		var out json.RawMessage
		api(http.MethodPost, "/tools/notion_get_temperature/call", `{"arguments":{"room":"kitchen"}}`, &out)
		return string(out)
	}
	if got := call(); !strings.Contains(got, "21.5") {
		t.Errorf("a call returns %s", got)
	}
	as.Expire() // the token is refreshed without anybody noticing
	if got := call(); !strings.Contains(got, "21.5") {
		t.Errorf("a call after the token has expired returns %s", got)
	}
	as.Revoke()
	if got := call(); !strings.Contains(got, "sign in again: "+s.url+path) {
		t.Errorf("a call without a sign-in returns %s", got)
	}
	s.wantsSignIn(api, "/upstreams/"+id, "no longer accepts")
	dead := as.Count("POST /mcp")
	for range 3 {
		if got := call(); !strings.Contains(got, "sign in again: "+s.url+path) {
			t.Errorf("another call without a sign-in returns %s", got)
		}
	}
	if n := as.Count("POST /mcp") - dead; n != 0 {
		t.Errorf("%d requests with a dead token were sent", n)
	}
	var list struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if api(http.MethodGet, "/tools", "", &list); !strings.Contains(fmt.Sprint(list), "notion_get_temperature") {
		t.Errorf("the tools are %v", list)
	}
	signIn()
	if got := call(); !strings.Contains(got, "21.5") {
		t.Errorf("a call after signing in again returns %s", got)
	}
	s.page(http.MethodPost, s.url+path+"/signout", url.Values{})
	s.wantsSignIn(api, "/upstreams/"+id, "has signed out")
	if got := call(); !strings.Contains(got, "who has signed out, to sign in: "+s.url+path) {
		t.Errorf("a call after signing out returns %s", got)
	}

	// Declining leads back to the page, which says so and has the button.
	_, text, _ = s.page(http.MethodPost, s.url+path+"/signin", url.Values{})
	end, err := url.Parse(signintest.Consent(t, goTo(t, text, as.URL)))
	must(t, err)
	q := end.Query()
	q.Del("code")
	q.Set("error", "access_denied")
	end.RawQuery = q.Encode()
	if _, text, _ = s.page(http.MethodGet, end.String(), nil); !strings.Contains(text, "has declined") ||
		!strings.Contains(text, `action="`+path+`/signin"`) {
		t.Errorf("declining ends at %.3000s", text)
	}
}

// wantsSignIn checks that an upstream is shown at once as one that wants a sign-in.
func (s *oauthServer) wantsSignIn(api func(string, string, string, any) int, path, why string) {
	s.t.Helper()
	var u struct {
		State       string `json:"state"`
		Problem     string `json:"problem"`
		NeedsSignIn bool   `json:"needs_sign_in"`
	}
	api(http.MethodGet, path, "", &u)
	if u.State != "failed" || !u.NeedsSignIn || !strings.Contains(u.Problem, why) {
		s.t.Errorf("without a sign-in it is shown as %+v", u)
	}
}

// Through the API, the address at the end of a sign-in is passed back. Only who began it may.
func TestUpstreamSignInByAPI(t *testing.T) {
	as := toolsWithSignIn(t)
	s := newOAuthServer(t, Options{})
	api := s.operator()
	var added struct {
		ID    int64
		Found struct {
			NeedsSignIn bool `json:"needs_sign_in"`
		}
	}
	if status := api(http.MethodPost, "/upstreams", `{"name":"notion","kind":"mcp","settings":{"url":"`+as.URL+`/mcp"}}`,
		&added); status != http.StatusCreated && status != http.StatusOK || !added.Found.NeedsSignIn {
		t.Fatalf("adding it returns %d, %+v", status, added)
	}
	path := fmt.Sprint("/upstreams/", added.ID)
	var started struct{ Address string }
	api(http.MethodPost, path+"/signin", "{}", &started)
	end := signintest.Consent(t, started.Address)
	answer, err := json.Marshal(map[string]string{"address": end})
	must(t, err)

	eve, err := s.base.Accounts.AddPerson(t.Context(), "eve", account.RoleAdmin, "en", "correct horse")
	must(t, err)
	ada := s.person
	s.person = eve.ID
	if status := s.operator()(http.MethodPost, path+"/signin/answer", string(answer), nil); status < 400 {
		t.Errorf("somebody else's answer returns %d", status)
	}
	s.person = ada
	if status := api(http.MethodPost, path+"/signin/answer", string(answer), nil); status != http.StatusOK {
		t.Errorf("the answer returns %d", status)
	}
	await(t, api, path, "ready")
	if status := api(http.MethodPost, path+"/signin/answer", string(answer), nil); status != http.StatusConflict {
		t.Errorf("the answer once more returns %d", status)
	}
}

// One installation signs in to the tools of another one, whose owner consents.
func TestUpstreamSignInToPatchbay(t *testing.T) {
	far, near := newOAuthServer(t, Options{}), newOAuthServer(t, Options{})
	tools, err := sim.Start()
	must(t, err)
	t.Cleanup(func() { must(t, tools.Close()) })
	farAPI, api := far.operator(), near.operator()
	farAPI(http.MethodPost, "/upstreams", `{"name":"home","kind":"mcp","settings":{"url":"`+tools.URL+`"}}`, nil)
	await(t, farAPI, "/upstreams/1", "ready")
	var added struct{ ID int64 }
	api(http.MethodPost, "/upstreams", `{"name":"far","kind":"mcp","settings":{"url":"`+far.url+`/mcp"}}`, &added)
	path := fmt.Sprint("/upstreams/", added.ID)
	var started struct{ Address string }
	api(http.MethodPost, path+"/signin", "{}", &started)
	back := far.consent(started.Address, allowAll)
	answer, err := json.Marshal(map[string]string{"address": "http://x/?" + back.Encode()})
	must(t, err)
	if status := api(http.MethodPost, path+"/signin/answer", string(answer), nil); status != http.StatusOK {
		t.Fatalf("the answer returns %d", status)
	}
	await(t, api, path, "ready")
	var out json.RawMessage
	if api(http.MethodPost, "/tools/far_home_get_temperature/call", `{"arguments":{"room":"kitchen"}}`, &out); !strings.Contains(string(out),
		"21.5") {
		t.Errorf("a call returns %s", out)
	}
}

// Only an installation that others can reach has a document.
func TestIdentity(t *testing.T) {
	for own, document := range map[string]bool{
		"https://patchbay.example.com": true, "https://203.0.113.7": true, "http://patchbay.example.com": false,
		"https://patchbay.local": false, "https://192.168.1.5": false, "https://localhost": false,
		"http://127.0.0.1:3000": false,
	} {
		id := identity(own)
		if (id.Document != "") != document || id.Redirect != own+"/oauth/upstream" {
			t.Errorf("at %s: %+v", own, id)
		}
	}
	c := &config.Config{Listen: ":3000"}
	if got := ownOrigin(c, "[::]:3000"); got != "http://127.0.0.1:3000" {
		t.Errorf("the origin is %s", got)
	}
}
