package console_test

import (
	"testing"

	"patchbay/internal/console/browsertest"
	"patchbay/internal/control"
	"patchbay/internal/oidc"
	"patchbay/internal/oidc/oidctest"
)

// In a browser, with the rules for forms and cookies that it has, somebody signs in at a provider
// that others wrote, and a form that waits is carried out after they did so again.
func TestProviderInABrowser(t *testing.T) {
	browsertest.Path(t)
	var issuer string
	r := newRigWith(t, false, func(at string) control.Options {
		issuer = oidctest.StartPeer(t, at+oidc.CallbackPath)
		return control.Options{OIDC: oidc.New(oidc.Options{Issuer: issuer, ClientID: oidctest.ClientID, ClientSecret: oidctest.Secret, Name: "Home", Create: true,
			Allow: []string{"*"}, Scopes: []string{"profile", "email"}})}
	})
	b := browsertest.New(t, r.url)
	b.Cookie("patchbay-lang", "en")
	b.SetWidth(390)
	b.AllowProblem(issuer) // its pages are not ours, nor is what they load
	b.AllowProblem("fonts.googleapis.com")
	b.Open("/signin?next=/keys/new")
	fits := func() {
		t.Helper()
		if over := browsertest.Evaluate[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("the page is %d wider than the window", over)
		}
	}
	fits()
	b.Click("a[href^='/signin/oidc/start']")
	b.Type("[name=login]", "anna")
	b.Type("[name=password]", "anything")
	b.Press("\r")
	b.WaitUntil("document.querySelector('[name=prompt][value=consent]')")
	b.Click("button[type=submit]")
	b.WaitUntil("location.pathname === '/keys/new'")
	anna, err := r.Store.People.ByName(t.Context(), "anna")
	if err != nil {
		t.Fatal(err)
	}
	b.Type("[name=name]", "a typed name")
	b.Click("[name=scope][value=mcp]")
	r.stale(anna)
	b.Press("\r")
	b.WaitVisible("button[formaction='/confirm/oidc']")
	fits()
	b.Click("button[formaction='/confirm/oidc']")
	b.Type("[name=login]", "anna")
	b.Type("[name=password]", "anything")
	b.Press("\r")
	b.WaitText("main", "pb_")
	if n := r.keys(anna); n != 1 {
		t.Errorf("%d keys were made", n)
	}
	b.Open("/settings")
	b.WaitText("main", "anna")
	fits()
}
