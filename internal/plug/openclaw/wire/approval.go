package wire

import "encoding/json"

// Decisions about a program that a node is to run (packages/gateway-protocol/src/schema,
// ApprovalDecision).
const (
	AllowOnce   = "allow-once"
	AllowAlways = "allow-always"
)

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
