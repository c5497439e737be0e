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
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// Wrong passwords and signing out are recorded with account and address. Ten thousand guesses do
// not leave ten thousand records, and what was typed as a name is not stored.
func TestRefusalsLeaveRows(t *testing.T) {
	r := newRig(t, false)
	service := control.New(control.Options{Hub: r.Hub, Accounts: r.Accounts})
	pages := console.New(console.Options{
		Accounts: r.Accounts, Control: service, Lang: i18n.English, Version: "test",
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
	rows := func() []store.AdminEvent {
		t.Helper()
		acts, err := r.Store.AdminEvents.Newest(t.Context(), "", 500)
		if err != nil {
			t.Fatal(err)
		}
		return acts
	}
	newest := func(act, about string) {
		t.Helper()
		if list := rows(); len(list) == 0 || list[0].Action != act || list[0].About != about ||
			list[0].Address != "192.0.2.7" || list[0].Channel != "console" {
			t.Errorf("wanted %s of %q: %+v", act, about, list)
		}
	}
	for range 3 {
		if resp := post("/signin", url.Values{"name": {"ada"},
			"password": {"no"}}); resp.StatusCode != http.StatusForbidden {
			t.Fatal(resp.StatusCode)
		}
	}
	newest(control.EventSignInRefused, "ada")
	post("/signin", url.Values{"name": {"my secret password"}, "password": {"no"}})
	newest(control.EventSignInRefused, "?")
	if n := len(rows()); n != 2 {
		t.Errorf("%d rows of two accounts", n)
	}
	in := post("/signin", url.Values{"name": {"ada"}, "password": {"correct horse"}})
	newest(control.EventSignedIn, "")
	post("/signout", nil, in.Cookies()...)
	newest(control.EventSignInsEnded, "1")

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
