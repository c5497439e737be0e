// Package consoletest gives tests of pages an installation with two people, and a
// browser for each.
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
	"patchbay/internal/board/boardtest"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Rig is an installation. Its Person, ada, runs it; Bob is a member.
type Rig struct {
	*boardtest.Rig
	Control *control.Service
	House   *page.House
	URL     string
	Bob     store.Person

	t testing.TB
}

// Options of a rig.
type Options struct {
	boardtest.Options
	// Control is what the pages can do; Board and Accounts are filled in.
	Control control.Options
}

// New serves pages until the test ends. routes makes them.
func New(t testing.TB, o Options, routes func(*Rig) []page.Route) *Rig {
	t.Helper()
	r := &Rig{Rig: boardtest.New(t, o.Options), t: t}
	o.Control.Board, o.Control.Accounts = r.Board, r.Accounts
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	o.Control.Logger = log
	r.Control = control.New(o.Control)
	r.House = &page.House{
		Accounts: r.Accounts, Control: r.Control, Lang: talk.English, Version: "test", Logger: log,
		Address: func(*http.Request) netip.Addr { return netip.MustParseAddr("192.0.2.7") },
	}
	if !o.Nobody {
		var err error
		if r.Bob, err = r.Store.People.ByName(t.Context(), "bob"); err != nil { // another instance has him
			if r.Bob, err = r.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := httptest.NewServer(r.House.Handler(routes(r)))
	t.Cleanup(func() {
		r.House.Drain()
		s.Close()
	})
	r.URL = s.URL
	return r
}

// Browser is what somebody looks at pages with.
type Browser struct {
	*http.Client
	rig *Rig
}

// Stranger is a browser in which nobody is signed in.
func (r *Rig) Stranger() *Browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return &Browser{&http.Client{Jar: jar}, r}
}

// As is a browser in which somebody has just signed in, in English.
func (r *Rig) As(p store.Person) *Browser {
	r.t.Helper()
	b := r.Stranger()
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

// Page is what a browser shows in the end.
type Page struct {
	Status int
	At     string // its address
	Text   string
	Header http.Header
}

// Has says whether the page has all of some texts.
func (p Page) Has(texts ...string) bool {
	for _, text := range texts {
		if !strings.Contains(p.Text, text) {
			return false
		}
	}
	return true
}

// Get goes to a page. Headers are names and values.
func (b *Browser) Get(path string, headers ...string) Page {
	b.rig.t.Helper()
	return b.do(http.MethodGet, path, nil, headers)
}

// Post sends a form, whose fields are names and values.
func (b *Browser) Post(path string, fields ...string) Page {
	b.rig.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return b.do(http.MethodPost, path, strings.NewReader(form.Encode()), []string{"Content-Type", "application/x-www-form-urlencoded"})
}

// Ask does as the script does: it wants a part of a page.
func (b *Browser) Ask(method, path string, fields ...string) Page {
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
	return b.do(method, path, strings.NewReader(form.Encode()), []string{"Content-Type", "application/x-www-form-urlencoded", "HX-Request", "true"})
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
