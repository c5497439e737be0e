package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"patchbay/internal/pin"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// hashArgs identifies arguments. White space does not matter, but everything else does: of members
// with the same name, for example, programs read different ones.
func hashArgs(args json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, args) == nil {
		args = b.Bytes()
	}
	sum := sha256.Sum256(args)
	return hex.EncodeToString(sum[:])
}

// hashPrepared returns a hash of the arguments and of how and where the provider would carry them
// out: an approval is for that only. The policy of the moment is no part of it.
func hashPrepared(args string, asked *tool.Ask) string {
	var plan map[string]json.RawMessage
	if json.Unmarshal(asked.Prepared, &plan) == nil {
		delete(plan, "policySnapshot")
	}
	all, _ := json.Marshal([]any{hashArgs(json.RawMessage(args)), asked.Kind, asked.Device, plan}) // valid JSON
	return hashArgs(all)
}

// decision waits until a call is decided, for a while. It returns the row as it is then.
func (a *approvals) decision(ctx context.Context, who Access, row store.Approval,
	c *tool.Call) (store.Approval, error) {
	if row.State != store.ApprovalWaiting {
		return row, nil
	}
	decided, forget := a.watch(row.ID)
	defer forget()
	if c.Progress != nil {
		told := "waits for an approval"
		if who.Origin != "" {
			told += ": " + ApprovalURL(who.Origin, row.ID)
		}
		c.Progress(tool.Progress{Message: told})
	}
	wait := a.hub.ApprovalWait
	if c.Capabilities.Tasks {
		wait = approvalLife // the caller does not wait
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	poll := time.NewTicker(approvalPoll)
	defer poll.Stop()
	for over := false; ; {
		now, err := a.hub.Store.Approvals.ByID(ctx, row.ID, time.Now())
		switch {
		case ctx.Err() != nil:
			return row, tool.Fail(tool.Cancelled, "The call was cancelled.", context.Cause(ctx))
		case errors.Is(err, store.ErrNotFound): // nobody decided in time
			return row, nil
		case err != nil:
			return row, unapprovable(err)
		case now.State != store.ApprovalWaiting || over:
			return now, nil
		}
		select {
		case <-decided:
			decided = nil
		case <-poll.C:
		case <-limit.C:
			over = true
		case <-a.hub.drained:
			over = true
		case <-ctx.Done():
		}
	}
}

// question is the question to the caller: a dialog of the program, or the address of the page on
// which its owner decides (2025-11-25 client/elicitation, "Form Mode" and "URL Mode").
func (a *approvals) question(row store.Approval, who Access, dialog bool) *tool.Result {
	told := fmt.Sprintf("%s (%s) needs an approval.", row.Title, row.Provider)
	if dialog {
		told += " Arguments: " + pin.Visible(row.Args)
	}
	params := map[string]any{"message": told}
	if dialog {
		params["requestedSchema"] = json.RawMessage(`{"type":"object","properties":{"decision":{"type":"string",` +
			`"title":"Allow this call?","oneOf":[{"const":"once","title":"Allow once"},{"const":"no","title":"No"}]}},` +
			`"required":["decision"]}`)
	} else {
		params["mode"], params["elicitationId"], params["url"] = "url", row.ID, ApprovalURL(who.Origin, row.ID)
	}
	text, err := json.Marshal(params)
	if err != nil {
		text = nil // it cannot fail
	}
	return &tool.Result{InputRequired: &tool.InputRequired{State: approvalState + row.ID,
		Requests: map[string]tool.Request{approvalName: {Method: "elicitation/create", Params: text}}}}
}

// ApprovalsPath is the page of the calls that wait; that of one call is below it.
const ApprovalsPath = "/approvals"

// ApprovalURL returns the address of the page about a call, at an origin.
func ApprovalURL(origin, id string) string { return origin + ApprovalsPath + "/" + id }

// applyAnswer decides as the program's dialog was answered. A dialog that was closed decides
// nothing.
func (a *approvals) applyAnswer(ctx context.Context, who Access, row store.Approval,
	answer json.RawMessage) (store.Approval, error) {
	var in struct {
		Action  string
		Content struct{ Decision string }
	}
	_ = json.Unmarshal(answer, &in) // what is missing decides nothing
	allow := in.Action == "accept" && in.Content.Decision == "once"
	if !allow && in.Action != "decline" && !(in.Action == "accept" && in.Content.Decision == "no") {
		return row, nil
	}
	now, err := a.hub.DecideApproval(ctx, row.ID, allow,
		Decider{Person: row.Person, Key: row.Key, Address: who.Address, Channel: ByProgram})
	if errors.Is(err, store.ErrNotFound) { // it was decided elsewhere meanwhile, or is too old
		now, err = a.hub.Store.Approvals.ByID(ctx, row.ID, time.Now())
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return row, unapprovable(err)
	}
	return now, nil
}
