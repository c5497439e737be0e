package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/oidc"
	"patchbay/internal/oidc/oidctest"
	"patchbay/internal/store"
)

// newOIDCRig returns the console of an installation at a provider.
func newOIDCRig(t *testing.T, peer *oidctest.Provider, change func(*oidc.Options)) *rig {
	t.Helper()
	return newRigWith(t, false, func(string) control.Options {
		o := oidc.Options{Issuer: peer.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.Secret, Name: "Home"}
		if change != nil {
			change(&o)
		}
		return control.Options{OIDC: oidc.New(o)}
	})
}

const start = "/signin/oidc/start"

// link links p to a subject of the provider.
func (r *rig) link(p store.Person, peer *oidctest.Provider, subject string) {
	r.t.Helper()
	if err := r.Accounts.Link(r.t.Context(), store.Linked{Issuer: peer.URL, Subject: subject, Person: p.ID,
		Label: subject}); err != nil {
		r.t.Fatal(err)
	}
}

var goOn = regexp.MustCompile(`<a class="button main" href="(http[^"]+)"`)

// goes follows the link to the provider, and from there back.
func (r *rig) goes(a answer) answer {
	r.t.Helper()
	found := goOn.FindStringSubmatch(a.text)
	if a.StatusCode != http.StatusOK || found == nil || a.Header.Get("Refresh") != "0; url="+html.UnescapeString(found[1]) {
		r.t.Fatalf("%d, %q: %s", a.StatusCode, a.Header.Get("Refresh"), a.text)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, html.UnescapeString(found[1]), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.do(req)
}

// who returns the name of the person who is signed in; empty: nobody.
func (r *rig) who() string {
	r.t.Helper()
	a := r.get("/settings")
	found := regexp.MustCompile(`name="name" value="([^"]*)" required`).FindStringSubmatch(a.text)
	if !strings.HasPrefix(a.at(), "/settings") || found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// refused checks that a page refuses a visit in words, and that nobody is signed in.
func (r *rig) refused(a answer, status int, words string) {
	r.t.Helper()
	if a.StatusCode != status || !strings.Contains(html.UnescapeString(a.text), words) || r.who() != "" {
		r.t.Errorf("%d at %s: %s", a.StatusCode, a.at(), a.text)
	}
}

// events returns the newest admin events.
func (r *rig) events() (acts []string) {
	r.t.Helper()
	list, err := r.Store.AdminEvents.Newest(r.t.Context(), "", 20)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range list {
		acts = append(acts, e.Action+" "+e.Name+" "+e.About)
	}
	return acts
}

func (r *rig) hasEvent(text string) {
	r.t.Helper()
	if acts := r.events(); !strings.Contains(strings.Join(acts, "\n"), text) {
		r.t.Errorf("no event %q in %q", text, acts)
	}
}

// A person links the provider in the settings, signs in with it, and gets where they wanted to.
func TestLinkAndSignIn(t *testing.T) {
	peer := oidctest.New(t)
	r := newOIDCRig(t, peer, nil)
	if a := r.get("/signin?next=/bots"); !strings.Contains(a.text, "Sign in with Home") ||
		!strings.Contains(a.text, `href="/signin/oidc/start?next=%2Fbots"`) || !strings.Contains(a.text, `name="password"`) {
		t.Fatal(a.text)
	}
	r.refused(r.get(start), http.StatusForbidden, "no account here is linked to you")
	r.hasEvent("person.provider_refused  no account is linked: anna@example.org")

	r.enters(r.Person)
	a := r.post("/settings/links", nil)
	form := r.held(a) // who links has to confirm first
	a = r.goes(r.post("/confirm", form))
	if a.at() != "/settings?linked=1" || !strings.Contains(a.text, "The account is linked") ||
		!strings.Contains(a.text, "anna@example.org") {
		t.Fatalf("%s: %s", a.at(), a.text)
	}
	if asked := peer.Asked(); asked.Get("prompt") != "login" {
		t.Errorf("linking is not proved: %v", asked)
	}
	r.hasEvent("person.linked ada ada: anna@example.org")

	r.web = r.browser()
	if a = r.get(start + "?next=%2Fbots%3Fx%3D1"); a.at() != "/bots?x=1" || r.who() != "ada" {
		t.Errorf("%s: %s", a.at(), a.text)
	}
	r.hasEvent("person.signed_in ada")
	if a = r.get(start + "?next=/keys"); a.at() != "/keys" {
		t.Errorf("who is signed in gets to %s", a.at())
	}
	for _, next := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "javascript:alert(1)"} {
		r.web = r.browser()
		if a = r.get(start + "?" + url.Values{"next": {next}}.Encode()); a.at() != "/guide" || a.Request.URL.Host !=
			strings.TrimPrefix(r.url, "http://") {
			t.Errorf("%s leads to %s", next, a.Request.URL)
		}
	}
	// The same account of the provider belongs to nobody else here, and the link can be removed.
	bob, err := r.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", "battery staple")
	if err != nil {
		t.Fatal(err)
	}
	r.signsIn(bob)
	if a = r.goes(r.post("/settings/links", nil)); a.StatusCode != http.StatusConflict ||
		!strings.Contains(a.text, "Somebody else here is linked") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	remove := regexp.MustCompile(`/settings/links/[0-9a-f]+/remove`)
	r.signsIn(r.Person)
	path := remove.FindString(r.get("/settings").text)
	r.signsIn(bob)
	if a = r.post(path, nil); a.StatusCode != http.StatusNotFound {
		t.Errorf("bob removes ada's link: %d", a.StatusCode)
	}
	r.signsIn(r.Person)
	if a = r.post(path, nil); a.at() != "/settings?unlinked=1" || remove.MatchString(a.text) {
		t.Errorf("%s: %s", a.at(), a.text)
	}
	r.hasEvent("person.unlinked ada ada: anna@example.org")
	r.web = r.browser()
	r.refused(r.get(start), http.StatusForbidden, "no account here is linked to you")
}

// signsIn signs p in with a password that was just entered.
func (r *rig) signsIn(p store.Person) {
	r.t.Helper()
	r.enters(p)
	list, err := r.Store.SignIns.ByPerson(r.t.Context(), p.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, x := range list {
		if err := r.Store.SignIns.Replace(r.t.Context(), x.ID, x.ID, time.Now()); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Whoever is allowed gets an account with a name of its own; nobody becomes an administrator.
func TestAccountsAreOpened(t *testing.T) {
	peer := oidctest.New(t)
	r := newOIDCRig(t, peer, func(o *oidc.Options) { o.Create, o.Allow = true, []string{"@example.org"} })
	for subject, c := range map[string]struct{ username, name, want string }{
		"s-1": {"ada", "Ada B.", "ada 2"}, "s-2": {"\u202e", "Anna\nA.", "anna"}, "s-3": {"аdа", "", "аdа 2"},
		"s-4": {strings.Repeat("x", 90), "", strings.Repeat("x", 50)},
	} {
		peer.Set(func(s *oidctest.State) {
			s.Claims = map[string]any{"sub": subject, "email": "anna@example.org", "email_verified": true,
				"preferred_username": c.username, "name": c.name}
		})
		r.web = r.browser()
		if a := r.get(start); a.at() != "/guide" || r.who() == "" {
			t.Fatalf("%s: %s", a.at(), a.text)
		}
		p, err := r.Accounts.LinkedPerson(t.Context(), store.Linked{Issuer: peer.URL, Subject: subject})
		if err != nil || p.Role != account.RoleMember || p.Password != "" || p.Lang != "en" ||
			c.want != p.Name && !strings.HasPrefix(p.Name, strings.TrimSuffix(c.want, " 2")+" ") {
			t.Errorf("%q is called %q: %+v, %v", c.username, p.Name, p, err)
		}
	}
	// Who is not allowed any more is refused, whether the account is there or not.
	p, err := r.Accounts.LinkedPerson(t.Context(), store.Linked{Issuer: peer.URL, Subject: "s-2"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Accounts.RemovePerson(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	peer.Set(func(s *oidctest.State) { s.Claims["sub"], s.Claims["email"] = "s-2", "anna@other.example" })
	r.web = r.browser()
	r.refused(r.get(start), http.StatusForbidden, "you may not sign in here")
	peer.Set(func(s *oidctest.State) { s.Claims["email"] = "anna@example.org"; s.Claims["email_verified"] = false })
	r.refused(r.get(start), http.StatusForbidden, "you may not sign in here")
	// So is somebody whom the list allowed before.
	peer.Set(func(s *oidctest.State) { s.Claims["sub"] = "s-1" })
	r.refused(r.get(start), http.StatusForbidden, "you may not sign in here")
}

// Nobody becomes the administrator of an empty installation by the provider.
func TestProviderSetsNothingUp(t *testing.T) {
	peer := oidctest.New(t)
	r := newRigWith(t, true, func(string) control.Options {
		return control.Options{OIDC: oidc.New(oidc.Options{Issuer: peer.URL, ClientID: oidctest.ClientID,
			ClientSecret: oidctest.Secret, Create: true, Only: true, Allow: []string{"*"}})}
	})
	if a := r.get(start); a.StatusCode != http.StatusConflict || !strings.Contains(a.text, "not set up yet") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	people, err := r.Store.People.All(t.Context())
	if err != nil || len(people) != 0 {
		t.Errorf("%v, %v", people, err)
	}
	code, err := r.Accounts.SetupCode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a := r.post("/setup", url.Values{"code": {code}, "name": {"ada"}, "password": {"correct horse"}}); a.at() != "/guide" {
		t.Errorf("%s: %s", a.at(), a.text)
	}
}

// With oidc.only, passwords are refused, except to confirm until the account is linked.
func TestNoPasswords(t *testing.T) {
	peer := oidctest.New(t)
	r := newOIDCRig(t, peer, func(o *oidc.Options) { o.Only = true })
	if a := r.get("/signin"); strings.Contains(a.text, `type="password"`) || !strings.Contains(a.text, "Sign in with Home") {
		t.Error(a.text)
	}
	good := url.Values{"name": {"ada"}, "password": {"correct horse"}}
	r.refused(r.post("/signin", good), http.StatusForbidden, "Nobody signs in with a password here")
	r.enters(r.Person)
	form := r.held(r.post("/keys/new", typed))
	if a := r.post("/confirm", form); !strings.Contains(a.text, "pb_") {
		t.Error(a.text)
	}
	r.link(r.Person, peer, "s-1")
	r.stale(r.Person)
	a := r.post("/keys/new", typed)
	if strings.Contains(a.text, `type="password"`) || !strings.Contains(a.text, "Go on with Home") {
		t.Error(a.text)
	}
	if a = r.goes(r.post("/confirm/oidc", r.held(a))); !strings.Contains(a.text, "pb_") || r.keys(r.Person) != 2 {
		t.Errorf("%s: %s", a.at(), a.text)
	}
	// The last link stays, as there is no other way in.
	path := regexp.MustCompile(`/settings/links/[0-9a-f]+/remove`).FindString(r.get("/settings").text)
	if a = r.post(path, nil); a.StatusCode != http.StatusConflict {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
}

// Somebody without a password confirms at the provider: a form that waits is carried out once.
func TestConfirmAtTheProvider(t *testing.T) {
	peer := oidctest.New(t)
	r := newOIDCRig(t, peer, func(o *oidc.Options) { o.Create, o.Allow = true, []string{"*"} })
	// The provider's session is old, so this sign-in does not count as a confirmation.
	old := func(c map[string]any) { c["auth_time"] = time.Now().Add(-time.Hour).Unix() }
	peer.Set(func(s *oidctest.State) { s.Token = old })
	r.get(start)
	p, err := r.Store.People.ByName(t.Context(), "anna")
	if err != nil {
		t.Fatal(err)
	}
	a := r.post("/keys/new", typed)
	if strings.Contains(a.text, `type="password"`) || !strings.Contains(a.text, "Sign in again, please") {
		t.Fatal(a.text)
	}
	form := r.held(a)
	if a = r.goes(r.post("/confirm/oidc", form)); a.StatusCode != http.StatusForbidden ||
		!strings.Contains(a.text, "was not accepted") || r.keys(p) != 0 {
		t.Errorf("an old session confirms: %d: %s", a.StatusCode, a.text)
	}
	form = r.held(a) // it can be tried again
	peer.Set(func(s *oidctest.State) { s.Token = nil; s.Claims["sub"] = "s-2" })
	if a = r.goes(r.post("/confirm/oidc", form)); a.StatusCode != http.StatusForbidden ||
		!strings.Contains(a.text, "somebody else") || r.keys(p) != 0 {
		t.Errorf("somebody else confirms: %d: %s", a.StatusCode, a.text)
	}
	peer.Set(func(s *oidctest.State) { s.Claims["sub"] = "s-1" })
	if a = r.goes(r.post("/confirm/oidc", form)); a.StatusCode != http.StatusOK || !strings.Contains(a.text, "pb_") ||
		r.keys(p) != 1 {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	if a = r.post("/confirm/oidc", form); a.StatusCode != http.StatusConflict || r.keys(p) != 1 {
		t.Errorf("a second time: %d: %s", a.StatusCode, a.text)
	}
	// A page that needs it leads there and back.
	r.stale(p)
	a = r.get("/keys/new")
	next := regexp.MustCompile(`name="next" value="([^"]+)"`).FindStringSubmatch(a.text)[1]
	if a = r.goes(r.post("/confirm/oidc", url.Values{"next": {next}})); a.at() != "/keys/new" {
		t.Errorf("%s: %s", a.at(), a.text)
	}
	if a = r.post("/confirm/oidc", nil, "Sec-Fetch-Site", "cross-site"); a.StatusCode != http.StatusForbidden {
		t.Errorf("another site begins a visit: %d", a.StatusCode)
	}
	if a = r.post("/settings/links", nil, "Sec-Fetch-Site", "cross-site"); a.StatusCode != http.StatusForbidden {
		t.Errorf("another site begins a link: %d", a.StatusCode)
	}
}

// visitBack begins a sign-in and returns where the provider sends the browser back to.
func (r *rig) visitBack(p *oidctest.Provider) string {
	r.t.Helper()
	var back string
	web := *r.web
	r.web.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if req.URL.Path == oidc.CallbackPath {
			back = req.URL.RequestURI()
			return http.ErrUseLastResponse
		}
		return nil
	}
	r.get(start)
	*r.web = web
	if back == "" {
		r.t.Fatal("the browser does not come back")
	}
	return back
}

// An answer is good once, within ten minutes, in the browser that began.
func TestRoundsAreGoodOnce(t *testing.T) {
	peer := oidctest.New(t)
	r := newOIDCRig(t, peer, nil)
	r.link(r.Person, peer, "s-1")
	back := r.visitBack(peer)
	mine := r.web
	r.web = r.browser()
	r.refused(r.get(back), http.StatusForbidden, "begun in another browser")
	r.get("/signin/oidc/start") // who has begun something else gets no further
	r.post("/signout", nil)
	r.refused(r.get(back), http.StatusForbidden, "begun in another browser")
	r.web = mine
	if a := r.get(back); a.at() != "/guide" || r.who() != "ada" {
		t.Fatalf("%s: %s", a.at(), a.text)
	}
	r.post("/signout", nil)
	r.refused(r.get(back), http.StatusConflict, "over already")
	r.refused(r.get("/signin/oidc?state=invented&code=invented"), http.StatusConflict, "over already")
	r.refused(r.get("/signin/oidc"), http.StatusConflict, "over already")
	site, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.web.Jar.Cookies(site) {
		if c.Name == "patchbay-request" {
			err = r.Accounts.BeginRound(t.Context(), store.OIDCRound{Purpose: account.RoundSignIn,
				Created: time.Now().Add(-account.RoundLife)}, "late", c.Value)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	r.refused(r.get("/signin/oidc?state=late&code=any"), http.StatusConflict, "taken too long")
}

// A visit for one purpose, or by one session, has no effect for another.
func TestRoundsOfOthers(t *testing.T) {
	peer := oidctest.New(t)
	r := newOIDCRig(t, peer, nil)
	bob, err := r.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", "battery staple")
	if err != nil {
		t.Fatal(err)
	}
	r.signsIn(r.Person)
	a := r.post("/settings/links", nil)
	address := html.UnescapeString(goOn.FindStringSubmatch(a.text)[1])
	// Meanwhile somebody else signs in in this browser.
	r.post("/signout", nil)
	r.post("/signin", url.Values{"name": {"bob"}, "password": {"battery staple"}})
	if r.who() != "bob" {
		t.Fatal("bob is not signed in")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a = r.do(req); a.StatusCode != http.StatusForbidden {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	for _, p := range []store.Person{bob, r.Person} {
		if list, err := r.Accounts.Linked(t.Context(), p.ID); err != nil || len(list) != 0 {
			t.Errorf("%s is linked: %v, %v", p.Name, list, err)
		}
	}
}

// A provider that is down, or declines, is told apart, counted and recorded.
func TestProviderFails(t *testing.T) {
	peer := oidctest.New(t)
	r := newOIDCRig(t, peer, nil)
	peer.Set(func(s *oidctest.State) { s.Answer = func(a url.Values) { a.Set("error", "access_denied") } })
	r.refused(r.get(start), http.StatusForbidden, "Home did not sign you in")
	peer.Set(func(s *oidctest.State) { s.Answer = func(a url.Values) { a.Set("iss", "https://evil.example") } })
	r.refused(r.get(start), http.StatusForbidden, "was not accepted")
	r.hasEvent("person.provider_refused  the OpenID provider declined: access_denied")
	r.counted("refused", 2)

	peer = oidctest.New(t)
	r = newOIDCRig(t, peer, nil)
	peer.Set(func(s *oidctest.State) { s.Down = true })
	r.refused(r.get(start), http.StatusBadGateway, "does not answer properly")
	r.hasEvent("person.provider_refused  the OpenID provider does not answer properly")
	r.counted("provider", 1)
}

// counted checks the number of sign-ins with an outcome.
func (r *rig) counted(outcome string, want float64) {
	r.t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "patchbay_signins_total" && m.GetLabel()[0].GetValue() == outcome {
				if got := m.GetCounter().GetValue(); got != want {
					r.t.Errorf("%s: %v, want %v", outcome, got, want)
				}
				return
			}
		}
	}
	r.t.Errorf("%s is not counted", outcome)
}

// A browser at another address than the public one begins there.
func TestOtherAddress(t *testing.T) {
	peer := oidctest.New(t)
	public := ""
	r := newRigWith(t, false, func(string) control.Options {
		return control.Options{PublicURL: "https://board.example.org", OIDC: oidc.New(oidc.Options{Issuer: peer.URL,
			ClientID: oidctest.ClientID})}
	})
	r.web.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		public = req.URL.String()
		return http.ErrUseLastResponse
	}
	at := func(path, host string, headers ...string) {
		t.Helper()
		public = ""
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		r.do(req)
	}
	at(start+"?next=/bots", "192.168.1.7:3000")
	if public != "https://board.example.org/signin/oidc/start?next=%2Fbots&moved=1" {
		t.Errorf("it leads to %s", public)
	}
	for _, c := range []struct{ path, host, header, want string }{
		{start, "board.example.org", "", "https://board.example.org/signin/oidc"},
		{start + "?moved=1", "inside:3000", "", "https://board.example.org/signin/oidc"}, // a proxy that changes Host
		{start, "localhost:3000", "", "http://localhost:3000/signin/oidc"},
		{start, "127.0.0.1:3000", "192.0.2.1", "https://board.example.org/signin/oidc"},
	} {
		at(c.path, c.host, "X-Forwarded-For", c.header)
		if u, err := url.Parse(public); err != nil || u.Query().Get("redirect_uri") != c.want {
			t.Errorf("%+v: %s", c, public)
		}
	}
}

// A provider that others wrote signs in, is asked again, and declines.
func TestRealProvider(t *testing.T) {
	var issuer string
	r := newRigWith(t, false, func(at string) control.Options {
		issuer = oidctest.StartPeer(t, at+oidc.CallbackPath)
		return control.Options{OIDC: oidc.New(oidc.Options{Issuer: issuer, ClientID: oidctest.ClientID,
			ClientSecret: oidctest.Secret, Scopes: []string{"profile", "email", "groups"}, Create: true,
			Allow: []string{"group:family"}})}
	})
	action := regexp.MustCompile(`<form autocomplete="off" action="([^"]+)" method="post">`)
	// types goes through the provider's pages as somebody.
	types := func(a answer, name string) answer {
		t.Helper()
		for range 5 {
			found := action.FindStringSubmatch(a.text)
			if found == nil {
				return a
			}
			form := url.Values{"prompt": {"consent"}}
			if strings.Contains(a.text, `name="login"`) {
				form = url.Values{"prompt": {"login"}, "login": {name}, "password": {"anything"}}
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, html.UnescapeString(found[1]),
				strings.NewReader(form.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			a = r.do(req)
		}
		return a
	}
	r.refused(types(r.get(start), "eve"), http.StatusForbidden, "you may not sign in here")
	r.web = r.browser()
	if a := types(r.get(start+"?next=/bots"), "anna.family.admins"); a.at() != "/bots" || r.who() != "anna" {
		t.Fatalf("%s: %s", a.Request.URL, a.text)
	}
	r.hasEvent("person.added anna anna ← anna.family.admins@example.org")
	anna, err := r.Store.People.ByName(t.Context(), "anna")
	if err != nil {
		t.Fatal(err)
	}
	// It still knows her, so that she signs in without a page, but not when she has to confirm.
	r.post("/signout", nil)
	if a := r.get(start + "?next=/bots"); a.at() != "/bots" || r.who() != "anna" {
		t.Fatalf("%s: %s", a.Request.URL, a.text)
	}
	r.stale(anna)
	a := r.goes(r.post("/confirm/oidc", r.held(r.post("/keys/new", typed))))
	if !strings.Contains(a.text, `name="login"`) || r.keys(anna) != 0 {
		t.Fatalf("%s: %s", a.Request.URL, a.text)
	}
	if a = types(a, "anna.family.admins"); !strings.Contains(a.text, "pb_") || r.keys(anna) != 1 {
		t.Fatalf("%s: %s", a.Request.URL, a.text)
	}
	// She leaves its page.
	r.web = r.browser()
	a = r.get(start)
	abort := regexp.MustCompile(`href="([^"]+/abort)"`).FindStringSubmatch(a.text)
	if abort == nil {
		t.Fatal(a.text)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, html.UnescapeString(abort[1]), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.refused(r.do(req), http.StatusForbidden, "did not sign you in")
}
