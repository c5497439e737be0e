package wire

import "encoding/json"

// The methods about the policies by which computers run programs
// (src/gateway/server-methods/exec-approvals.ts). A gateway has such a policy too, for what it runs
// itself.
const (
	MethodExecPolicyGet     = "exec.approvals.get"
	MethodExecPolicySet     = "exec.approvals.set"
	MethodNodeExecPolicyGet = "exec.approvals.node.get"
	MethodNodeExecPolicySet = "exec.approvals.node.set"
)

// The commands of a node with which a gateway reads and replaces the policy
// (src/infra/node-commands.ts, NODE_EXEC_APPROVALS_COMMANDS), and those that run programs.
const (
	CommandPolicyGet  = "system.execApprovals.get"
	CommandPolicySet  = "system.execApprovals.set"
	CommandRun        = "system.run"
	CommandRunPrepare = "system.run.prepare"
)

// Levels of security and of asking of a policy (src/infra/exec-approvals-core.ts). A node asks
// before it runs what a policy with [AskOnMiss] does not list, and always with [AskAlways].
const (
	SecurityDeny      = "deny"
	SecurityAllowlist = "allowlist"
	SecurityFull      = "full"

	AskOff    = "off"
	AskOnMiss = "on-miss"
	AskAlways = "always"
)

// ExecSnapshot is the policy of a node or a gateway (ExecApprovalsNodeSnapshot in the schema).
// Nodes with a policy of their operating system have no File.
type ExecSnapshot struct {
	Path     string          `json:"path,omitempty"`
	Exists   bool            `json:"exists"`
	Hash     string          `json:"hash,omitempty"`
	File     json.RawMessage `json:"file,omitempty"`
	Resolved *ExecDefaults   `json:"resolvedDefaults,omitempty"` // what holds without an agent's own
	// Native is not nil if the policy is of the node's operating system, and reports whether it is
	// in force.
	Native        *bool  `json:"enabled,omitempty"`
	DefaultAction string `json:"defaultAction,omitempty"`
}

// ExecDefaults are the levels of a policy; empty ones are the node's.
type ExecDefaults struct {
	Security    string `json:"security,omitempty"`
	Ask         string `json:"ask,omitempty"`
	AskFallback string `json:"askFallback,omitempty"`
	Skills      bool   `json:"autoAllowSkills"` // programs of OpenClaw's skills run, too
}

// The shapes of the requests. The file itself is checked by the node.
var (
	ShapeExecPolicyGet = &Shape{MethodExecPolicyGet, nil}
	ShapeExecPolicySet = &Shape{MethodExecPolicySet, []field{
		{name: "file", kind: kindMap, required: true}, optionalText("baseHash"),
	}}
	ShapeNodeExecPolicyGet = &Shape{MethodNodeExecPolicyGet, []field{requiredText("nodeId")}}
	ShapeNodeExecPolicySet = &Shape{MethodNodeExecPolicySet, []field{
		requiredText("nodeId"), {name: "file", kind: kindMap}, {name: "native", kind: kindMap},
		optionalText("baseHash"),
	}}
)

// RefuseExecPolicy returns why the policy of a node cannot be read or replaced with one of its
// commands, or nil.
func (p Policy) RefuseExecPolicy(s *Surface, command string) *Error {
	return p.refuseCommand(s, command)
}
