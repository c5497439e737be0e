package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

// pairing lists the pending requests.
type pairing struct {
	app.Pairs
	// Codes is the number of boards that show a pairing code, by which they are approved.
	Codes int `json:"codes"`
}

// pairs lists the pending requests that the caller may see.
func (c *conn) pairs(ctx context.Context) (p pairing, err error) {
	if p.Pairs, err = callNodes[app.Pairs](ctx, c, api.Pairs, control.Empty{}); err != nil {
		return p, err
	}
	w, err := api.WaitingDevices.Call(ctx, c.Client, control.Empty{})
	p.Codes = w.Count
	return p, err
}

// decision is the decision about a request.
type decision struct {
	Request  string `json:"requestId"`
	Decision string `json:"decision"` // wire.DecisionApproved or wire.DecisionRejected
	// Node is the ID of the device, which is also its ID as a node.
	Node string `json:"nodeId"`
	Name string `json:"displayName,omitempty"`
	// Roles and Scopes are what it may connect as, if it asked for that.
	Roles  []string `json:"roles,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
	// Commands are the approved commands, if the request was about any; Kept are those that the
	// settings still block.
	Commands []string `json:"commands,omitempty"`
	Kept     []string `json:"not_allowed,omitempty"`
	// Policy is the policy by which the node runs programs, if it may and is connected.
	Policy *control.RunPolicy `json:"policy,omitempty"`

	surface bool // the request was about commands
	again   bool // it was connected before
}

// about returns a decision about a request, as requested.
func (p *pairing) about(ref app.PairRef, verdict string) decision {
	d := decision{Request: ref.ID, Decision: verdict, surface: ref.Node}
	for _, r := range p.Devices {
		if !ref.Node && r.RequestID == ref.ID {
			d.Node, d.Name, d.Roles, d.Scopes, d.again = r.DeviceID, r.DisplayName, r.Roles, r.Scopes, r.Repair
		}
	}
	for _, r := range p.Nodes {
		if ref.Node && r.RequestID == ref.ID {
			d.Node, d.Name, d.Commands = r.NodeID, r.DisplayName, r.Commands
		}
	}
	return d
}

// effective records which of the commands can be called.
func (d *decision) effective(commands []string) {
	d.Kept = slices.DeleteFunc(slices.Clone(d.Commands), func(c string) bool { return slices.Contains(commands, c) })
	d.Commands = commands
}

// decide has an operation decide about the request that ref names, and returns the decision.
func (c *conn) decide(ctx context.Context, ref string, o *api.Op[api.PairRef, json.RawMessage],
	verdict string) (d decision, err error) {
	p, err := c.pairs(ctx)
	if err != nil {
		return d, err
	}
	found, wrong := p.Find(ref)
	if wrong != nil {
		return d, wrong
	}
	d = p.about(found, verdict)
	answer, err := callNodes[wire.ApprovedNode](ctx, c, o, api.PairRef{Request: found.ID})
	if isMissing(err) {
		return d, i18n.Message("the request has just expired; the device sends a new one at its next attempt").Errorf()
	}
	if err == nil && found.Node && verdict == wire.DecisionApproved {
		d.effective(answer.Node.Commands)
	}
	return d, err
}

// requestedAccess describes what a device requests.
func (sh *shell) requestedAccess(roles, scopes []string) string {
	what := join(roles)
	if len(scopes) > 0 {
		what += " (" + join(scopes) + ")"
	}
	return msgWantsIn.In(sh.lang, plain(what))
}

// requestedCommands describes the commands that a node wants to run.
func (sh *shell) requestedCommands(commands []string) string {
	if len(commands) == 0 {
		return msgWantsNothing.In(sh.lang)
	}
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = sh.commandLabel(c)
	}
	return msgWantsRun.In(sh.lang, strings.Join(names, ", "))
}

const (
	msgWantsIn      = i18n.Message("to connect as %s")
	msgWantsRun     = i18n.Message("to run the commands %s")
	msgWantsNothing = i18n.Message("to connect as a node without commands")
)
