package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/tool"
)

// A computer may want its owner asked before it runs a program. It refuses the call then, and tells
// how it would run the program; when the owner has approved that, it is called again with the
// decision. It keeps by itself what is always allowed.

// runParams are the parameters of system.run that callers give; all others are about approvals
// (src/gateway/node-invoke-system-run-approval.ts, pickSystemRunParams).
var runParams = []string{"command", "rawCommand", "cwd", "env", "timeoutMs", "needsScreenRecording", "agentId",
	"sessionKey", "suppressNotifyOnExit", "runId"}

// plainRun returns the parameters of system.run without those about approvals.
func plainRun(params json.RawMessage) (map[string]json.RawMessage, bool) {
	var all map[string]json.RawMessage
	if json.Unmarshal(params, &all) != nil || all == nil {
		return nil, false
	}
	plain := map[string]json.RawMessage{}
	for _, name := range runParams {
		if v, there := all[name]; there {
			plain[name] = v
		}
	}
	return plain, true
}

// wantsApproval reports whether a node has refused to run a program because its owner has to be
// asked (src/node-host/exec-policy.ts, "approval required").
func wantsApproval(e *wire.Error) bool {
	if e == nil {
		return false
	}
	said, _, ok := wire.NodeErrorOf(e)
	return ok && said.Code == "SYSTEM_RUN_DENIED" && strings.Contains(said.Message, "approval required")
}

// run calls system.run for a tool, and asks the node's owner if the node wants that.
func (n *node) run(ctx context.Context, c *command, call *tool.Call) (wire.InvokeResult, error) {
	plain, ok := plainRun(c.Params)
	if !ok {
		return wire.InvokeResult{}, tool.Fail(tool.BadArgs, "The arguments must be a JSON object.", nil)
	}
	if _, there := plain["agentId"]; !there {
		// Node hosts of 2026.9.6 run nothing that is listed for no agent ("requires an explicit
		// agent id").
		plain["agentId"] = encoded(mainAgent)
	}
	c.Params = encoded(plain)
	if call.Approved != "" && len(call.Prepared) > 0 {
		return n.runApproved(ctx, c, call.Prepared, plain, call.Approved)
	}
	r, e := n.runCommand(ctx, c)
	if e == nil {
		return r, nil
	}
	if !wantsApproval(e) || n.refuse(wire.CommandRunPrepare, []string{wire.ScopeAdmin}, false) != nil {
		return r, e
	}
	prepare := command{Name: wire.CommandRunPrepare, Params: c.Params, Timeout: wire.InvokeTimeout,
		Key: c.Key + ":prepare"}
	prepared, e := n.runCommand(ctx, &prepare)
	if e != nil {
		return prepared, e // it cannot be asked about; the node says why
	}
	var out struct {
		Plan json.RawMessage `json:"plan"`
	}
	if json.Unmarshal(prepared.Value(), &out) != nil || len(out.Plan) == 0 {
		return prepared, tool.Fail(tool.Garbled, "The node has not said how it would run the program.", nil)
	}
	if call.Approved != "" {
		return n.runApproved(ctx, c, out.Plan, plain, call.Approved)
	}
	var plan wire.RunPlan
	_ = json.Unmarshal(out.Plan, &plan) // it is only shown
	return r, &tool.Error{Code: tool.Unapproved, Told: "The owner of the computer has to approve this first.",
		Ask: &tool.Ask{Kind: tool.AskRun, Title: runTitle(&plan), Device: n.id, Prepared: out.Plan}}
}

// checkRun refuses the call of an operator that says itself that it is approved. Names are compared
// without their case, and each occurrence counts: nobody knows how a node reads them.
func checkRun(p *wire.Invoke) *wire.Error {
	for in := jsonrpc.Scan(p.Params); in.Next(); {
		own := slices.ContainsFunc(ownApprovals, func(name string) bool {
			return strings.EqualFold(name, string(in.Key))
		})
		if v := string(in.Value); own && v != "false" && v != "null" {
			return wire.ApprovalsUnavailable
		}
	}
	return nil
}

// ownApprovals are the parameters of system.run in which a gateway passes on an approval
// (src/node-host/invoke-types.ts, SystemRunParams).
var ownApprovals = []string{"approved", "approvalDecision", "approvalSource"}

// runTitle says what is to be run.
func runTitle(plan *wire.RunPlan) string {
	if plan.CommandText != "" {
		return plan.CommandText
	}
	return strings.Join(plan.Argv, " ")
}

// runApproved runs a program as its owner has approved it.
func (n *node) runApproved(ctx context.Context, c *command, plan json.RawMessage, plain map[string]json.RawMessage,
	approved string) (wire.InvokeResult, error) {
	var p wire.RunPlan
	if json.Unmarshal(plan, &p) != nil {
		return wire.InvokeResult{}, tool.Fail(tool.Garbled, "The node has not said how it would run the program.", nil)
	}
	c.Params = approvedRun(plain, plan, &p, map[string]string{tool.ApprovedOnce: wire.AllowOnce,
		tool.ApprovedAlways: wire.AllowAlways}[approved])
	c.Key += ":approved"
	r, e := n.runCommand(ctx, c)
	if e != nil {
		return r, e
	}
	return r, nil
}

// approvedRun returns the parameters of system.run with an approval, which is for exactly the plan.
func approvedRun(plain map[string]json.RawMessage, plan json.RawMessage, p *wire.RunPlan,
	decision string) json.RawMessage {
	plain["command"], plain["systemRunPlan"] = encoded(p.Argv), plan
	plain["rawCommand"], plain["approved"], plain["approvalDecision"] = encoded(p.CommandText), encoded(true),
		encoded(decision)
	for name, value := range map[string]*string{"cwd": p.CWD, "agentId": p.AgentID, "sessionKey": p.SessionKey} {
		if delete(plain, name); value != nil && *value != "" {
			plain[name] = encoded(*value)
		}
	}
	return encoded(plain)
}
