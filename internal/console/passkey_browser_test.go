package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/webauthn"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
)

// In a browser with an authenticator, somebody adds a passkey, signs in with it and confirms with
// it. The password alone opens nothing from then on, and a recovery code replaces a lost passkey.
func TestPasskeysInABrowser(t *testing.T) {
	browsertest.Path(t)
	r := newRig(t, false)
	b := browsertest.New(t, strings.Replace(r.url, "127.0.0.1", "localhost", 1))
	b.SetWidth(390)
	b.AcceptDialogs()
	b.AddAuthenticator(webauthn.VirtualAuthenticatorOptions{Protocol: webauthn.AuthenticatorProtocolCtap2,
		Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true, HasUserVerification: true,
		IsUserVerified: true, AutomaticPresenceSimulation: true})
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	fits := func() {
		t.Helper()
		if over := browsertest.Evaluate[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("the page is %d wider than the window", over)
		}
	}
	b.Open("/settings/passkeys")
	fits()
	b.Type("[name=name]", "Pixel")
	b.Press("\r")
	b.WaitText("main", "Recovery codes")
	fits()
	code := recoveryCode.FindString(b.Text("#codes-text"))
	if code == "" {
		t.Fatal(b.Text("main"))
	}
	b.Open("/settings")
	b.WaitText("main", "Pixel")

	// Nobody is signed in now; the browser offers the passkey.
	r.signOutAll(r.Person.ID)
	b.Open("/signin?next=/bots")
	fits()
	b.Click("[data-passkey] button")
	b.WaitUntil("location.pathname === '/bots'")

	// A form that waits is carried out after a confirmation by passkey.
	b.Open("/keys/new")
	b.Type("[name=name]", "a typed name")
	b.Click("[name=scope][value=mcp]")
	r.stale(r.Person)
	b.Press("\r")
	b.Click("[action='/confirm/passkey'] button")
	b.WaitText("main", "pb_")

	// With the password alone, one gets no further than to a code.
	r.signOutAll(r.Person.ID)
	b.Open("/signin")
	b.Type("[name=name]", r.Person.Name)
	b.Type("[name=password]", "correct horse")
	b.Press("\r")
	b.WaitVisible("[name=code]")
	fits()
	b.Type("[name=code]", code)
	b.Press("\r")
	b.WaitVisible("nav")

	// A passkey that was removed is refused.
	b.Open("/settings")
	b.Click("[action^='/settings/passkeys/'] button")
	b.WaitText("main", "The passkey is removed")
	r.hasEvent("person.passkey_removed")
	if x, err := r.Accounts.SecondSteps(t.Context(), r.Person.ID); err != nil || x.Any() {
		t.Error(x, err)
	}
}

// signOutAll ends all sign-ins of a person.
func (r *rig) signOutAll(person string) {
	r.t.Helper()
	if err := r.Accounts.SignOutOthers(r.t.Context(), person, ""); err != nil {
		r.t.Fatal(err)
	}
}
