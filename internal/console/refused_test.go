package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"patchbay/internal/console"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Wrong passwords and signing out leave a row, with account and address; ten thousand
// guesses do not leave ten thousand, and what was typed in place of a name is not kept.
func TestRefusalsLeaveRows(t *testing.T) {
	r := newRig(t, false)
	service := control.New(control.Options{Board: r.Board, Accounts: r.Accounts})
	pages := console.New(console.Options{
		Accounts: r.Accounts, Control: service, Lang: talk.English, Version: "test",
		Address: func(*http.Request) netip.Addr { return netip.MustParseAddr("192.0.2.7") },
	})
	post := func(path string, form url.Values, cookies ...*http.Cookie) *http.Response {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for _, c := range cookies {
			req.AddCookie(c)
		}
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, req)
		return w.Result()
	}
	rows := func() []store.Act {
		t.Helper()
		acts, err := r.Store.Acts.Newest(t.Context(), "", 500)
		if err != nil {
			t.Fatal(err)
		}
		return acts
	}
	newest := func(act, about string) {
		t.Helper()
		if list := rows(); len(list) == 0 || list[0].Act != act || list[0].About != about || list[0].Address != "192.0.2.7" || list[0].Door != "console" {
			t.Errorf("wanted %s of %q: %+v", act, about, list)
		}
	}
	for range 3 {
		if resp := post("/signin", url.Values{"name": {"ada"}, "password": {"no"}}); resp.StatusCode != http.StatusForbidden {
			t.Fatal(resp.StatusCode)
		}
	}
	newest(control.ActSignInRefused, "ada")
	post("/signin", url.Values{"name": {"my secret password"}, "password": {"no"}})
	newest(control.ActSignInRefused, "?")
	if n := len(rows()); n != 2 {
		t.Errorf("%d rows of two accounts", n)
	}
	in := post("/signin", url.Values{"name": {"ada"}, "password": {"correct horse"}})
	newest(control.ActSignedIn, "")
	post("/signout", nil, in.Cookies()...)
	newest(control.ActSignInsEnded, "1")

	before := len(rows())
	for i := range 10_000 {
		address := netip.AddrFrom4([4]byte{10, 0, byte(i / 2 >> 8), byte(i / 2)})
		service.Refused(t.Context(), control.Caller{Program: "console", Address: address.String()}, "ada")
	}
	// A minute may end in between.
	if n := len(rows()) - before; n < 1 || n > 200 {
		t.Errorf("10,000 guesses leave %d rows", n)
	}
}
