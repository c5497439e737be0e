// Package consoletest sets up an installation with two people, and a browser for each, for tests of
// pages.
package consoletest

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/oauth"
	"patchbay/internal/store"
)

// Rig is an installation. Its Person, ada, is an administrator; Bob is a member.
type Rig struct {
	*hubtest.Rig
	Control  *control.Service
	Instance *page.Instance
	URL      string
	Bob      store.Person

	t testing.TB
}

// Options configures a [Rig].
type Options struct {
	hubtest.Options
	// Control configures the control service; New fills in the hub and the accounts.
	Control control.Options
}

// New serves the pages of routes until the test ends.
func New(t testing.TB, o Options, routes func(*Rig) []page.Route) *Rig {
	t.Helper()
	r := &Rig{Rig: hubtest.New(t, o.Options), t: t}
	o.Control.Hub, o.Control.Accounts = r.Hub, r.Accounts
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	o.Control.Logger = log
	o.Control.OAuth = oauth.New(oauth.Options{Store: r.Store})
	r.Control = control.New(o.Control)
	r.Instance = &page.Instance{
		Accounts: r.Accounts, Control: r.Control, Lang: i18n.English, Version: "test", Logger: log,
		Address: func(*http.Request) netip.Addr { return netip.MustParseAddr("192.0.2.7") },
	}
	if !o.NoPerson {
		var err error
		if r.Bob, err = r.Store.People.ByName(t.Context(), "bob"); err != nil { // another instance has created him
			if r.Bob, err = r.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := httptest.NewServer(r.Instance.Handler(routes(r)))
	t.Cleanup(func() {
		r.Instance.Drain()
		s.Close()
	})
	r.URL = s.URL
	return r
}

// Browser is an HTTP client with cookies that acts like a browser.
type Browser struct {
	*http.Client
	rig *Rig
}

// Anonymous returns a browser that is not signed in.
func (r *Rig) Anonymous() *Browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return &Browser{&http.Client{Jar: jar}, r}
}

// SignedInAs returns a browser in which p has just signed in, with English pages.
func (r *Rig) SignedInAs(p store.Person) *Browser {
	r.t.Helper()
	b := r.Anonymous()
	token, err := r.Accounts.Admit(r.t.Context(), p, account.Browser{Agent: "test"})
	if err != nil {
		r.t.Fatal(err)
	}
	site, err := url.Parse(r.URL)
	if err != nil {
		r.t.Fatal(err)
	}
	b.Jar.SetCookies(site, []*http.Cookie{{Name: "patchbay", Value: token}, {Name: "patchbay-lang", Value: "en"}})
	return b
}

// Page is the response that a browser shows after redirects.
type Page struct {
	Status int
	Path   string // its address
	Text   string
	Header http.Header
}

// Contains reports whether the page contains all texts.
func (p Page) Contains(texts ...string) bool {
	for _, text := range texts {
		if !strings.Contains(p.Text, text) {
			return false
		}
	}
	return true
}

// Get loads a page. headers are pairs of names and values.
func (b *Browser) Get(path string, headers ...string) Page {
	b.rig.t.Helper()
	return b.do(http.MethodGet, path, nil, headers)
}

// Post sends a form; fields are pairs of names and values.
func (b *Browser) Post(path string, fields ...string) Page {
	b.rig.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return b.do(http.MethodPost, path, strings.NewReader(form.Encode()),
		[]string{"Content-Type", "application/x-www-form-urlencoded"})
}

// DoHX sends a request as htmx does: it expects a part of a page.
func (b *Browser) DoHX(method, path string, fields ...string) Page {
	b.rig.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	if method == http.MethodGet || method == http.MethodDelete {
		if len(form) > 0 {
			path += "?" + form.Encode()
		}
		return b.do(method, path, nil, []string{"HX-Request", "true"})
	}
	return b.do(method, path, strings.NewReader(form.Encode()),
		[]string{"Content-Type", "application/x-www-form-urlencoded", "HX-Request", "true"})
}

func (b *Browser) do(method, path string, body io.Reader, headers []string) Page {
	b.rig.t.Helper()
	req, err := http.NewRequestWithContext(b.rig.t.Context(), method, b.rig.URL+path, body)
	if err != nil {
		b.rig.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.Do(req)
	if err != nil {
		b.rig.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.rig.t.Fatal(err)
	}
	return Page{resp.StatusCode, resp.Request.URL.RequestURI(), string(text), resp.Header}
}
