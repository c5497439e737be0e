package keys_test

import (
	"net/http"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
)

// A form that cannot be undone is sent after a question in a dialog of the page. Its buttons are
// Cancel, which has the focus, and what will be done; Escape is Cancel, and the focus comes back.
func TestAskedBeforeRevoking(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	r.SignedInAs(r.Person).Post("/keys/new", "name", "desk <i>", "scope", "mcp")
	k := only(t, r, r.Person)
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	b := browsertest.New(t, r.URL)
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	b.SetWidth(390)
	b.Open("/keys/" + k.ID)
	ask := func() {
		t.Helper()
		b.Click("form[action$=revoke] button")
		b.WaitText("dialog.agree[role=alertdialog][aria-labelledby=agree-text] #agree-text", "desk <i>")
		b.WaitText("dialog.agree .bad", "Revoke")
		b.WaitUntil("document.activeElement.textContent === 'Cancel' && document.activeElement.closest('dialog.agree')")
		b.WaitUntil("document.documentElement.scrollWidth <= innerWidth")
	}
	for _, key := range []string{"\x1b", "\r", " "} { // Escape closes; the others press Cancel
		ask()
		b.Press(key)
		b.WaitUntil("!document.querySelector('dialog.agree') && document.activeElement.matches('form[action$=revoke] button')")
	}
	if !only(t, r, r.Person).Revoked.IsZero() {
		t.Error("it is revoked, though nobody agreed")
	}
	ask()
	b.Press("\t\r")
	b.WaitUntil("location.pathname === '/keys'")
	if only(t, r, r.Person).Revoked.IsZero() {
		t.Error("it is not revoked")
	}
	// Without JavaScript the form is sent at once, as it is.
	if p := r.SignedInAs(r.Person).Post("/keys/" + k.ID + "/revoke"); p.Status != http.StatusOK {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
}
