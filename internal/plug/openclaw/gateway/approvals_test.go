package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// ask stores a call that waits, and tells operators of it. It returns its id.
func (r *rig) ask(a store.Approval) string {
	r.t.Helper()
	a.ID, a.ArgsHash = uuid.NewString(), uuid.NewString()
	a.Person, a.Caller, a.Tool, a.Title, a.Provider = r.Person.ID, "assistant", "node-desk_system_run", "git status",
		"Desk"
	a.Asked = time.Now()
	a.Expires = a.Asked.Add(time.Minute)
	if a.Kind != "" {
		a.Device = strings.Repeat("d", 64)
	}
	a, _, err := r.Store.Approvals.Ask(r.t.Context(), a, 50, 50)
	must(r.t, err)
	r.g.ApprovalAsked(r.t.Context(), a)
	return a.ID
}

// decide decides as an operator wants it, without the checks of package control.
func (r *rig) decide(ctx context.Context, d gateway.Decision) error {
	r.lastDecision.Store(&d)
	a, err := r.Hub.DecideApproval(ctx, d.Approval, d.Decision != wire.Deny, hub.Decider{Person: d.Person,
		Key: d.Key, Channel: "openclaw", Always: d.Decision == wire.AllowAlways})
	if err == nil {
		r.g.ApprovalDecided(ctx, a)
	}
	return err
}

// An operator hears of a program that a node is to run, and decides about it.
func TestOperatorDecides(t *testing.T) {
	r := newRig(t, nil)
	r.Hub.OnApproval(r.g.ApprovalAsked)
	computer := &askingNode{}
	n := r.node(sim.Options{Name: "Desk", Commands: []string{wire.CommandRun, wire.CommandRunPrepare},
		Handler: computer.handle}, true)
	must(t, awaitRow(r.operator(r.token), n.ID(), func(d wire.NodeDetail) bool { return len(d.Commands) == 2 }))
	op := r.operator(r.token, wire.ScopeApprovals)
	_, bobs := r.person("bob", account.ScopeOperator)
	narrow := r.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}, Rules: `{"allow":["board-*"]}`})
	strangers := []*operator{r.operator(bobs, wire.ScopeRead, wire.ScopeApprovals),
		r.operator(narrow, wire.ScopeRead, wire.ScopeApprovals), r.operator(r.token, wire.ScopeRead)}
	key, _, err := r.Accounts.AddKey(t.Context(), account.NewKey{Person: r.Person.ID, Name: "assistant",
		Scopes: []string{account.ScopeMCP}})
	must(t, err)
	over := make(chan error, 1)
	go func() {
		_, err := r.Hub.Call(limited(t), hub.Access{Caller: tool.Caller{Person: r.Person.ID, Key: key.ID, Channel: "mcp"},
			Rules: `{"dangerous":["node-*"]}`}, "node-desk-"+n.ID()[:6]+"_system_run",
			&tool.Call{Args: json.RawMessage(`{"command":["git","status"],"cwd":"/home",` +
				`"env":{"LANG":"C"},"CWD":"/tmp","ENV":null,"Command":["ls"]}`)})
		over <- err
	}()
	type asked struct {
		ID      string
		Request wire.ExecRequest
	}
	a := decoded[asked](t, op.await(wire.EventExecRequested, nil))
	if q := a.Request; q.Command != "git status" || q.NodeID != n.ID() || q.Host != "node" || *q.CWD != "/home" ||
		q.EnvKeys[0] != "LANG" || q.WarningText != "asked by assistant; in /home; with the variables LANG" ||
		len(q.AllowedDecisions) != 3 {
		t.Errorf("%+v", q)
	}
	if list := call[[]asked](op, wire.MethodExecList, m{}); len(list) != 1 || list[0].ID != a.ID {
		t.Errorf("%+v", list)
	}
	if got := call[wire.ExecApproval](op, wire.MethodExecGet, m{"id": a.ID}); got.CommandText != "git status" {
		t.Errorf("%+v", got)
	}
	if list := call[[]asked](op, wire.MethodPluginList, m{}); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	for _, o := range strangers {
		if o == strangers[0] {
			if e := o.refused(wire.MethodExecResolve, m{"id": a.ID, "decision": wire.AllowOnce}); e.Message !=
				wire.ApprovalUnknown.Message {
				t.Errorf("another person: %v", e)
			}
			continue
		}
		if e := o.refused(wire.MethodExecResolve, m{"id": a.ID, "decision": wire.AllowOnce}); !strings.Contains(e.Message,
			wire.ScopeApprovals) {
			t.Errorf("without the scope: %v", e)
		}
	}
	if e := op.refused(wire.MethodPluginResolve, m{"id": a.ID, "decision": wire.AllowOnce}); e.Message !=
		wire.ApprovalUnknown.Message {
		t.Errorf("of another kind: %v", e)
	}
	call[m](op, wire.MethodExecResolve, m{"id": a.ID, "decision": wire.AllowOnce})
	must(t, <-over)
	if got := decoded[wire.ApprovalResolved](t, op.await(wire.EventExecResolved, nil)); got.ID != a.ID ||
		got.Decision != wire.AllowOnce || !strings.Contains(got.ResolvedBy, "openclaw") {
		t.Errorf("%+v", got)
	}
	call[m](op, wire.MethodExecResolve, m{"id": a.ID, "decision": wire.AllowOnce}) // the same again
	if e := op.refused(wire.MethodExecResolve, m{"id": a.ID, "decision": wire.Deny}); e.Message !=
		wire.ApprovalDecided.Message {
		t.Errorf("decided twice: %v", e)
	}
	for _, o := range strangers {
		call[m](o, wire.MethodHealth, m{}) // what was sent before it has arrived
		o.mu.Lock()
		for _, f := range o.events {
			if strings.Contains(f.Event, "approval") {
				t.Errorf("a stranger heard %s", f.Payload)
			}
		}
		o.mu.Unlock()
	}
}

// A call of a bot cannot be allowed always, and the first decision holds.
func TestApprovalSnapshots(t *testing.T) {
	r := newRig(t, nil)
	op := r.operator(r.token, wire.ScopeApprovals)
	id := r.ask(store.Approval{Args: `{"level":3}`})
	type settled struct {
		Applied  bool
		Approval wire.ApprovalSnapshot
	}
	got := call[settled](op, wire.MethodApprovalGet, m{"id": id}).Approval
	if p := got.Presentation; got.Status != wire.StatusPending || got.ApprovalOutcome != nil ||
		got.URLPath != "/approvals/"+id || p.Detail != `{"level":3}` || len(p.AllowedDecisions) != 2 {
		t.Errorf("%+v", got)
	}
	resolve := m{"id": id, "kind": wire.ApprovalPlugin, "decision": wire.AllowAlways}
	if e := op.refused(wire.MethodApprovalResolve, resolve); e.Message != wire.DecisionUnavailable.Message {
		t.Errorf("%v", e)
	}
	resolve["decision"] = wire.Deny
	if got := call[settled](op, wire.MethodApprovalResolve, resolve); !got.Applied ||
		got.Approval.Status != wire.StatusDenied || got.Approval.Decision != wire.Deny {
		t.Errorf("%+v", got)
	}
	resolve["decision"] = wire.AllowOnce
	if got := call[settled](op, wire.MethodApprovalResolve, resolve); got.Applied ||
		got.Approval.Decision != wire.Deny ||
		time.Since(time.UnixMilli(got.Approval.ResolvedAtMS)).Abs() > time.Minute {
		t.Errorf("%+v", got)
	}
	// Nobody allows what they cannot see.
	long := r.ask(store.Approval{Args: `{"text":"` + strings.Repeat("x", 20<<10) + `"}`})
	resolve["id"], resolve["decision"] = long, wire.AllowOnce
	if e := op.refused(wire.MethodApprovalResolve, resolve); e.Message != wire.DecisionUnavailable.Message {
		t.Errorf("%v", e)
	}
	key, _, err := r.Accounts.AddKey(t.Context(), account.NewKey{Person: r.Person.ID, Name: "assistant",
		Scopes: []string{account.ScopeMCP}})
	must(t, err)
	ofKey := m{"id": r.ask(store.Approval{Key: key.ID}), "decision": wire.AllowAlways, "grantExpiresInDays": 3}
	if e := op.refused(wire.MethodPluginResolve, ofKey); !strings.Contains(e.Message, "grantExpiresInDays") {
		t.Errorf("%v", e)
	}
	delete(ofKey, "grantExpiresInDays")
	call[m](op, wire.MethodPluginResolve, ofKey)
	resolve["id"] = "nothing"
	if e := op.refused(wire.MethodApprovalResolve, resolve); e.Message != wire.ApprovalNotFound.Message {
		t.Errorf("%v", e)
	}
}

// A device decides as the key with which it got its token, so that no key decides about its own
// calls by way of a device.
func TestDeviceDecidesAsItsKey(t *testing.T) {
	r := newRig(t, nil)
	key, secret, err := r.Accounts.AddKey(t.Context(), account.NewKey{Person: r.Person.ID, Name: "operator",
		Scopes: []string{account.ScopeOperator}})
	must(t, err)
	device := wire.NewIdentity()
	hello := sim.Operator(secret, wire.ScopeApprovals)
	first, err := r.dial(hello, &device)
	must(t, err)
	hello.Auth = &wire.Auth{DeviceToken: first.Hello.Auth.DeviceToken}
	op, err := r.dial(hello, &device)
	must(t, err)
	for _, o := range []*operator{first, op} {
		call[m](o, wire.MethodPluginResolve, m{"id": r.ask(store.Approval{}), "decision": wire.Deny})
		if d := r.lastDecision.Load(); d.Key != key.ID || d.Person != r.Person.ID || d.Decision != wire.Deny {
			t.Errorf("%+v", d)
		}
	}
}

// The console lets a device in that wants to decide about calls.
func TestDeviceThatDecidesIsLetIn(t *testing.T) {
	r := newRig(t, quick)
	device := wire.NewIdentity()
	hello := sim.Operator(r.token, wire.ScopeApprovals)
	if _, err := r.dial(hello, &device); refusal(t, err) != wire.DetailPairing {
		t.Fatal(err)
	}
	boss := r.operator(r.token, wire.ScopePairing)
	pending := call[wire.DevicePairs](boss, wire.MethodDevicePairList, m{}).Pending
	if len(pending) != 1 {
		t.Fatalf("%+v", pending)
	}
	_, err := r.g.Do(t.Context(), gateway.Operator{Person: r.Person}, wire.MethodDeviceApprove,
		m{"requestId": pending[0].RequestID})
	must(t, err)
	op, err := r.dial(hello, &device)
	must(t, err)
	call[m](op, wire.MethodPluginResolve, m{"id": r.ask(store.Approval{}), "decision": wire.Deny})
}
