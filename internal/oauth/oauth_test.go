package oauth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/account"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

const home = "http://127.0.0.1:4711/callback"

// A program registers, asks, exchanges its code, refreshes and gives up.
func TestWholeWay(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		id := r.register(home)
		q := request(id, home)
		q.Set("resource", r.url+"/mcp/")
		q.Set("scope", "mcp offline_access other")
		q.Set("prompt", "consent")
		got := r.allow(q)
		if got.Get("state") != "s" || got.Get("iss") != r.url || len(got) != 3 {
			t.Errorf("the program gets %v", got)
		}
		first := r.token(exchange(id, home, got.Get("code")))
		if first.Status != http.StatusOK || first.Header.Get("Cache-Control") != "no-store" ||
			first.Body["token_type"] != "Bearer" || first.Body["expires_in"] != 3600.0 ||
			first.Body["scope"] != "mcp offline_access" {
			t.Fatalf("tokens: %d %v", first.Status, first.Body)
		}
		if !r.opens(first.Body["access_token"], account.ScopeMCP) || r.opens(first.Body["access_token"], account.ScopeLearn) ||
			r.opens(first.Body["refresh_token"], account.ScopeMCP) {
			t.Error("the access token opens the wrong endpoints")
		}

		for person, want := range map[string]int{r.person: 1, "": 1, "somebody else": 0} {
			clients, err := r.Store.OAuth.ClientsOf(t.Context(), person)
			if must(t, err); len(clients) != want || want == 1 && clients[id].Name != "a program" {
				t.Errorf("%q has let in %v", person, clients)
			}
		}

		r.pass(time.Hour)
		if r.opens(first.Body["access_token"], account.ScopeMCP) {
			t.Error("an access token lasts for ever")
		}
		second := r.token(refresh(id, first.Body["refresh_token"].(string)))
		if second.Status != http.StatusOK || second.Body["refresh_token"] == first.Body["refresh_token"] {
			t.Fatalf("refreshed: %d %v", second.Status, second.Body)
		}
		// A program that lost the answer asks again.
		r.pass(9 * time.Minute)
		again := r.token(refresh(id, first.Body["refresh_token"].(string)))
		if again.Body["refresh_token"] != second.Body["refresh_token"] ||
			again.Body["access_token"] == second.Body["access_token"] {
			t.Errorf("the same successor is expected: %v, %v", second.Body, again.Body)
		}
		if !r.opens(again.Body["access_token"], account.ScopeMCP) {
			t.Error("the new access token opens nothing")
		}

		out := r.send(http.MethodPost, RevokePath, "application/x-www-form-urlencoded",
			url.Values{"client_id": {id}, "token": {again.Body["access_token"].(string)}}.Encode())
		if out.Status != http.StatusOK || r.opens(again.Body["access_token"], account.ScopeMCP) {
			t.Errorf("after the program gave up: %d", out.Status)
		}
		if out := r.token(refresh(id, second.Body["refresh_token"].(string))); out.Body["error"] != "invalid_grant" {
			t.Errorf("a refresh token of a revoked grant: %d %v", out.Status, out.Body)
		}
	})
}

// A refresh token that is used after its successor ends the whole grant.
func TestReuse(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		id := r.register(home)
		first := r.token(exchange(id, home, r.allow(request(id, home)).Get("code")))
		second := r.token(refresh(id, first.Body["refresh_token"].(string)))
		r.pass(refreshGrace)
		if out := r.token(refresh(id, first.Body["refresh_token"].(string))); out.Body["error"] != "invalid_grant" {
			t.Errorf("an old refresh token: %d %v", out.Status, out.Body)
		}
		if r.opens(second.Body["access_token"], account.ScopeMCP) || len(r.reused) != 1 {
			t.Errorf("the grant goes on; noticed %v", r.reused)
		}
	})
}

// Of two that use a code, both lose.
func TestCodeTwice(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		id := r.register(home)
		code := r.allow(request(id, home)).Get("code")
		first := r.token(exchange(id, home, code))
		if out := r.token(exchange(id, home, code)); out.Status != http.StatusBadRequest ||
			out.Body["error"] != "invalid_grant" {
			t.Errorf("a code that was used: %d %v", out.Status, out.Body)
		}
		if r.opens(first.Body["access_token"], account.ScopeMCP) {
			t.Error("the tokens of the first use stay valid")
		}

		code = r.allow(request(id, home)).Get("code")
		var both sync.WaitGroup
		status := make([]int, 8)
		for i := range status {
			both.Go(func() { status[i] = r.token(exchange(id, home, code)).Status })
		}
		both.Wait()
		slices.Sort(status)
		if status[0] != http.StatusOK || status[1] != http.StatusBadRequest {
			t.Errorf("the same code at the same time: %v", status)
		}
	})
}

// Who signs out everywhere else, or gets another password, ends the access of programs too, also of
// those that have a code only. Keys stay.
func TestSignOutEverywhere(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		id := r.register(home)
		_, own, err := r.accounts.AddKey(t.Context(), account.NewKey{Person: r.person, Name: "own", Scopes: []string{"mcp"}})
		must(t, err)
		for name, end := range map[string]func() error{
			"sign out": func() error { return r.accounts.SignOutOthers(t.Context(), r.person, "this") },
			"password": func() error { return r.accounts.SetPassword(t.Context(), r.person, "another horse") },
		} {
			out := r.token(exchange(id, home, r.allow(request(id, home)).Get("code")))
			code := r.allow(request(id, home)).Get("code")
			must(t, end())
			if r.opens(out.Body["access_token"], account.ScopeMCP) {
				t.Errorf("%s: the access token opens", name)
			}
			if out := r.token(refresh(id, out.Body["refresh_token"].(string))); out.Body["error"] != "invalid_grant" {
				t.Errorf("%s: the refresh token: %v", name, out.Body)
			}
			if out := r.token(exchange(id, home, code)); out.Body["error"] != "invalid_grant" {
				t.Errorf("%s: the code: %v", name, out.Body)
			}
			if !r.opens(own, account.ScopeMCP) {
				t.Errorf("%s: a key of the person's own ends", name)
			}
		}
	})
}

func TestExchangeRefused(t *testing.T) {
	r := newRig(t, storetest.SQLite(t), Options{})
	id, other := r.register(home, "https://a.example/cb"), r.register(home)
	for name, c := range map[string]struct {
		change func(url.Values)
		wait   time.Duration
		want   string
	}{
		"another client":      {change: func(q url.Values) { q.Set("client_id", other) }, want: "invalid_grant"},
		"another redirect":    {change: func(q url.Values) { q.Set("redirect_uri", "https://a.example/cb") }, want: "invalid_grant"},
		"another verifier":    {change: func(q url.Values) { q.Set("code_verifier", strings.Repeat("a", 43)) }, want: "invalid_grant"},
		"the challenge":       {change: func(q url.Values) { q.Set("code_verifier", challenge()) }, want: "invalid_grant"},
		"no verifier":         {change: func(q url.Values) { q.Del("code_verifier") }, want: "invalid_request"},
		"another resource":    {change: func(q url.Values) { q.Set("resource", r.url+"/api/mcp") }, want: "invalid_target"},
		"somebody's resource": {change: func(q url.Values) { q.Set("resource", "https://evil.example/mcp") }, want: "invalid_target"},
		"no code":             {change: func(q url.Values) { q.Set("code", "x") }, want: "invalid_grant"},
		"two codes":           {change: func(q url.Values) { q.Add("code", "x") }, want: "invalid_request"},
		"another grant type":  {change: func(q url.Values) { q.Set("grant_type", "password") }, want: "unsupported_grant_type"},
		"an old code":         {wait: codeLife, want: "invalid_grant"},
		"unknown client":      {change: func(q url.Values) { q.Set("client_id", "x") }, want: "invalid_client"},
	} {
		t.Run(name, func(t *testing.T) {
			q := exchange(id, home, r.allow(request(id, home)).Get("code"))
			if c.change != nil {
				c.change(q)
			}
			r.pass(c.wait)
			out := r.token(q)
			if out.Body["error"] != c.want || out.Body["access_token"] != nil {
				t.Errorf("%d %v, want %s", out.Status, out.Body, c.want)
			}
		})
	}
}

func TestRefreshRefused(t *testing.T) {
	r := newRig(t, storetest.SQLite(t), Options{})
	id, other := r.register(home), r.register(home)
	first := r.token(exchange(id, home, r.allow(request(id, home)).Get("code")))
	for name, c := range map[string]struct {
		change func(url.Values)
		want   string
	}{
		"another client":   {func(q url.Values) { q.Set("client_id", other) }, "invalid_grant"},
		"wider":            {func(q url.Values) { q.Set("scope", "mcp learn") }, "invalid_scope"},
		"another endpoint": {func(q url.Values) { q.Set("resource", r.url+"/api/mcp") }, "invalid_target"},
		"access token":     {func(q url.Values) { q.Set("refresh_token", first.Body["access_token"].(string)) }, "invalid_grant"},
		"none":             {func(q url.Values) { q.Del("refresh_token") }, "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			q := refresh(id, first.Body["refresh_token"].(string))
			c.change(q)
			if out := r.token(q); out.Body["error"] != c.want {
				t.Errorf("%d %v, want %s", out.Status, out.Body, c.want)
			}
		})
	}
	if out := r.token(refresh(id, first.Body["refresh_token"].(string))); out.Status != http.StatusOK {
		t.Errorf("the token is used up by what was refused: %v", out.Body)
	}
	r.pass(refreshIdle)
	if _, err := r.Store.Purge(t.Context(), store.Limits{Now: r.clock()}); err != nil {
		t.Fatal(err)
	}
	keys, err := r.Store.Keys.ByPerson(t.Context(), r.person)
	must(t, err)
	if len(keys) != 1 || keys[0].Revoked.IsZero() {
		t.Errorf("a grant without tokens: %+v", keys)
	}
}

// What is wrong with a request is told to the program, once it is certain which program it is.
func TestBeginRefused(t *testing.T) {
	r := newRig(t, storetest.SQLite(t), Options{PublicURL: "https://patchbay.example"})
	id := r.register(home, "https://a.example/cb")
	for name, c := range map[string]struct {
		change func(url.Values)
		want   string // empty: a page
	}{
		"unknown client":     {func(q url.Values) { q.Set("client_id", "x") }, ""},
		"no redirect of two": {func(q url.Values) { q.Del("redirect_uri") }, ""},
		"longer redirect":    {func(q url.Values) { q.Set("redirect_uri", "https://a.example/cb/more") }, ""},
		"subdomain":          {func(q url.Values) { q.Set("redirect_uri", "https://a.example.evil.example/cb") }, ""},
		"user info":          {func(q url.Values) { q.Set("redirect_uri", "https://a.example@evil.example/cb") }, ""},
		"another host":       {func(q url.Values) { q.Set("redirect_uri", "http://192.0.2.7:4711/callback") }, ""},
		"another path":       {func(q url.Values) { q.Set("redirect_uri", "http://127.0.0.1:4711/other") }, ""},
		"script":             {func(q url.Values) { q.Set("redirect_uri", "javascript:alert(1)") }, ""},
		"a directive":        {func(q url.Values) { q.Set("redirect_uri", "https://a.example;sandbox/cb") }, ""},
		"two redirects":      {func(q url.Values) { q.Add("redirect_uri", home) }, ""},
		"token":              {func(q url.Values) { q.Set("response_type", "token") }, "unsupported_response_type"},
		"no response type":   {func(q url.Values) { q.Del("response_type") }, "invalid_request"},
		"no challenge":       {func(q url.Values) { q.Del("code_challenge") }, "invalid_request"},
		"plain":              {func(q url.Values) { q.Set("code_challenge_method", "plain") }, "invalid_request"},
		"no method":          {func(q url.Values) { q.Del("code_challenge_method") }, "invalid_request"},
		"short challenge":    {func(q url.Values) { q.Set("code_challenge", "short") }, "invalid_request"},
		"two states":         {func(q url.Values) { q.Add("state", "t") }, "invalid_request"},
		"two resources":      {func(q url.Values) { q["resource"] = []string{r.url + "/mcp", r.url + "/api/mcp"} }, "invalid_target"},
		"another's resource": {func(q url.Values) { q.Set("resource", "https://evil.example/mcp") }, "invalid_target"},
		"an address's":       {func(q url.Values) { q.Set("resource", "http://203.0.113.7/mcp") }, "invalid_target"},
		"another address's":  {func(q url.Values) { q.Set("resource", "http://[2001:db8::7]/mcp") }, "invalid_target"},
		"no resource":        {func(q url.Values) { q.Set("resource", r.url+"/metrics") }, "invalid_target"},
		"no person":          {func(q url.Values) { q.Set("prompt", "none") }, "consent_required"},
	} {
		t.Run(name, func(t *testing.T) {
			q := request(id, home)
			c.change(q)
			_, to, err := r.begin(q, "browser")
			if _, isPage := errors.AsType[*problem.Error](err); isPage != (c.want == "") || !isPage && err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				return
			}
			u, err := url.Parse(to)
			must(t, err)
			if u.Query().Get("error") != c.want || u.Query().Get("iss") != "https://patchbay.example" ||
				!strings.HasPrefix(to, home+"?") {
				t.Errorf("the program gets %s, want %s", to, c.want)
			}
		})
	}
	// What is allowed: another port of this machine, and the other spellings of our addresses.
	for name, change := range map[string]func(url.Values){
		"another port":   func(q url.Values) { q.Set("redirect_uri", "http://127.0.0.1:33418/callback") },
		"capital letter": func(q url.Values) { q.Set("resource", "HTTPS://Patchbay.Example/mcp") },
		"here":           func(q url.Values) { q.Set("resource", r.url+"/mcp") },
		"at home":        func(q url.Values) { q.Set("resource", "http://192.168.1.5:3000/mcp") },
		"whole server":   func(q url.Values) { q.Set("resource", "https://patchbay.example") },
		"learn":          func(q url.Values) { q.Set("resource", "https://patchbay.example/api/mcp") },
	} {
		t.Run(name, func(t *testing.T) {
			q := request(id, home)
			change(q)
			if got := r.allow(q); got.Get("code") == "" {
				t.Errorf("the program gets %v", got)
			}
		})
	}
}

// A request is answered once, in the browser in which it was begun, in time.
func TestRequests(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		id := r.register(home)
		begin := func() (string, Request) {
			n, _, err := r.begin(request(id, home), "browser")
			must(t, err)
			q, err := r.Request(t.Context(), n, "browser")
			must(t, err)
			return n, q
		}
		gone := func(name string, err error) {
			t.Helper()
			if _, ok := errors.AsType[*problem.Error](err); !ok {
				t.Errorf("%s: %v", name, err)
			}
		}
		post := httptest.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/", nil)
		n, q := begin()
		for _, other := range []string{"", "another"} {
			_, err := r.Request(t.Context(), n, other)
			gone("another browser", err)
		}
		to, err := r.Deny(post, &q)
		must(t, err)
		if u, err := url.Parse(to); err != nil || u.Query().Get("error") != "access_denied" || u.Query().Get("state") != "s" {
			t.Errorf("the person declines: %s", to)
		}
		_, err = r.Request(t.Context(), n, "browser")
		gone("declined", err)
		_, err = r.Allow(post, &q, r.person, "", 0)
		gone("allowed after all", err)

		n, q = begin()
		_, err = r.Allow(post, &q, r.person, "", 0)
		must(t, err)
		_, err = r.Allow(post, &q, r.person, "", 0)
		gone("allowed twice", err)
		_, err = r.Deny(post, &q)
		gone("declined after all", err)
		_, err = r.Request(t.Context(), n, "browser")
		gone("answered", err)

		n, _ = begin()
		r.pass(RequestLife)
		_, err = r.Request(t.Context(), n, "browser")
		gone("too old", err)
	})
}

// A consent has rules and an end, which the key gets.
func TestConsent(t *testing.T) {
	r := newRig(t, storetest.SQLite(t), Options{})
	id := r.register(home)
	n, _, err := r.begin(request(id, home), "browser")
	must(t, err)
	q, err := r.Request(t.Context(), n, "browser")
	must(t, err)
	to, err := r.Allow(httptest.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/", nil), &q, r.person,
		`{"read_only":true}`, 1)
	must(t, err)
	u, err := url.Parse(to)
	must(t, err)
	out := r.token(exchange(id, home, u.Query().Get("code")))
	p, err := r.accounts.Authenticate(t.Context(), out.Body["access_token"].(string), account.ScopeMCP)
	must(t, err)
	want := store.Key{ID: p.Key.ID, Person: r.person, Name: "a program", Scopes: []string{"mcp"}, Hash: p.Key.Hash,
		Rules: `{"read_only":true}`, Client: id, Created: r.clock().UTC(), Expires: r.clock().Add(24 * time.Hour).UTC(),
		TokenExpires: r.clock().Add(time.Hour).UTC()}
	if diff := cmp.Diff(want, p.Key); diff != "" {
		t.Error(diff)
	}
	r.pass(24 * time.Hour)
	if out := r.token(refresh(id, out.Body["refresh_token"].(string))); out.Body["error"] != "invalid_grant" {
		t.Errorf("after the grant's end: %v", out.Body)
	}
}

// What programs find out about the server, as they do.
func TestMetadata(t *testing.T) {
	r := newRig(t, storetest.SQLite(t), Options{})
	for path, want := range map[string][]string{"": {"/mcp", "mcp"}, "/mcp": {"/mcp", "mcp"}, "/mcp/sse": {"/mcp/sse", "mcp"},
		"/api/mcp": {"/api/mcp", "learn"}} {
		out := r.send(http.MethodGet, metadataPath+path, "", "")
		wanted := map[string]any{"resource": r.url + want[0], "authorization_servers": []any{r.url},
			"scopes_supported": []any{want[1]}, "bearer_methods_supported": []any{"header"}, "resource_name": "Patchbay"}
		if diff := cmp.Diff(wanted, out.Body); diff != "" {
			t.Errorf("%s:\n%s", path, diff)
		}
	}
	if out := r.send(http.MethodGet, metadataPath+"/other", "", ""); out.Status != http.StatusNotFound {
		t.Errorf("another resource: %d", out.Status)
	}
	out := r.send(http.MethodGet, "/.well-known/oauth-authorization-server", "", "")
	if out.Body["issuer"] != r.url || out.Body["authorization_endpoint"] != r.url+AuthorizePath ||
		out.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("the server: %v", out.Body)
	}
	if out := r.send(http.MethodGet, metadataPath, "", "", "Host", "evil.example"); out.Status != http.StatusNotFound {
		t.Errorf("under a strange name: %d %v", out.Status, out.Body)
	}
	// https is believed of proxies only.
	for proxy, want := range map[string]string{"": "http://127.0.0.1:1/mcp", "yes": "https://127.0.0.1:1/mcp"} {
		out := r.send(http.MethodGet, metadataPath, "", "", "Host", "127.0.0.1:1", "X-Forwarded-Proto", "https",
			"X-Test-Proxy", proxy)
		if out.Body["resource"] != want {
			t.Errorf("proxy %q: %v", proxy, out.Body["resource"])
		}
	}
	if out := r.send(http.MethodOptions, TokenPath, "", ""); out.Status != http.StatusNoContent ||
		out.Header.Get("Access-Control-Allow-Methods") != "POST, OPTIONS" {
		t.Errorf("preflight: %d %v", out.Status, out.Header)
	}

	public := newRig(t, storetest.SQLite(t), Options{PublicURL: "https://patchbay.example/"})
	for host, want := range map[string]string{"patchbay.example": "https://patchbay.example/mcp",
		"evil.example": "https://patchbay.example/mcp", "127.0.0.1:8080": "http://127.0.0.1:8080/mcp"} {
		out := public.send(http.MethodGet, metadataPath, "", "", "Host", host)
		if out.Body["resource"] != want || !slices.Equal(out.Body["authorization_servers"].([]any), []any{"https://patchbay.example"}) {
			t.Errorf("%s: %v", host, out.Body)
		}
	}
}

// Instances whose clocks differ by two minutes serve one program.
func TestClocks(t *testing.T) {
	r := newRig(t, storetest.SQLite(t), Options{})
	o := r.Options
	o.Now = func() time.Time { return r.clock().Add(-2 * time.Minute) }
	mux := http.NewServeMux()
	New(o).Register(mux)
	server := httptest.NewServer(mux)
	defer server.Close()
	here, behind := r.url, server.URL
	id := r.register(home)
	code := r.allow(request(id, home)).Get("code")
	q := exchange(id, home, code)
	for i, at := range []string{behind, here, behind, behind, here} {
		r.url = at
		out := r.token(q)
		if out.Status != http.StatusOK || !r.opens(out.Body["access_token"], account.ScopeMCP) {
			t.Fatalf("step %d: %d %v", i, out.Status, out.Body)
		}
		q = refresh(id, out.Body["refresh_token"].(string))
		if again := r.token(q); i == 2 && again.Status == http.StatusOK { // a program that lost its answer
			r.url = here
			if out := r.token(q); out.Body["refresh_token"] != again.Body["refresh_token"] {
				t.Errorf("another successor: %v", out.Body)
			}
		}
	}
}
