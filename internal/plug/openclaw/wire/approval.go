package wire

import "encoding/json"

// Decisions about a call that waits (packages/gateway-protocol/src/schema, ApprovalDecision).
const (
	AllowOnce   = "allow-once"
	AllowAlways = "allow-always"
	Deny        = "deny"
)

// Kinds of calls that wait: programs that a node is to run, and all others. Each has methods and
// events of its own.
const (
	ApprovalExec   = "exec"
	ApprovalPlugin = "plugin"
	ApprovalSystem = "system-agent" // of OpenClaw's own; there are none here
)

// Approval is a call that waits for a decision (src/gateway/server-methods/approval-shared.ts).
type Approval struct {
	ID          string `json:"id"`
	Kind        string `json:"approvalKind"`
	Request     any    `json:"request"` // [ExecRequest] or [PluginRequest]
	CreatedAtMS int64  `json:"createdAtMs"`
	ExpiresAtMS int64  `json:"expiresAtMs"`
}

// ExecRequest is what a node is to run (src/gateway/server-methods/exec-approval.ts).
type ExecRequest struct {
	Command          string   `json:"command"`
	CWD              *string  `json:"cwd"`
	NodeID           string   `json:"nodeId"`
	Host             string   `json:"host"` // [HostNode]
	EnvKeys          []string `json:"envKeys,omitempty"`
	WarningText      string   `json:"warningText,omitempty"`
	AgentID          *string  `json:"agentId"`
	SessionKey       *string  `json:"sessionKey"`
	AllowedDecisions []string `json:"allowedDecisions"`
}

// HostNode is the host of a program that runs on a node; others run on the gateway.
const HostNode = "node"

// Limits of a [PluginRequest], in characters (PluginApprovalRequestParams in the schema).
const (
	MaxApprovalTitle       = 80
	MaxApprovalDescription = 512
	MaxApprovalDetail      = 16 << 10
)

// PluginRequest is any other call that waits.
type PluginRequest struct {
	Title            string   `json:"title"`
	Description      string   `json:"description"`
	Detail           string   `json:"detail,omitempty"`
	Severity         string   `json:"severity"` // [SeverityWarning]
	PluginID         string   `json:"pluginId"`
	ToolName         string   `json:"toolName"`
	AllowedDecisions []string `json:"allowedDecisions"`
}

// SeverityWarning is how serious a call is that a person is asked about.
const SeverityWarning = "warning"

// ApprovalResolved is the event about a decision.
type ApprovalResolved struct {
	ID         string `json:"id"`
	Decision   string `json:"decision"`
	ResolvedBy string `json:"resolvedBy"`
	TS         int64  `json:"ts"`
	Request    any    `json:"request"`
}

// ExecApproval is the response to exec.approval.get.
type ExecApproval struct {
	ID               string   `json:"id"`
	CommandText      string   `json:"commandText"`
	AllowedDecisions []string `json:"allowedDecisions"`
	Host             string   `json:"host"`
	NodeID           string   `json:"nodeId"`
	AgentID          *string  `json:"agentId"`
	ExpiresAtMS      int64    `json:"expiresAtMs"`
}

// Statuses of a call that waits, or was decided.
const (
	StatusPending = "pending"
	StatusAllowed = "allowed"
	StatusDenied  = "denied"
)

// ApprovalSnapshot is a call that waits or was decided (ApprovalSnapshot in the schema).
type ApprovalSnapshot struct {
	ID           string               `json:"id"`
	URLPath      string               `json:"urlPath"`
	CreatedAtMS  int64                `json:"createdAtMs"`
	ExpiresAtMS  int64                `json:"expiresAtMs"`
	Presentation ApprovalPresentation `json:"presentation"`
	Status       string               `json:"status"`
	*ApprovalOutcome
}

// ApprovalPresentation is what a person decides about. An exec approval has a command text, and a
// plugin approval a title, description and severity.
type ApprovalPresentation struct {
	Kind             string   `json:"kind"`
	CommandText      string   `json:"commandText,omitempty"`
	WarningText      string   `json:"warningText,omitempty"`
	Host             string   `json:"host,omitempty"`
	NodeID           string   `json:"nodeId,omitempty"`
	Title            string   `json:"title,omitempty"`
	Description      string   `json:"description,omitempty"`
	Detail           string   `json:"detail,omitempty"`
	Severity         string   `json:"severity,omitempty"`
	PluginID         string   `json:"pluginId,omitempty"`
	ToolName         string   `json:"toolName,omitempty"`
	AllowedDecisions []string `json:"allowedDecisions"`
}

// ApprovalOutcome is how a call was decided.
type ApprovalOutcome struct {
	ResolvedAtMS int64            `json:"resolvedAtMs"`
	Decision     string           `json:"decision"`
	Reason       string           `json:"reason"` // "user"
	Resolver     ApprovalResolver `json:"resolver"`
}

// ApprovalResolver is who decided. Kind is "channel" here: the console, a channel of a turn, or a
// program.
type ApprovalResolver struct {
	Kind string `json:"kind"`
	ID   string `json:"id,omitempty"`
}

// The errors about calls that wait (src/gateway/server-methods/approval-record-lookup.ts,
// approval-shared.ts, approval.ts).
var (
	ApprovalUnknown = &Error{Code: InvalidRequest, Message: "unknown or expired approval id",
		Details: json.RawMessage(`{"reason":"APPROVAL_NOT_FOUND",` +
			`"remediation":"Re-request the action; pending approvals are cleared after expiry or restart."}`)}
	ApprovalNotFound = &Error{Code: InvalidRequest, Message: "approval not found",
		Details: json.RawMessage(`{"reason":"APPROVAL_NOT_FOUND"}`)}
	ApprovalDecided = &Error{Code: InvalidRequest, Message: "approval already resolved",
		Details: json.RawMessage(`{"reason":"APPROVAL_ALREADY_RESOLVED"}`)}
	DecisionUnavailable = &Error{Code: InvalidRequest, Message: "this decision is unavailable for this command",
		Details: json.RawMessage(`{"reason":"APPROVAL_ALLOW_ALWAYS_UNAVAILABLE"}`)}
)

// The shapes of requests about calls that wait.
var (
	ShapeExecList      = &Shape{MethodExecList, nil}
	ShapePluginList    = &Shape{MethodPluginList, nil}
	ShapeExecGet       = &Shape{MethodExecGet, []field{requiredText("id")}}
	ShapeExecResolve   = &Shape{MethodExecResolve, approvalDecision}
	ShapePluginResolve = &Shape{MethodPluginResolve, approvalDecision}
	ShapeApprovalGet   = &Shape{MethodApprovalGet, []field{requiredText("id")}}
	ShapeApproveOne    = &Shape{MethodApprovalResolve, append([]field{
		enumField("kind", ApprovalExec, ApprovalPlugin, ApprovalSystem).makeRequired()}, approvalDecision...)}
)

var approvalDecision = []field{requiredText("id"),
	enumField("decision", AllowOnce, AllowAlways, Deny).makeRequired(), {name: "reviewer", kind: kindMap},
	intField("grantExpiresInDays").atLeast(1)}

// RunPlan is how a node would run a program, as [CommandRunPrepare] returns it.
type RunPlan struct {
	Argv        []string `json:"argv"`
	CWD         *string  `json:"cwd"`
	CommandText string   `json:"commandText"`
	AgentID     *string  `json:"agentId"`
	SessionKey  *string  `json:"sessionKey"`
}

// ApprovalsUnavailable is the response to an operator that calls a program approved: only the
// owner's decision about a call that has waited counts
// (src/gateway/node-invoke-system-run-approval.ts).
var ApprovalsUnavailable = &Error{Code: InvalidRequest, Message: "exec approvals unavailable",
	Details: json.RawMessage(`{"code":"APPROVALS_UNAVAILABLE"}`)}
