package wire

import "slices"

// The scopes of operators. Admin includes all, and write includes read
// (docs/gateway/operator-scopes.md, "Scope levels").
const (
	ScopeRead      = "operator.read"
	ScopeWrite     = "operator.write"
	ScopePairing   = "operator.pairing"
	ScopeAdmin     = "operator.admin"
	ScopeApprovals = "operator.approvals"
)

// nodeMethods are the methods that only nodes may call (src/gateway/methods/core-descriptors.ts).
var nodeMethods = map[string]bool{
	MethodInvokeResult: true, MethodInvokeProgress: true, MethodNodeEvent: true, MethodPluginTools: true,
	MethodSkills:          true,
	MethodRunnerInventory: true, "node.pluginSurface.refresh": true, "node.pending.pull": true,
	"node.pending.ack":   true,
	"node.pending.drain": true, "skills.bins": true,
}

// methodScopes maps methods to the scope that an operator needs
// (src/gateway/methods/core-descriptors.ts).
var methodScopes = map[string]string{
	MethodHealth: ScopeRead, MethodStatus: ScopeRead, MethodSystemPresence: ScopeRead,
	MethodNodeList: ScopeRead, MethodNodeDescribe: ScopeRead,
	MethodNodeInvoke: ScopeWrite, // and see AdminOnly
	MethodNodeRename: ScopePairing,

	MethodNodePairList: ScopePairing, MethodNodeApprove: ScopePairing, MethodNodeReject: ScopePairing,
	MethodNodeRemove:     ScopePairing,
	MethodDevicePairList: ScopePairing, MethodDeviceApprove: ScopePairing, MethodDeviceReject: ScopePairing,
	MethodDeviceRemove: ScopePairing, MethodDeviceRename: ScopePairing,
	MethodTokenRotate: ScopePairing, MethodTokenRevoke: ScopePairing,
	MethodSetupCode: ScopePairing, // there, admin: its nodes are everybody's

	MethodAgent: ScopeWrite, MethodAgentWait: ScopeWrite, MethodAgentsList: ScopeRead,
	MethodChatSend: ScopeWrite, MethodChatAbort: ScopeWrite, MethodChatHistory: ScopeRead,
	MethodChatStartup: ScopeRead, MethodChatMetadata: ScopeRead, MethodChatInject: ScopeAdmin, MethodSend: ScopeWrite,
	MethodSubscribe: ScopeRead, MethodUnsubscribe: ScopeRead,

	// There, reset, delete and compact need admin, as conversations can be other people's. Here
	// they are always one's own.
	MethodSessionsList: ScopeRead, MethodSessionsSubscribe: ScopeRead, MethodSessionDescribe: ScopeRead,
	MethodSessionResolve: ScopeRead, MethodSessionGet: ScopeRead, MethodSessionPreview: ScopeRead,
	MethodSessionCreate: ScopeWrite, MethodSessionPatch: ScopeWrite, MethodSessionReset: ScopeWrite,
	MethodSessionDelete: ScopeWrite, MethodSessionSend: ScopeWrite, MethodSessionAbort: ScopeWrite,
	MethodSessionCompact: ScopeWrite,

	// There, these need admin, too.
	MethodExecPolicyGet: ScopePairing, MethodExecPolicySet: ScopePairing, MethodNodeExecPolicyGet: ScopePairing,
	MethodNodeExecPolicySet: ScopePairing,

	MethodAgentIdentity: ScopeRead, MethodCommandsList: ScopeRead, MethodModelsList: ScopeRead,
	MethodToolsCatalog: ScopeRead, MethodQuestionList: ScopeRead, MethodTaskSuggestions: ScopeRead,

	MethodExecList: ScopeApprovals, MethodExecGet: ScopeApprovals, MethodExecResolve: ScopeApprovals,
	MethodPluginList: ScopeApprovals, MethodPluginResolve: ScopeApprovals,
	MethodApprovalGet: ScopeApprovals, MethodApprovalResolve: ScopeApprovals, MethodSystemList: ScopeApprovals,
}

// CheckPermission returns the error if a client with a role and scopes may not call a method,
// else nil. Check first whether the gateway supports the method: operators need no scope for
// methods that are not listed here.
func CheckPermission(method, role string, scopes []string) *Error {
	if nodeMethods[method] != (role == RoleNode) {
		return WrongRole(role)
	}
	if scope := methodScopes[method]; scope != "" && !HasScope(scopes, scope) {
		return MissingScope(scope)
	}
	return nil
}

// HasScope reports whether scopes include a scope.
func HasScope(scopes []string, scope string) bool {
	return slices.Contains(scopes, scope) || slices.Contains(scopes, ScopeAdmin) ||
		scope == ScopeRead && slices.Contains(scopes, ScopeWrite)
}

// MayKeepScopes reports whether a client without a device, with a valid token and on the loopback
// interface, gets the scopes it requests. Others get none
// (src/gateway/server/ws-connection/connect-auth.ts, handshake-auth-helpers.ts).
func MayKeepScopes(c Client) bool {
	return c.ID == ClientGateway && c.Mode == ModeBackend || c.ID == ClientCLI && c.Mode == ModeCLI
}

// ApproveScopes returns the scopes that an operator needs to approve a node with these commands
// (src/infra/node-pairing-authz.ts, resolveNodePairApprovalScopes).
func ApproveScopes(commands []string) []string {
	switch {
	case len(commands) == 0:
		return []string{ScopePairing}
	case slices.ContainsFunc(commands, func(c string) bool { return adminApprovalCommands[c] }):
		return []string{ScopePairing, ScopeAdmin}
	}
	return []string{ScopePairing, ScopeWrite}
}
