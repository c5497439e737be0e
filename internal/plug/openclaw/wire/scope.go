package wire

import "slices"

// The scopes of operators. Admin stands for all, and write for read.
const (
	ScopeRead      = "operator.read"
	ScopeWrite     = "operator.write"
	ScopePairing   = "operator.pairing"
	ScopeAdmin     = "operator.admin"
	ScopeApprovals = "operator.approvals"
)

// nodeMethods are the methods that nodes may call, and nobody else.
var nodeMethods = map[string]bool{
	MethodInvokeResult: true, MethodInvokeProgress: true, MethodNodeEvent: true, MethodPluginTools: true, MethodSkills: true,
	MethodRunnerInventory: true, "node.pluginSurface.refresh": true, "node.pending.pull": true, "node.pending.ack": true,
	"node.pending.drain": true, "skills.bins": true,
}

// methodScopes says which scope an operator needs.
var methodScopes = map[string]string{
	MethodHealth: ScopeRead, MethodStatus: ScopeRead, MethodSystemPresence: ScopeRead,
	MethodNodeList: ScopeRead, MethodNodeDescribe: ScopeRead,
	MethodNodeInvoke: ScopeWrite, // and see AdminOnly
	MethodNodeRename: ScopePairing,

	MethodNodePairList: ScopePairing, MethodNodeApprove: ScopePairing, MethodNodeReject: ScopePairing, MethodNodeRemove: ScopePairing,
	MethodDevicePairList: ScopePairing, MethodDeviceApprove: ScopePairing, MethodDeviceReject: ScopePairing, MethodDeviceRemove: ScopePairing,

	MethodAgent: ScopeWrite, MethodAgentWait: ScopeWrite, MethodAgentsList: ScopeRead,
	MethodChatSend: ScopeWrite, MethodChatAbort: ScopeWrite, MethodChatHistory: ScopeRead, "chat.inject": ScopeAdmin,
	MethodSessionsList: ScopeRead, MethodSubscribe: ScopeRead, MethodUnsubscribe: ScopeRead,
	MethodSessionReset: ScopeAdmin, MethodSessionDelete: ScopeAdmin,
}

// Permit says whether a client with a role and scopes may call a method: nil, or
// what it is told. Whether the gateway has the method is another question, to be
// asked first: of methods that are not here, operators need nothing.
func Permit(method, role string, scopes []string) *Error {
	if nodeMethods[method] != (role == RoleNode) {
		return WrongRole(role)
	}
	if scope := methodScopes[method]; scope != "" && !HasScope(scopes, scope) {
		return MissingScope(scope)
	}
	return nil
}

// HasScope says whether scopes are enough for what one of them is for.
func HasScope(scopes []string, scope string) bool {
	return slices.Contains(scopes, scope) || slices.Contains(scopes, ScopeAdmin) ||
		scope == ScopeRead && slices.Contains(scopes, ScopeWrite)
}

// KeepsScopes says whether a client without a device, that showed the right token on
// the loopback interface, may do what it asks for. Others may do nothing.
func KeepsScopes(c Client) bool {
	return c.ID == ClientGateway && c.Mode == ModeBackend || c.ID == ClientCLI && c.Mode == ModeCLI
}

// ApproveScopes are the scopes that an operator needs to approve a node with these
// commands.
func ApproveScopes(commands []string) []string {
	switch {
	case len(commands) == 0:
		return []string{ScopePairing}
	case slices.ContainsFunc(commands, func(c string) bool { return adminApproval[c] }):
		return []string{ScopePairing, ScopeAdmin}
	}
	return []string{ScopePairing, ScopeWrite}
}
