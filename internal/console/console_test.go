package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/console"
	"patchbay/internal/control"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// rig is a console with a client.
type rig struct {
	*hubtest.Rig
	t   *testing.T
	url string
	web *http.Client
	// looked receives the settings of upstreams that were checked.
	looked  chan string
	metrics *prometheus.Registry
}

// newRig returns the console of an installation; if empty, without any account.
func newRig(t *testing.T, empty bool) *rig {
	t.Helper()
	return newRigWith(t, empty, func(string) control.Options { return control.Options{} })
}

// newRigWith is newRig with options, given the URL of the console.
func newRigWith(t *testing.T, empty bool, with func(url string) control.Options) *rig {
	t.Helper()
	b := hubtest.New(t, hubtest.Options{NoPerson: empty})
	if empty {
		// no account has a password yet
	} else if err := b.Accounts.SetPassword(t.Context(), b.Person.ID, "correct horse"); err != nil {
		t.Fatal(err)
	}
	looked := make(chan string, 8)
	look := func(_ context.Context, _ store.Person, _ store.Upstream,
		set control.SettingTexts) (control.UpstreamFound, error) {
		text, err := json.Marshal(set)
		looked <- string(text)
		return control.UpstreamFound{Server: "thermometer"}, err
	}
	b.Accounts.Addresses = account.NewGuard(5, nil)
	mux := http.NewServeMux()
	s := httptest.NewUnstartedServer(mux)
	url := "http://" + s.Listener.Addr().String()
	o := with(url)
	o.Hub, o.Accounts, o.Upstreams = b.Hub, b.Accounts, control.UpstreamActions{Check: look}
	metrics := prometheus.NewRegistry()
	pages := console.New(console.Options{
		Accounts: b.Accounts, Control: control.New(o), Lang: i18n.English, Version: "test", Registerer: metrics,
		Address: func(*http.Request) netip.Addr { return netip.MustParseAddr("192.0.2.7") },
	})
	for _, path := range pages.Paths() {
		mux.Handle(path, pages)
	}
	s.Start()
	t.Cleanup(s.Close)
	r := &rig{Rig: b, t: t, url: url, looked: looked, metrics: metrics}
	r.web = r.browser()
	return r
}

// browser returns a client without cookies.
func (r *rig) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return &http.Client{Jar: jar}
}

// answer is the response to a request.
type answer struct {
	*http.Response
	text string
}

// at returns the URL of the final page.
func (a answer) at() string { return a.Request.URL.RequestURI() }

func (r *rig) do(req *http.Request) answer {
	r.t.Helper()
	resp, err := r.web.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{resp, string(text)}
}

func (r *rig) get(path string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return r.do(req)
}

func (r *rig) post(path string, form url.Values, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return r.do(req)
}

// The first visitor with the code from the terminal creates the first account.
func TestFirstRun(t *testing.T) {
	r := newRig(t, true)
	code, err := r.Accounts.SetupCode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a := r.get("/"); a.at() != "/setup" || !strings.Contains(a.text, "Set up Patchbay") ||
		strings.Contains(a.text, code) {
		t.Fatalf("%s: %s", a.at(), a.text)
	}
	form := url.Values{"code": {"AAAA-AAAA"}, "name": {"<ada>"}, "password": {"correct horse"}}
	if a := r.post("/setup", form); a.StatusCode != http.StatusForbidden ||
		!strings.Contains(a.text, "The setup code is wrong") || !strings.Contains(a.text, "&lt;ada&gt;") ||
		strings.Contains(a.text, "correct horse") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	form.Set("code", code)
	form.Set("password", "short")
	if a := r.post("/setup", form); a.StatusCode != http.StatusUnprocessableEntity ||
		!strings.Contains(a.text, "at least 8 characters") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	form.Set("name", "ada")
	form.Set("password", "correct horse")
	form.Set("zone", "Asia/Shanghai")
	if a := r.get("/setup?code=" + code); !strings.Contains(a.text, `value="`+code+`"`) {
		t.Errorf("the address that the server prints shows %s", a.text)
	}
	if a := r.post("/setup", form); a.at() != "/guide" || !strings.Contains(a.text, "Hello, ada") {
		t.Fatalf("%s: %s", a.at(), a.text)
	}
	p, err := r.Store.People.ByName(t.Context(), "ada")
	if err != nil || p.Role != account.RoleAdmin || p.Lang != "en" || p.Zone != "Asia/Shanghai" {
		t.Errorf("%+v, %v", p, err)
	}
	// Nobody else can.
	r.web = r.browser()
	if a := r.get("/setup"); a.at() != "/signin" {
		t.Errorf("%s after it was set up", a.at())
	}
	if a := r.post("/setup", form); a.at() != "/signin" {
		t.Errorf("%s after it was set up", a.at())
	}
}

func TestSignInAndOut(t *testing.T) {
	r := newRig(t, false)
	form := url.Values{"name": {"ada"}, "password": {"wrong horse"}, "next": {"/"}}
	if a := r.get("/"); a.at() != "/signin" {
		t.Errorf("a stranger gets to %s", a.at())
	}
	if a := r.post("/signin", form); a.StatusCode != http.StatusForbidden ||
		!strings.Contains(a.text, "The name or the password is wrong") || strings.Contains(a.text, "horse") {
		t.Errorf("%d: %s", a.StatusCode, a.text)
	}
	form.Set("password", "correct horse")
	if a := r.post("/signin", form, "Sec-Fetch-Site", "cross-site"); a.StatusCode != http.StatusForbidden {
		t.Errorf("another site signs somebody in: %d", a.StatusCode)
	}
	a := r.post("/signin", form)
	if a.at() != "/guide" || !strings.Contains(a.text, "你好，ada") { // in her language
		t.Fatalf("%s: %s", a.at(), a.text)
	}
	site, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.web.Jar.Cookies(site); len(c) != 2 || c[0].Name != "patchbay" ||
		!strings.HasPrefix(c[1].Name, "patchbay-known-") {
		t.Errorf("the cookies are %v", c)
	}
	old := r.web.Jar.Cookies(site)
	if a := r.post("/signout", nil); a.at() != "/signin" {
		t.Errorf("signed out to %s", a.at())
	}
	r.web.Jar.SetCookies(site, old)
	if a := r.get("/"); a.at() != "/signin" {
		t.Error("the cookie is still good")
	}
}

// Passwords cannot be guessed, not even with the right one during a lockout.
func TestGuessing(t *testing.T) {
	r := newRig(t, false)
	form := url.Values{"name": {"ada"}, "password": {"wrong horse"}}
	for range 5 {
		if a := r.post("/signin", form); a.StatusCode != http.StatusForbidden {
			t.Fatal(a.StatusCode)
		}
	}
	form.Set("password", "correct horse")
	if a := r.post("/signin", form); a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
		t.Errorf("%d", a.StatusCode)
	}
}

// The sign-in page never redirects to another site.
func TestNext(t *testing.T) {
	r := newRig(t, false)
	r.web.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for next, want := range map[string]string{
		"/bots/1?x=y": "/bots/1?x=y", "": "/", "https://evil.example": "/", "//evil.example": "/",
		`/\evil.example`: "/", "/%2fevil": "/%2fevil",
		"javascript:alert(1)": "/", "bots": "/", "http:/x": "/",
	} {
		a := r.post("/look", url.Values{"theme": {"dark"}, "next": {next}})
		if got := a.Header.Get("Location"); a.StatusCode != http.StatusSeeOther || got != want && want != "/%2fevil" {
			t.Errorf("%q leads to %q", next, got)
		}
	}
}

// Every page is available in all languages and both themes, and loads nothing from other hosts.
func TestLooks(t *testing.T) {
	r := newRig(t, false)
	a := r.get("/signin", "Accept-Language", "zh-CN,zh;q=0.9")
	if !strings.Contains(a.text, `lang="zh-CN"`) || !strings.Contains(a.text, "登录") {
		t.Error(a.text)
	}
	for _, l := range i18n.Languages() {
		a := r.get("/signin", "Accept-Language", string(l))
		if !strings.Contains(a.text, fmt.Sprintf("<html lang=%q", l.Tag())) ||
			!strings.Contains(a.text, i18n.Message("Password").In(l)) {
			t.Errorf("%s: %s", l, a.text)
		}
	}
	for header, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff",
		"X-Frame-Options": "DENY",
		"Referrer-Policy": "same-origin",
		"Cache-Control":   "no-store", "Content-Type": "text/html",
	} {
		if !strings.Contains(a.Header.Get(header), want) {
			t.Errorf("%s: %q", header, a.Header.Get(header))
		}
	}
	r.post("/look", url.Values{"lang": {"en"}, "theme": {"dark"}})
	a = r.get("/signin", "Accept-Language", "zh-CN")
	if !strings.Contains(a.text, `lang="en"`) || !strings.Contains(a.text, `data-theme="dark"`) {
		t.Error(a.text)
	}
	if inline := regexp.MustCompile(`<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|https?://`).
		FindString(a.text); inline != "" {
		t.Errorf("the page has %q", inline)
	}
	if a := r.get("/signin/x"); a.StatusCode != http.StatusNotFound {
		t.Errorf("%d for what is not there", a.StatusCode)
	}
}

// Browsers cache static files forever, and the files are small.
func TestAssets(t *testing.T) {
	r := newRig(t, false)
	page := r.get("/signin").text
	found := regexp.MustCompile(`/assets/[^"]+`).FindAllString(page, -1)
	if len(found) != 4 {
		t.Fatalf("%q", found)
	}
	var total int64
	for _, path := range found {
		a := r.get(path, "Accept-Encoding", "gzip")
		if a.StatusCode != http.StatusOK || a.Header.Get("Content-Encoding") != "gzip" ||
			!strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, %v", path, a.StatusCode, a.Header)
		}
		total += a.ContentLength
		if plain := r.get(path, "Accept-Encoding", "identity"); plain.Header.Get("Content-Encoding") != "" ||
			len(plain.text) < int(a.ContentLength) {
			t.Errorf("%s: %v", path, plain.Header)
		}
	}
	if total < 1000 || total > 150<<10 {
		t.Errorf("a first page has %d bytes beside it", total)
	}
	if a := r.get("/assets/console.css"); a.StatusCode != http.StatusNotFound {
		t.Errorf("%d for a name without a sum", a.StatusCode)
	}
}
