package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/store"
)

var (
	secretField  = regexp.MustCompile(`<code>([A-Z2-7]{32})</code>`)
	sealedField  = regexp.MustCompile(`name="sealed" value="([^"]+)"`)
	stepField    = regexp.MustCompile(`name="step" value="([^"]+)"`)
	recoveryCode = regexp.MustCompile(`\b((?:[A-Z2-7]{4}-){3}[A-Z2-7]{4})\b`)
)

// field returns what a page has at the group of a pattern.
func (a answer) field(t *testing.T, p *regexp.Regexp) string {
	t.Helper()
	found := p.FindStringSubmatch(a.text)
	if found == nil {
		t.Fatalf("%d at %s has no %s: %s", a.StatusCode, a.at(), p, a.text)
	}
	return html.UnescapeString(found[1])
}

// setsUpApp sets up an authenticator app on the page, and returns the recovery codes.
func (r *rig) setsUpApp() []string {
	r.t.Helper()
	a := r.get("/settings/authenticator")
	form := url.Values{"sealed": {a.field(r.t, sealedField)}, "code": {"000 00x"}}
	secret := a.field(r.t, secretField)
	a = r.post("/settings/authenticator", form)
	if a.StatusCode != http.StatusForbidden || a.field(r.t, secretField) != secret {
		r.t.Fatal("after a wrong code:", a.StatusCode, a.text)
	}
	form.Set("code", account.ShownCode(secret, time.Now()))
	a = r.post("/settings/authenticator", form)
	var codes []string
	for _, m := range recoveryCode.FindAllStringSubmatch(a.text, -1) {
		codes = append(codes, m[1])
	}
	if a.StatusCode != http.StatusOK || len(codes) != 10 {
		r.t.Fatal(a.StatusCode, a.text)
	}
	return codes
}

// With an authenticator app, the password of an administrator opens nothing without a code, neither
// at the sign-in nor when secrets are to be shown.
func TestPasswordAloneOpensNothing(t *testing.T) {
	r := newRig(t, false)
	r.enters(r.Person)
	r.refresh(r.Person)
	codes := r.setsUpApp()
	r.hasEvent("person.authenticator_added")

	r.stale(r.Person)
	a := r.get("/keys/new")
	form := url.Values{"next": {"/keys/new"}, "password": {"correct horse"}}
	if !strings.Contains(a.text, `name="code"`) {
		t.Fatal("asks for no code:", a.text)
	}
	if a = r.post("/confirm", form); a.StatusCode != http.StatusForbidden || !strings.Contains(a.text, "code is wrong") {
		t.Fatal(a.StatusCode, a.text)
	}
	form.Set("code", codes[0])
	if a = r.post("/confirm", form); a.StatusCode != http.StatusOK || a.at() != "/keys/new" {
		t.Fatal(a.StatusCode, a.at())
	}

	// Nor is the old password enough for a new one.
	r.stale(r.Person)
	change := url.Values{"old": {"correct horse"}, "new": {"another horse"}, "again": {"another horse"}}
	if a = r.post("/settings/password", change); !strings.Contains(a.text, `action="/confirm"`) {
		t.Fatal("the password alone changes itself:", a.at(), a.text)
	}
	if a = r.get("/settings/passkeys"); !strings.HasPrefix(a.at(), "/confirm") {
		t.Fatal("the password alone opens", a.at())
	}

	r.web = r.browser()
	a = r.post("/signin", url.Values{"name": {r.Person.Name}, "password": {"correct horse"}, "next": {"/bots"}})
	form = url.Values{"step": {a.field(t, stepField)}, "next": {"/bots"}, "code": {codes[0]}}
	if a = r.get("/bots"); !strings.HasPrefix(a.at(), "/signin") {
		t.Fatal("the password alone opens", a.at())
	}
	if a = r.post("/signin/code", form); a.StatusCode != http.StatusForbidden || a.field(t, stepField) != form.Get("step") {
		t.Fatal("a used code:", a.StatusCode, a.text)
	}
	r.hasEvent("person.refused")
	r.counted("refused", 2)
	form.Set("code", codes[1])
	if a = r.post("/signin/code", form); a.StatusCode != http.StatusOK || a.at() != "/bots" {
		t.Fatal(a.StatusCode, a.at())
	}
	if a = r.get("/signin/code"); a.at() != "/guide" {
		t.Error("after a reload:", a.at())
	}
	form.Set("step", "")
	if a = r.post("/signin/code", form); a.StatusCode != http.StatusConflict ||
		!strings.Contains(a.text, `name="password"`) {
		t.Fatal(a.StatusCode, a.text)
	}

	a = r.post("/settings/authenticator/codes", nil)
	if fresh := a.field(t, recoveryCode); fresh == codes[2] {
		t.Error("the recovery codes stay")
	}
	if a = r.post("/settings/authenticator/remove", nil); a.at() != "/settings?without_code=1" {
		t.Fatal(a.text)
	}
	r.web = r.browser()
	if a = r.post("/signin", url.Values{"name": {r.Person.Name}, "password": {"correct horse"}}); a.at() != "/guide" {
		t.Error(a.StatusCode, a.at())
	}
}

// An administrator removes the app of somebody who lost it; nobody else does.
func TestLostAuthenticator(t *testing.T) {
	r := newRig(t, false)
	bob, err := r.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	r.enters(bob)
	r.refresh(bob)
	r.setsUpApp()
	if a := r.post("/settings/people/"+r.Person.ID+"/second-steps/remove", nil); a.StatusCode != http.StatusForbidden {
		t.Error("a member removes apps:", a.StatusCode)
	}
	r.enters(r.Person)
	r.refresh(r.Person)
	path := "/settings/people/" + bob.ID
	if a := r.get(path); !strings.Contains(a.text, path+"/second-steps/remove") {
		t.Fatal(a.text)
	}
	if a := r.post(path+"/second-steps/remove", nil); a.StatusCode != http.StatusOK ||
		strings.Contains(a.text, "/second-steps/remove") {
		t.Error(a.StatusCode, a.text)
	}
	r.hasEvent("person.second_steps_removed")
	if a := r.post(path+"/second-steps/remove", nil); a.StatusCode != http.StatusNotFound {
		t.Error(a.StatusCode)
	}
}

// refresh makes the last entry of p's password new.
func (r *rig) refresh(p store.Person) {
	r.t.Helper()
	list, err := r.Store.SignIns.ByPerson(r.t.Context(), p.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, x := range list {
		if err := r.Store.SignIns.Replace(r.t.Context(), x.ID, x.ID, time.Now()); err != nil {
			r.t.Fatal(err)
		}
	}
}
