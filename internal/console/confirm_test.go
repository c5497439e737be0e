package console_test

import (
	"bytes"
	"html"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/store"
)

// enters signs p in with a password that was entered an hour ago.
func (r *rig) enters(p store.Person) {
	r.t.Helper()
	token, err := r.Accounts.Admit(r.t.Context(), p, account.Browser{})
	if err != nil {
		r.t.Fatal(err)
	}
	site, err := url.Parse(r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	jar.SetCookies(site, []*http.Cookie{{Name: "patchbay", Value: token}, {Name: "patchbay-lang", Value: "en"}})
	r.web = &http.Client{Jar: jar}
	r.stale(p)
}

// stale makes the last entry of p's password an hour old.
func (r *rig) stale(p store.Person) {
	r.t.Helper()
	list, err := r.Store.SignIns.ByPerson(r.t.Context(), p.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, x := range list {
		if err := r.Store.SignIns.Replace(r.t.Context(), x.ID, x.ID, time.Now().Add(-time.Hour)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// keys returns the number of p's keys.
func (r *rig) keys(p store.Person) int {
	r.t.Helper()
	list, err := r.Store.Keys.ByPerson(r.t.Context(), p.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return len(list)
}

var pendingField = regexp.MustCompile(`name="pending" value="([^"]+)"`)

// held returns the form of a page that asks for the password and keeps the submitted form.
func (r *rig) held(a answer) url.Values {
	r.t.Helper()
	found := pendingField.FindStringSubmatch(a.text)
	if found == nil || !strings.Contains(a.text, `action="/confirm"`) {
		r.t.Fatalf("%d at %s does not ask for the password: %s", a.StatusCode, a.at(), a.text)
	}
	return url.Values{"next": {"/keys/new"}, "pending": {html.UnescapeString(found[1])}, "password": {"correct horse"}}
}

var typed = url.Values{"name": {"a-typed-name"}, "scope": {"mcp", "learn"}, "deny": {"home_*\nlamp_*"}}

// A form that was submitted without a recent password is carried out once after the password was
// entered, and for no other person.
func TestFormWaitsForThePassword(t *testing.T) {
	r := newRig(t, false)
	r.enters(r.Person)
	a := r.post("/keys/new", typed)
	form := r.held(a)
	if strings.Contains(a.text, "a-typed-name") || strings.Contains(a.text, "home_*") || a.at() != "/keys/new" ||
		r.keys(r.Person) != 0 {
		t.Fatalf("%s: %s", a.at(), a.text)
	}
	form.Set("password", "wrong horse")
	a = r.post("/confirm", form)
	if form = r.held(a); a.StatusCode != http.StatusForbidden || !strings.Contains(a.text, "The password is wrong") ||
		r.keys(r.Person) != 0 {
		t.Fatalf("%d: %s", a.StatusCode, a.text)
	}
	a = r.post("/confirm", form)
	if a.StatusCode != http.StatusOK || !strings.Contains(a.text, "a-typed-name") || !strings.Contains(a.text, "pb_") {
		t.Fatalf("%d: %s", a.StatusCode, a.text)
	}
	list, err := r.Store.Keys.ByPerson(t.Context(), r.Person.ID)
	if err != nil || len(list) != 1 || list[0].Name != "a-typed-name" ||
		strings.Join(list[0].Scopes, " ") != "learn mcp" || !strings.Contains(list[0].Rules, "lamp_*") {
		t.Fatalf("%+v, %v", list, err)
	}
	// The browser reloads the page.
	if a = r.post("/confirm", form); a.StatusCode != http.StatusConflict ||
		!strings.Contains(a.text, "was not carried out") || r.keys(r.Person) != 1 {
		t.Errorf("%d, %d keys: %s", a.StatusCode, r.keys(r.Person), a.text)
	}
	// A validation error is shown beside the input, on a page that can be left.
	r.stale(r.Person)
	a = r.post("/confirm", r.held(r.post("/keys/new", url.Values{"name": {"nothing-chosen"}})))
	if a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.text, "Choose at least one") ||
		!strings.Contains(a.text, `value="nothing-chosen"`) || !strings.Contains(a.text, `action="/keys/new"`) {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	// The same applies to a page that asks for the password itself and redirects.
	r.stale(r.Person)
	a = r.post("/confirm", r.held(r.post("/bots", url.Values{"kind": {"plugin"}, "name": {"crab"}})))
	if a.StatusCode != http.StatusOK || !strings.Contains(a.text, "crab") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	r.stale(r.Person)
	a = r.post("/confirm", r.held(r.post("/settings/people/"+r.Person.ID+"/role", url.Values{"role": {"admin"}})))
	if a.StatusCode != http.StatusOK || !strings.HasPrefix(a.at(), "/settings") {
		t.Errorf("%d: %s", a.StatusCode, a.at())
	}
}

// A form that somebody else sent, or that was changed, has no effect.
func TestFormIsItsSendersAlone(t *testing.T) {
	r := newRig(t, false)
	bob, err := r.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	r.enters(r.Person)
	form := r.held(r.post("/keys/new", typed))
	hers := r.web
	refused := func(what string, form url.Values) {
		t.Helper()
		if a := r.post("/confirm", form); a.StatusCode != http.StatusConflict || pendingField.MatchString(a.text) {
			t.Errorf("%s: %d: %s", what, a.StatusCode, a.text)
		}
	}
	with := func(name, value string) url.Values {
		other := url.Values{}
		for n, v := range form {
			other[n] = v
		}
		other.Set(name, value)
		return other
	}
	sealed := form.Get("pending")
	refused("shortened", with("pending", sealed[:len(sealed)-6]))
	refused("changed", with("pending", sealed[:20]+strings.Map(func(l rune) rune {
		if l == 'A' {
			return 'B'
		}
		return 'A'
	}, sealed[20:21])+sealed[21:]))
	refused("not sealed", with("pending",
		`{"path":"/keys/new","form":"name=x&scope=mcp","signin":"","until":99999999999999}`))
	r.enters(bob)
	refused("somebody else's", form)
	r.enters(r.Person)
	refused("in another browser", form)
	r.web = r.browser()
	if a := r.post("/confirm", form); !strings.HasPrefix(a.at(), "/signin") {
		t.Errorf("a stranger gets to %s", a.at())
	}
	r.web = hers
	// Only the seal says where the form goes; other pages do not accept sealed forms.
	if a := r.post("/keys/new", form); a.StatusCode != http.StatusOK || !strings.Contains(a.text, `action="/confirm"`) {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	for _, path := range []string{"/keys/new", "/confirm"} {
		if a := r.post(path, form, "Sec-Fetch-Site", "cross-site"); a.StatusCode != http.StatusForbidden ||
			pendingField.MatchString(a.text) {
			t.Errorf("another site sends %s: %d: %s", path, a.StatusCode, a.text)
		}
	}
	if n, m := r.keys(r.Person), r.keys(bob); n != 0 || m != 0 {
		t.Errorf("%d and %d keys were made", n, m)
	}
	if a := r.post("/confirm", with("path", "/settings/people/new")); a.StatusCode != http.StatusOK ||
		r.keys(r.Person) != 1 {
		t.Errorf("%d, %d keys: %s", a.StatusCode, r.keys(r.Person), a.text)
	}
	// Signing out invalidates a waiting form.
	r.enters(r.Person)
	form = r.held(r.post("/keys/new", typed))
	r.post("/signout", nil)
	r.enters(r.Person)
	refused("after signing out", form)
}

// A script that requests a part of a page gets the page that asks for the password; the result
// after it is a whole page too.
func TestPartWaitsForThePassword(t *testing.T) {
	r := newRig(t, false)
	r.enters(r.Person)
	form := url.Values{"way": {"url"}, "name": {"home"}, "url": {"https://tools.example.org/mcp"},
		"token": {"s3cr3t-token"}}
	a := r.post("/tools/upstreams/look", form, "HX-Request", "true", "Referer", r.url+"/tools/upstreams/new?way=url")
	if a.Header.Get("HX-Retarget") != "body" || a.Header.Get("HX-Reswap") != "outerHTML" ||
		a.Header.Get("HX-Redirect") != "" || strings.Contains(a.text, "s3cr3t") ||
		!strings.Contains(a.text, `name="next" value="/tools/upstreams/new?way=url"`) {
		t.Fatalf("%v: %s", a.Header, a.text)
	}
	a = r.post("/confirm", r.held(a))
	if a.StatusCode != http.StatusOK || !strings.Contains(strings.ToLower(a.text), "<!doctype html>") ||
		!strings.Contains(a.text, `value="https://tools.example.org/mcp"`) ||
		!strings.Contains(a.text, "thermometer") || strings.Contains(a.text, "s3cr3t") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	if set := <-r.looked; !strings.Contains(set, "s3cr3t-token") {
		t.Errorf("it was looked for with %s", set)
	}
}

// In a browser, a submitted form is carried out after the password, both from a plain form and from
// the script.
func TestFormWaitsInABrowser(t *testing.T) {
	r := newRig(t, false)
	b := browsertest.New(t, r.url)
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	b.SetWidth(390)
	confirm := func() {
		t.Helper()
		b.WaitUntil("document.activeElement.name === 'password' && document.querySelector('[name=pending]')")
		if over := browsertest.Evaluate[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("the page is %d wider than the window", over)
		}
		b.Press("correct horse\r")
	}
	b.Open("/keys/new")
	b.Type("[name=name]", "a typed name")
	b.Click("[name=scope][value=mcp]")
	r.stale(r.Person)
	b.Press("\r")
	confirm()
	b.WaitText("main", "a typed name")
	b.WaitText("main", "pb_")
	if n := r.keys(r.Person); n != 1 {
		t.Errorf("%d keys were made", n)
	}
	b.Open("/tools/upstreams/new?way=url")
	b.Type("[name=name]", "home")
	b.Type("[name=url]", "https://tools.example.org/mcp")
	b.Type("[name=token]", "s3cr3t-token")
	r.stale(r.Person)
	b.Click("button[formaction$='/look']")
	confirm()
	b.WaitText("#look", "thermometer")
	if set := <-r.looked; !strings.Contains(set, "s3cr3t-token") {
		t.Errorf("it was looked for with %s", set)
	}
	b.WaitText("[name=url]", "https://tools.example.org/mcp")
}

// Forms with files, and forms that are too large, do not wait; the page says so.
func TestWhatDoesNotWait(t *testing.T) {
	r := newRig(t, false)
	r.enters(r.Person)
	a := r.post("/keys/new", url.Values{"name": {"x"}, "deny": {strings.Repeat("a_tool_*\n", 10_000)}})
	if !strings.HasPrefix(a.at(), "/confirm?lost=yes") || !strings.Contains(a.text, "was not carried out") {
		t.Errorf("%s: %.300s", a.at(), a.text)
	}
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	part, err := w.CreateFormFile("file", "backup.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	part.Write(make([]byte, 3<<20)) //nolint:errcheck // into memory
	w.Close()                       //nolint:errcheck // into memory
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/settings/backup/restore", &body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	req.Header.Set("Referer", r.url+"/settings/backup")
	if a = r.do(req); a.at() != "/confirm?lost=yes&next=%2Fsettings%2Fbackup" ||
		!strings.Contains(a.text, "choose the file, once more") {
		t.Errorf("%s: %.300s", a.at(), a.text)
	}
	form := url.Values{"next": {"/settings/backup"}, "password": {"correct horse"}}
	if a = r.post("/confirm", form); a.at() != "/settings/backup" {
		t.Errorf("after the password: %s", a.at())
	}
}
