package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// askingNode executes system.run as a node host does whose policy asks: without a decision it
// refuses, and it remembers what is always allowed.
type askingNode struct {
	mu     sync.Mutex
	always bool
	calls  []string // the decisions that came; "-" for none
}

func (n *askingNode) handle(_ context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Command  []string
		Approved bool
		Decision string
	}
	var all map[string]json.RawMessage
	_ = json.Unmarshal(params, &all)
	_ = json.Unmarshal(params, &p)
	_ = json.Unmarshal(all["approvalDecision"], &p.Decision)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case command == wire.CommandRunPrepare:
		return json.RawMessage(`{"plan":{"argv":["/usr/bin/git","status"],"cwd":"/home","commandText":"git status",` +
			`"agentId":"main","sessionKey":null,"policySnapshot":{"security":"allowlist"}}}`), nil
	case command != wire.CommandRun:
		return nil, sim.NotSupported
	case n.always:
		return json.RawMessage(`{"exitCode":0}`), nil
	case p.Decision == "":
		n.calls = append(n.calls, "-")
		return nil, sim.Fail("SYSTEM_RUN_DENIED", "SYSTEM_RUN_DENIED: approval required")
	}
	n.calls = append(n.calls, p.Decision)
	if !p.Approved || p.Command[0] != "/usr/bin/git" ||
		!strings.Contains(string(all["systemRunPlan"]), "policySnapshot") {
		return nil, sim.Fail("INVALID_REQUEST", "the plan is missing: "+string(params))
	}
	n.always = p.Decision == wire.AllowAlways
	return json.RawMessage(`{"exitCode":0}`), nil
}

// A node that wants its owner asked gets the decision, made as about any other call that waits.
func TestRunsAsk(t *testing.T) {
	r := newRig(t, nil)
	asked := make(chan store.Approval, 10)
	r.Hub.OnApproval(func(_ context.Context, a store.Approval) { asked <- a })
	computer := &askingNode{}
	n := r.node(sim.Options{Name: "Desk", Commands: []string{wire.CommandRun, wire.CommandRunPrepare},
		Handler: computer.handle}, true)
	key, _, err := r.Accounts.AddKey(t.Context(), account.NewKey{Person: r.Person.ID, Name: "assistant",
		Scopes: []string{account.ScopeMCP}})
	must(t, err)
	who := hub.Access{Caller: tool.Caller{Person: r.Person.ID, Key: key.ID, Channel: "mcp"},
		Rules: `{"dangerous":["node-*"]}`}
	name := "node-desk-" + n.ID()[:6] + "_system_run"
	must(t, awaitRow(r.operator(r.token), n.ID(), func(d wire.NodeDetail) bool { return len(d.Commands) == 2 }))
	run := func(decide func(store.Approval)) error {
		t.Helper()
		over := make(chan struct{})
		go func() {
			defer close(over)
			select {
			case a := <-asked:
				decide(a)
			case <-t.Context().Done():
			}
		}()
		_, err := r.Hub.Call(limited(t), who, name, &tool.Call{
			Args: json.RawMessage(`{"command":["git","status"],"approved":true,"approvalDecision":"allow-always"}`)})
		<-over
		return err
	}
	by := func(allow, always bool) func(store.Approval) {
		return func(a store.Approval) {
			if a.Kind != tool.AskRun || a.Title != "git status" || a.Device != n.ID() || a.Provider != "Desk" {
				t.Errorf("asked is %+v", a)
			}
			if _, err := r.Hub.DecideApproval(context.Background(), a.ID, allow, hub.Decider{Person: r.Person.ID,
				Channel: "console", Always: always}); err != nil {
				t.Error(err)
			}
		}
	}
	if err := run(by(true, false)); err != nil {
		t.Errorf("allowed once: %v", err)
	}
	if err := run(by(true, true)); err != nil {
		t.Errorf("allowed always: %v", err)
	}
	computer.mu.Lock()
	if got := strings.Join(computer.calls, " "); got != "- allow-once - allow-always" {
		t.Errorf("the node was told %s", got)
	}
	computer.mu.Unlock()
	status := tool.Call{Args: json.RawMessage(`{"command":["git","status"]}`)}
	if _, err := r.Hub.Call(limited(t), who, name, &status); err != nil {
		t.Errorf("what is always allowed: %v", err)
	}
	computer.mu.Lock()
	computer.always = false
	computer.mu.Unlock()
	var e *tool.Error
	if err := run(by(false, false)); !errors.As(err, &e) || e.Code != tool.Denied || e.Ask != nil {
		t.Errorf("refused: %v", err)
	}
	operator := r.operator(r.token, wire.ScopeRead, wire.ScopeWrite, wire.ScopeAdmin)
	for _, own := range []string{
		`"approved":true`, `"approved":true,"APPROVED":false`, `"approved":true,"approved":null`,
		`"approvalDecision":"allow-always","ApprovalDecision":null`, `"\u0061pproved":true`, `"approvalSource":"x"`,
	} {
		refused := operator.refused(wire.MethodNodeInvoke, invokeParams(n.ID(), wire.CommandRun,
			json.RawMessage(`{"command":["git"],`+own+`}`)))
		if refused.Detail() != "APPROVALS_UNAVAILABLE" {
			t.Errorf("an operator that says itself that it is approved: %s: %v", own, refused)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	r.Hub.WaitForCallRecords(ctx)
	calls, err := r.Store.Calls.Newest(t.Context(), r.Person.ID, time.Now().Add(time.Hour), 10)
	must(t, err)
	outcomes := map[string]int{}
	for _, c := range calls {
		outcomes[c.Outcome+c.Code]++
	}
	if outcomes["done"] != 3 || outcomes["refuseddenied"] != 1 {
		t.Errorf("the trail has %v", outcomes)
	}
	events, err := r.Store.AdminEvents.Newest(t.Context(), "", 50)
	must(t, err)
	if !strings.Contains(string(encode(t, events)), "(git)") {
		t.Errorf("nothing says what was approved: %s", encode(t, events))
	}
}
