package hub_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/netx"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// asking returns the access of a new key that asks.
func asking(t *testing.T, r *hubtest.Rig, name string) hub.Access {
	t.Helper()
	k, _, err := r.Accounts.AddKey(t.Context(), account.NewKey{Person: r.Person.ID, Name: name,
		Scopes: []string{account.ScopeMCP}, Rules: `{"ask":"owner"}`})
	if err != nil {
		t.Fatal(err)
	}
	return hub.Access{Caller: tool.Caller{Person: r.Person.ID, Key: k.ID}, Rules: k.Rules}
}

func addGate(t *testing.T, r *hubtest.Rig) {
	t.Helper()
	register(t, r.Hub, hub.ProviderRef{ID: "a", Kind: "k", Slug: "gate", Owner: r.Person.ID},
		providerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("unlocked"), nil }),
		tool.Tool{Name: "unlock", Dangerous: true}, tool.Tool{Name: "ring"}, tool.Tool{Name: "peep", Audience: "user"})
}

// awaitApprovals returns the calls that wait once there are n.
func awaitApprovals(t *testing.T, r *hubtest.Rig, n int) []store.Approval {
	t.Helper()
	for {
		list, err := r.Store.Approvals.Waiting(t.Context(), r.Person.ID, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == n {
			return list
		}
		if err := netx.Wait(t.Context(), time.Millisecond); err != nil {
			t.Fatal("no call waits")
		}
	}
}

// A call goes on when it is allowed on another instance.
func TestApprovalOnAnotherInstance(t *testing.T) {
	urls := strings.Split(bustest.Cluster(t, 2), ",")
	db := store.Options{Folder: t.TempDir()}
	here := hubtest.New(t, hubtest.Options{DB: db, BusURL: urls[0], Name: "here"})
	there := hubtest.New(t, hubtest.Options{DB: db, BusURL: urls[1], Name: "here"})
	addGate(t, here)
	who := asking(t, here, "key")
	done := make(chan error, 1)
	go func() {
		_, err := here.Hub.Call(context.Background(), who, "gate_unlock", new(tool.Call))
		done <- err
	}()
	a := awaitApprovals(t, there, 1)[0]
	if _, err := there.Hub.DecideApproval(t.Context(), a.ID, true, hub.Decider{}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := here.Hub.DecideApproval(t.Context(), a.ID, false, hub.Decider{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("decided twice: %v", err)
	}
}

// Rules that ask list the tools, and change nothing about what is denied or allowed.
func TestRulesThatAsk(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{ApprovalWait: time.Millisecond}})
	addGate(t, r)
	for rules, want := range map[string]string{
		``:                                  "gate_ring",
		`{"ask":"owner"}`:                   "gate_peep? gate_ring gate_unlock?",
		`{"ask":"owner","people":true}`:     "gate_peep gate_ring gate_unlock?",
		`{"ask":"owner","dangerous":["*"]}`: "gate_peep gate_ring gate_unlock",
		`{"ask":"owner","deny":["*lock"]}`:  "gate_peep? gate_ring",
		`{"ask":"owner","allow":["*lock"]}`: "gate_unlock?",
		`{"ask":"owner","read_only":true}`:  "",
		// A caller behind which is another: both have to be allowed.
		`[{"ask":"owner"},{"allow":["*"]}]`:                       "gate_ring",
		`[{"dangerous":["*"]},{"ask":"owner","allow":["*"]}]`:     "gate_peep? gate_ring gate_unlock?",
		`[{"dangerous":["*"]},{"dangerous":["*"],"allow":["*"]}]`: "gate_peep gate_ring gate_unlock",
	} {
		v, err := r.Hub.View(r.Person.ID, rules)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, o := range v.Tools {
			name := o.Name
			if v.Asks(name) {
				name += "?"
			}
			list = append(list, name)
		}
		if got := strings.Join(list, " "); got != want {
			t.Errorf("%s: %q, want %q", rules, got, want)
		}
	}
	if _, err := r.Hub.View(r.Person.ID, `{"ask":"anybody"}`); err == nil {
		t.Error("rules ask anybody")
	}
}

// Of many calls at the same time with the same arguments, one is carried out for one approval; and
// a person is not asked about more than fifty calls at a time, nor about more than five of a key.
func TestApprovalsAreLimited(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{ApprovalWait: time.Millisecond}})
	addGate(t, r)
	who := asking(t, r, "key")
	call := func(args string) tool.Code {
		_, err := r.Hub.Call(t.Context(), who, "gate_unlock", &tool.Call{Args: []byte(args)})
		return code(err)
	}
	if got := call(`{"a":2,"b":1}`); got != tool.Unapproved {
		t.Fatal(got)
	}
	if _, err := r.Hub.DecideApproval(t.Context(), awaitApprovals(t, r, 1)[0].ID, true, hub.Decider{}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	got := make(chan tool.Code, 8)
	for range 8 {
		all.Go(func() { got <- call(`{"a":2, "b":1}`) }) // white space does not matter
	}
	all.Wait()
	done := 0
	for range 8 {
		if <-got == "" {
			done++
		}
	}
	if done != 1 {
		t.Errorf("%d calls were carried out for one approval", done)
	}
	for n := range 60 {
		who = asking(t, r, fmt.Sprint("key ", n))
		want := tool.Unapproved
		if len(approvalsNow(t, r)) >= 50 {
			want = tool.RateLimited
		}
		if got := call(`{}`); got != want {
			t.Fatalf("call %d: %s, want %s", n, got, want)
		}
	}
	// Those of a key that was revoked do not count.
	if err := r.Store.Keys.Revoke(t.Context(), approvalsNow(t, r)[0].Key, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := len(approvalsNow(t, r)); got != 49 {
		t.Errorf("%d wait after a key was revoked", got)
	}
	if got := call(`{}`); got != tool.Unapproved {
		t.Error(got)
	}
}

func approvalsNow(t *testing.T, r *hubtest.Rig) []store.Approval {
	t.Helper()
	list, err := r.Store.Approvals.Waiting(t.Context(), r.Person.ID, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A key has no use of the approvals of another, and a hub that stops lets its calls end.
func TestApprovalsOfOthers(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	addGate(t, r)
	one, two := asking(t, r, "one"), asking(t, r, "two")
	done := make(chan tool.Code, 2)
	begin := func(who hub.Access) {
		_, err := r.Hub.Call(context.Background(), who, "gate_unlock", new(tool.Call))
		done <- code(err)
	}
	go begin(one)
	a := awaitApprovals(t, r, 1)[0]
	go begin(two)
	awaitApprovals(t, r, 2)
	if _, err := r.Hub.DecideApproval(t.Context(), a.ID, true, hub.Decider{}); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got != "" {
		t.Error(got)
	}
	if n := len(approvalsNow(t, r)); n != 1 {
		t.Errorf("%d wait", n)
	}
	r.Hub.Drain(t.Context())
	if got := <-done; got != tool.Unapproved {
		t.Errorf("a call of a hub that stops: %s", got)
	}
}

// A set of tools narrows a caller, follows its changes, and has no tools when it is gone.
func TestToolSets(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	addGate(t, r)
	save := func(tools ...string) {
		t.Helper()
		if err := r.Store.ToolSets.Save(t.Context(), store.ToolSet{Owner: r.Person.ID, Name: "home", Tools: tools,
			Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if err := r.Hub.RefreshTools(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(rules, want string) {
		t.Helper()
		v, err := r.Hub.View(r.Person.ID, rules)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(v); got != want {
			t.Errorf("%s: %q, want %q", rules, got, want)
		}
	}
	want(`{"set":"home"}`, "")
	save("*_ring", "*_unlock")
	want(`{"set":"home"}`, "gate_ring")
	want(`{"set":"home","dangerous":["*"]}`, "gate_ring gate_unlock")
	want(`{"set":"home","dangerous":["*"],"allow":["*_unlock"]}`, "gate_unlock")
	want(`[{},{"set":"home","dangerous":["*"]}]`, "gate_ring")
	save("*_peep")
	want(`{"set":"home","people":true}`, "gate_peep")
	if err := r.Store.ToolSets.Remove(t.Context(), r.Person.ID, "home"); err != nil {
		t.Fatal(err)
	}
	if err := r.Hub.RefreshTools(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(`{"set":"home","people":true}`, "")
	if _, err := r.Hub.View(r.Person.ID, `{"set":"Home!"}`); err == nil {
		t.Error("a set with a bad name")
	}
}

// An approval is for the arguments byte by byte, except white space; for a key no more than five
// calls wait; and arguments that nobody would read are refused.
func TestApprovedArguments(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{ApprovalWait: time.Millisecond}})
	addGate(t, r)
	who := asking(t, r, "key")
	call := func(args string) tool.Code {
		_, err := r.Hub.Call(t.Context(), who, "gate_unlock", &tool.Call{Args: []byte(args)})
		return code(err)
	}
	for _, args := range []string{`{"path":"/tmp"}`, `{"path":"\ud800"}`} {
		call(args)
		for _, a := range approvalsNow(t, r) {
			if _, err := r.Hub.DecideApproval(t.Context(), a.ID, true, hub.Decider{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, args := range []string{`{"path":"/etc","path":"/tmp"}`, `{"path":"\udfff"}`, `{"path":"\uFFFD"}`} {
		if got := call(args); got != tool.Unapproved {
			t.Errorf("%s: %q", args, got)
		}
	}
	for n := range 3 {
		want := tool.Unapproved
		if n == 2 {
			want = tool.RateLimited
		}
		if got := call(fmt.Sprintf(`{"n":%d}`, n)); got != want {
			t.Errorf("call %d: %s, want %s", n, got, want)
		}
	}
	if got := call(`{"path":"` + strings.Repeat("x", 65<<10) + `"}`); got != tool.BadArgs {
		t.Error(got)
	}
}

// What the owner forbids while a call waits holds when it is approved.
func TestRulesAreReadAgainAfterTheApproval(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	addGate(t, r)
	who := asking(t, r, "key")
	done := make(chan tool.Code, 1)
	go func() {
		_, err := r.Hub.Call(context.Background(), who, "gate_unlock", new(tool.Call))
		done <- code(err)
	}()
	a := awaitApprovals(t, r, 1)[0]
	if err := r.Store.ToolRules.Set(t.Context(), store.ToolRule{Owner: r.Person.ID, Tool: "gate_*", Rule: hub.RuleDeny,
		Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := r.Hub.RefreshTools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Hub.DecideApproval(t.Context(), a.ID, true, hub.Decider{}); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got != tool.Denied {
		t.Errorf("a call that was forbidden meanwhile: %q", got)
	}
	// It was not carried out, so the approval is left for it.
	if err := r.Store.ToolRules.Set(t.Context(), store.ToolRule{Owner: r.Person.ID, Tool: "gate_*"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Hub.RefreshTools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Hub.Call(t.Context(), who, "gate_unlock", new(tool.Call)); err != nil {
		t.Error(err)
	}
}

// An approval is for the tool that was called, whatever its owner calls it, and others, meanwhile.
func TestApprovedToolIsTheOneThatWaited(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{})
	addGate(t, r)
	register(t, r.Hub, hub.ProviderRef{ID: "b", Kind: "k", Slug: "disk", Owner: r.Person.ID},
		providerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("formatted"), nil }),
		tool.Tool{Name: "format", Dangerous: true})
	who := asking(t, r, "key")
	reword(t, r, store.ToolWords{Tool: "gate_unlock", Name: "open_up"})
	done := make(chan string, 1)
	go func() {
		res, err := r.Hub.Call(context.Background(), who, "open_up", new(tool.Call))
		if err != nil {
			done <- err.Error()
			return
		}
		done <- res.PlainText()
	}()
	a := awaitApprovals(t, r, 1)[0]
	reword(t, r, store.ToolWords{Tool: "gate_unlock", Name: "unlock_it"},
		store.ToolWords{Tool: "disk_format", Name: "open_up"})
	if _, err := r.Hub.DecideApproval(t.Context(), a.ID, true, hub.Decider{}); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got != "unlocked" {
		t.Errorf("the approved call: %s", got)
	}
}

// Further dangerous tools widen rules; everything else does not.
func TestWidens(t *testing.T) {
	for _, c := range []struct {
		before, after string
		want          bool
	}{
		{`{"ask":"owner"}`, `{"ask":"owner","dangerous":["a"]}`, true},
		{`{"dangerous":["a"]}`, `{"dangerous":["b","a"]}`, true},
		{``, `{"dangerous":["a"]}`, true},
		{`{"dangerous":["a"]}`, `{"dangerous":["b"]}`, false},
		{`{"ask":"owner"}`, `{"dangerous":["a"]}`, false},
		{``, `{"deny":["a"]}`, false},
		{`{"allow":["a"]}`, `{"allow":["a","b"]}`, false},
	} {
		if got := hub.Widens(c.before, c.after); got != c.want {
			t.Errorf("%s, %s: %t", c.before, c.after, got)
		}
	}
}
