package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/pin"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// Operators hear of the calls that wait for their person, and decide about them: of the programs
// that a node is to run as exec approvals, and of all others as plugin approvals.

// Decision is a decision of an operator about a call that waits.
type Decision struct {
	Person, Address string
	// Key is the id of the key that the operator shows, or has got its device token with: a key
	// does not decide about its own calls.
	Key      string
	Approval string // id of the call
	Decision string // one of wire.AllowOnce, wire.AllowAlways and wire.Deny
}

// approvalEvents are the events about a kind of calls: it waits, and it is decided.
var approvalEvents = map[string][2]string{
	wire.ApprovalExec:   {wire.EventExecRequested, wire.EventExecResolved},
	wire.ApprovalPlugin: {wire.EventPluginRequested, wire.EventPluginResolved},
}

func approvalKind(a *store.Approval) string {
	if a.Kind == tool.AskRun {
		return wire.ApprovalExec
	}
	return wire.ApprovalPlugin
}

// allowedDecisions returns the decisions about a call. That of a bot cannot be allowed always, and
// one whose arguments are too long to be shown cannot be allowed here.
func allowedDecisions(a *store.Approval) []string {
	switch {
	case a.Kind == "" && utf8.RuneCountInString(pin.Visible(a.Args)) > wire.MaxApprovalDetail:
		return []string{wire.Deny}
	case a.Kind == "" && a.Key == "":
		return []string{wire.AllowOnce, wire.Deny}
	}
	return []string{wire.AllowOnce, wire.AllowAlways, wire.Deny}
}

// decisionOf returns how a call was decided; empty: it waits.
func decisionOf(a *store.Approval) string {
	switch {
	case a.State == store.ApprovalWaiting:
		return ""
	case a.State == store.ApprovalDenied:
		return wire.Deny
	case a.Always:
		return wire.AllowAlways
	}
	return wire.AllowOnce
}

// approvalAsker says who calls.
func approvalAsker(a *store.Approval) string {
	who := a.Caller
	if a.Program != "" {
		who += " (" + a.Program + ")"
	}
	return "asked by " + who
}

// execRequest returns what a node is to run. The arguments are read as they are passed on to the
// node, and shown as [pin.Visible] writes them.
func execRequest(a *store.Approval) wire.ExecRequest {
	args, _ := plainRun(json.RawMessage(a.Args)) // nil once it is decided
	text := func(name string) *string {
		var s *string
		if json.Unmarshal(args[name], &s) != nil || s == nil {
			return nil
		}
		visible := pin.Visible(*s)
		return &visible
	}
	r := wire.ExecRequest{Command: cmp.Or(a.Title, a.Tool), CWD: text("cwd"), NodeID: a.Device, Host: wire.HostNode,
		WarningText: approvalAsker(a), AgentID: text("agentId"), SessionKey: text("sessionKey"),
		AllowedDecisions: allowedDecisions(a)}
	var command []string
	if _ = json.Unmarshal(args["command"], &command); strings.HasSuffix(r.Command, "…") && len(command) > 0 {
		// The title is short. Whoever decides has to see all.
		r.Command = pin.Visible(strings.Join(command, " "))
	}
	if r.CWD != nil {
		r.WarningText += "; in " + *r.CWD
	}
	var env map[string]json.RawMessage
	if _ = json.Unmarshal(args["env"], &env); len(env) > 0 {
		for _, name := range slices.Sorted(maps.Keys(env)) {
			r.EnvKeys = append(r.EnvKeys, pin.Visible(name))
		}
		r.WarningText += "; with the variables " + strings.Join(r.EnvKeys, ", ")
	}
	return r
}

// pluginRequest returns what a call does that is not about a program.
func pluginRequest(a *store.Approval) wire.PluginRequest {
	return wire.PluginRequest{Title: cut(cmp.Or(a.Title, a.Tool), wire.MaxApprovalTitle),
		Description: cut(a.Provider+", "+approvalAsker(a), wire.MaxApprovalDescription),
		Detail:      cut(pin.Visible(a.Args), wire.MaxApprovalDetail), Severity: wire.SeverityWarning,
		PluginID: "patchbay", ToolName: a.Tool, AllowedDecisions: allowedDecisions(a)}
}

func approvalRequest(a *store.Approval) any {
	if approvalKind(a) == wire.ApprovalExec {
		return execRequest(a)
	}
	return pluginRequest(a)
}

func waitingApproval(a *store.Approval) wire.Approval {
	return wire.Approval{ID: a.ID, Kind: approvalKind(a), Request: approvalRequest(a),
		CreatedAtMS: a.Asked.UnixMilli(), ExpiresAtMS: a.Expires.UnixMilli()}
}

// ApprovalAsked tells operators of a call that waits, as [hub.Hub.OnApproval] wants it.
func (g *Gateway) ApprovalAsked(_ context.Context, a store.Approval) {
	g.broadcast(broadcastEvent{Owner: a.Person, Scope: wire.ScopeApprovals, Event: approvalEvents[approvalKind(&a)][0],
		Payload: encoded(waitingApproval(&a))})
}

// ApprovalDecided tells operators of a decision, as [hub.Hub.OnDecision] wants it.
func (g *Gateway) ApprovalDecided(_ context.Context, a store.Approval) {
	g.broadcast(broadcastEvent{Owner: a.Person, Scope: wire.ScopeApprovals, Event: approvalEvents[approvalKind(&a)][1],
		Payload: encoded(wire.ApprovalResolved{ID: a.ID, Decision: decisionOf(&a), ResolvedBy: a.By,
			TS: hub.DecidedAt(a).UnixMilli(), Request: approvalRequest(&a)})})
}

// approvalList returns a method that lists the calls of a kind that wait.
func (g *Gateway) approvalList(kind string) func(context.Context, *conn, []byte) (any, *wire.Error) {
	return func(ctx context.Context, c *conn, _ []byte) (any, *wire.Error) {
		out := []wire.Approval{}
		list, err := g.Store.Approvals.Waiting(ctx, c.person.ID, time.Now())
		if err != nil {
			return nil, g.internalError(err)
		}
		for _, a := range list {
			if approvalKind(&a) == kind {
				out = append(out, waitingApproval(&a))
			}
		}
		return out, nil
	}
}

// approval returns a call that waits for the operator's person, or was decided a short time ago;
// unknown if there is none.
func (g *Gateway) approval(ctx context.Context, c *conn, id, kind string, unknown *wire.Error) (store.Approval,
	*wire.Error) {
	a, err := g.Store.Approvals.ByID(ctx, id, time.Now())
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && (a.Person != c.person.ID ||
		kind != "" && approvalKind(&a) != kind):
		return a, unknown
	case err != nil:
		return a, g.internalError(err)
	}
	return a, nil
}

// execApproval serves exec.approval.get.
func (g *Gateway) execApproval(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	a, e := g.approval(ctx, c, field(params, "id"), wire.ApprovalExec, wire.ApprovalUnknown)
	if e == nil && a.State != store.ApprovalWaiting {
		e = wire.ApprovalUnknown
	}
	if e != nil {
		return nil, e
	}
	r := execRequest(&a)
	return wire.ExecApproval{ID: a.ID, CommandText: r.Command, AllowedDecisions: r.AllowedDecisions, Host: r.Host,
		NodeID: r.NodeID, AgentID: r.AgentID, ExpiresAtMS: a.Expires.UnixMilli()}, nil
}

// approvalResolve returns the method that decides about calls of a kind.
func (g *Gateway) approvalResolve(kind string) func(context.Context, *conn, []byte) (any, *wire.Error) {
	return func(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
		a, applied, e := g.decide(ctx, c, params, kind, wire.ApprovalUnknown)
		if e == nil && !applied && decisionOf(&a) != field(params, "decision") {
			e = wire.ApprovalDecided
		}
		if e != nil {
			return nil, e
		}
		return map[string]bool{"ok": true}, nil
	}
}

// approvalGet serves approval.get, which is for all kinds.
func (g *Gateway) approvalGet(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	a, e := g.approval(ctx, c, field(params, "id"), "", wire.ApprovalNotFound)
	if e != nil {
		return nil, e
	}
	return map[string]any{"approval": approvalSnapshot(&a)}, nil
}

// approvalSettle serves approval.resolve. It returns the decision that holds, whoever has made it.
func (g *Gateway) approvalSettle(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	a, applied, e := g.decide(ctx, c, params, field(params, "kind"), wire.ApprovalNotFound)
	if e != nil {
		return nil, e
	}
	s := approvalSnapshot(&a)
	if applied {
		s.Decision = field(params, "decision") // what a key may always do is kept with the key
	}
	return map[string]any{"applied": applied, "approval": s}, nil
}

// decide decides about a call. Applied is false if it was decided before.
func (g *Gateway) decide(ctx context.Context, c *conn, params []byte, kind string,
	unknown *wire.Error) (a store.Approval, applied bool, e *wire.Error) {
	a, e = g.approval(ctx, c, field(params, "id"), kind, unknown)
	decision := field(params, "decision")
	switch {
	case e != nil:
		return a, false, e
	case a.State != store.ApprovalWaiting:
		return a, false, nil
	case !slices.Contains(allowedDecisions(&a), decision):
		return a, false, wire.DecisionUnavailable
	case g.Decide == nil:
		return a, false, unknown
	case hasEnd(params):
		return a, false, wire.Invalid("grantExpiresInDays is not supported here: what is always allowed has no end")
	}
	key, err := g.keyOf(ctx, c)
	switch {
	case err != nil:
		return a, false, g.internalError(err)
	case key == "" && c.device != "":
		return a, false, wire.Invalid("it is not known with which key this device was paired: connect with a key")
	}
	err = g.Decide(ctx, Decision{Person: c.person.ID, Key: key, Address: c.address.String(), Approval: a.ID,
		Decision: decision})
	refusal, refused := errors.AsType[*problem.Error](err)
	switch {
	case err == nil:
		applied = true
	case problem.Is(err, problem.NotFound): // it was decided a moment ago, or is too old
	case refused:
		return a, false, wire.Invalid(refusal.Error())
	default:
		return a, false, g.internalError(err)
	}
	a, e = g.approval(ctx, c, a.ID, kind, unknown)
	return a, applied, e
}

// hasEnd reports whether a decision is to hold for some days only.
func hasEnd(params []byte) bool {
	for in := jsonrpc.Scan(params); in.Next(); {
		if string(in.Key) == "grantExpiresInDays" {
			return true
		}
	}
	return false
}

// keyOf returns the id of the key that an operator shows, or that its device token was given for;
// empty: none.
func (g *Gateway) keyOf(ctx context.Context, c *conn) (string, error) {
	if c.keyID != "" || c.device == "" {
		return c.keyID, nil
	}
	t, err := g.Store.Peers.Token(ctx, c.device, wire.RoleOperator)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return t.Key, err
}

func approvalSnapshot(a *store.Approval) wire.ApprovalSnapshot {
	s := wire.ApprovalSnapshot{ID: a.ID, URLPath: hub.ApprovalURL("", a.ID), CreatedAtMS: a.Asked.UnixMilli(),
		ExpiresAtMS: a.Expires.UnixMilli(), Status: wire.StatusPending}
	if approvalKind(a) == wire.ApprovalExec {
		r := execRequest(a)
		s.Presentation = wire.ApprovalPresentation{Kind: wire.ApprovalExec, CommandText: r.Command,
			WarningText: r.WarningText, Host: r.Host, NodeID: r.NodeID, AllowedDecisions: r.AllowedDecisions}
	} else {
		r := pluginRequest(a)
		s.Presentation = wire.ApprovalPresentation{Kind: wire.ApprovalPlugin, Title: r.Title,
			Description: r.Description, Detail: r.Detail, Severity: r.Severity, PluginID: r.PluginID,
			ToolName: r.ToolName, AllowedDecisions: r.AllowedDecisions}
	}
	decision := decisionOf(a)
	if decision == "" {
		return s
	}
	s.Status = wire.StatusAllowed
	if decision == wire.Deny {
		s.Status = wire.StatusDenied
	}
	s.ApprovalOutcome = &wire.ApprovalOutcome{ResolvedAtMS: hub.DecidedAt(*a).UnixMilli(), Decision: decision,
		Reason: "user", Resolver: wire.ApprovalResolver{Kind: "channel", ID: a.By}}
	return s
}
