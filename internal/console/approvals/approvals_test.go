package approvals_test

import (
	"net/http"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/approvals"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// A person sees what waits for them, allows it once or always, or refuses it, once; nobody else
// sees it or decides, not even an administrator.
func TestApprovals(t *testing.T) {
	r := consoletest.New(t, consoletest.Options{}, func(*consoletest.Rig) []page.Route { return approvals.Routes() })
	ctx := t.Context()
	eve, err := r.Accounts.AddPerson(ctx, "eve", account.RoleAdmin, "en", "")
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := r.Accounts.AddKey(ctx, account.NewKey{Person: r.Person.ID, Name: "Claude",
		Scopes: []string{account.ScopeMCP}, Rules: `{"ask":"owner"}`})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(id, args string) {
		if _, _, err := r.Store.Approvals.Ask(ctx, store.Approval{ID: id, Person: r.Person.ID, Key: key.ID,
			Caller: key.Name, Program: "claude <1>", Tool: "gate_unlock", Title: "Unlock", Provider: "Gate",
			Args: args, ArgsHash: id,
			Asked: time.Now(), Expires: time.Now().Add(time.Hour)}, 9, 9); err != nil {
			t.Fatal(err)
		}
	}
	state := func(id string) string {
		a, err := r.Store.Approvals.ByID(ctx, id, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return a.State
	}
	ada, other := r.SignedInAs(r.Person), r.SignedInAs(eve)
	if p := ada.Get("/approvals"); !p.Contains("No call waits for you") {
		t.Error(p.Text)
	}
	for _, id := range []string{"first", "second", "third"} {
		ask(id, `{"for":"5 <min>"}`)
	}
	if p := ada.Get("/approvals"); !p.Contains("Claude wants to use Unlock", "gate_unlock", "5 &lt;min&gt;",
		"claude &lt;1&gt;", "/approvals/first", "/approvals/third/always") ||
		p.Contains("waits for you.") {
		t.Error(p.Text)
	}
	if p := other.Get("/approvals"); !p.Contains("No call waits for you") {
		t.Error("somebody else sees it", p.Text)
	}
	for _, path := range []string{"/approvals/first", "/approvals/first/always"} {
		if p := other.Post(path, "decision", "once"); p.Status != http.StatusNotFound ||
			state("first") != store.ApprovalWaiting {
			t.Errorf("%s by somebody else: %d", path, p.Status)
		}
	}
	if p := ada.Post("/approvals/first", "decision", "once"); p.Status != http.StatusOK ||
		state("first") != store.ApprovalAllowed {
		t.Error(p.Status, state("first"))
	}
	if p := ada.Get("/approvals/first"); !p.Contains("Allowed.") || p.Contains("5 &lt;min&gt;") {
		t.Error(p.Text)
	}
	if p := ada.Post("/approvals/first", "decision", "no"); p.Status != http.StatusNotFound {
		t.Errorf("decided twice: %d", p.Status)
	}
	// Always is no decision of the form that asks for no password.
	if ada.Post("/approvals/second", "decision", "always"); state("second") != store.ApprovalDenied {
		t.Error(state("second"))
	}
	if p := ada.Post("/approvals/third/always"); p.Status != http.StatusOK || state("third") != store.ApprovalAllowed {
		t.Error(p.Status, state("third"))
	}
	k, err := r.Store.Keys.ByID(ctx, key.ID)
	if err != nil {
		t.Fatal(err)
	}
	if rules, err := hub.ParseRules(k.Rules); err != nil || len(rules.Dangerous) != 1 ||
		rules.Dangerous[0] != "gate_unlock" ||
		rules.Ask != hub.AskOwner {
		t.Error(k.Rules, err)
	}
	acts := map[string]int{}
	events, err := r.Store.AdminEvents.Newest(ctx, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		acts[e.Action]++
	}
	if acts[control.EventCallApproved] != 2 || acts[control.EventCallDenied] != 1 || acts[control.EventKeyRules] != 1 {
		t.Error(acts)
	}
}
