package gateway_test

import (
	"net/http"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/control"
)

// The page with a setup code says by itself when a node uses the code, and leads to the node when
// that has connected.
func TestInviteIsLive(t *testing.T) {
	r := newRig(t)
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	i, err := r.Accounts.InviteNode(t.Context(), r.Person.ID, "", "wss://board.example.org")
	if err != nil {
		t.Fatal(err)
	}
	r.say(control.PairInvite, `{"setupCode":"eyJ1","joinUrl":"https://board.example.org/j/abc","expiresAtMs":1795297812247}`)
	b := browsertest.New(t, r.URL)
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	b.SetWidth(390)
	b.Open("/gateway")
	b.Click("form[action='/gateway/invite'] button")
	b.WaitText("#invited[role=status]", "Waiting for the computer")
	if err := r.Accounts.UseInvite(t.Context(), i.ID, "7a7b7c7d7e7f"); err != nil {
		t.Fatal(err)
	}
	b.WaitText("#invited", "7a7b7c7d7e7f has used the code and is connecting.")
	r.say(control.NodePaired, `{"paired":[{"nodeId":"7a7b7c7d7e7f","displayName":"Attic","connected":true,"commands":["a"]}]}`)
	b.WaitText("#invited", "Attic has connected with this code.")
	b.WaitVisible("#invited a[href='/gateway/nodes/7a7b7c7d7e7f']")
	if p := r.SignedInAs(r.Bob).Get("/gateway/invites/" + i.ID + "/live"); p.Status != http.StatusNotFound {
		t.Errorf("bob gets %d: %s", p.Status, p.Text)
	}
}
