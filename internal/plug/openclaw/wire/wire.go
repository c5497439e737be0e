// Package wire implements the protocol between an OpenClaw gateway, its nodes and its operators
// over a WebSocket: frames, the handshake with its signatures, errors, pairing, calls of node
// commands, and conversations. All three sides use it. It does no I/O.
//
// The gateway side validates as strictly as OpenClaw and uses the same error texts, because
// programs depend on them: see [ParseRequest] and [Shape]. The client side is lenient, because
// gateways add members with every release.
//
// Comments here and in the other packages for OpenClaw cite version 2026.9.6 (npm package
// openclaw): source files below src/ and packages/, and pages below docs/. The texts of errors, and
// what has no other source, are in the recordings of that version in testdata, which SOURCE.txt
// there describes.
package wire

import "time"

// The versions of the protocol (packages/gateway-protocol/src/version.ts;
// docs/gateway/protocol/versioning.md).
const (
	// Protocol is the protocol version implemented here.
	Protocol = 4
	// MinNodeProtocol is the oldest version a node may use. A gateway publishes no tools of such
	// nodes.
	MinNodeProtocol = 3
	// MinProbeProtocol is the oldest version a probing program may use.
	MinProbeProtocol = 3
)

// Limits and timeouts of both sides.
const (
	// MaxHandshake limits a frame before authentication, in bytes: it bounds the memory that
	// strangers can use (src/gateway/server-constants.ts, MAX_PREAUTH_PAYLOAD_BYTES).
	MaxHandshake = 64 << 10
	// MaxFrame limits every other frame, in bytes. A longer one ends the connection with
	// CloseTooLarge (src/gateway/server-constants.ts, MAX_PAYLOAD_BYTES).
	MaxFrame = 25 << 20
	// MaxBuffered limits the data queued for one client, in bytes. A slower client is disconnected
	// (src/gateway/server-constants.ts, MAX_BUFFERED_BYTES).
	MaxBuffered = 50 << 20
	// MaxReason limits the reason in a Close frame, in bytes (RFC 6455 §5.5: 125 bytes with the
	// code).
	MaxReason = 123
	// MaxUnauthorized is how many consecutive calls outside its role a client may make before it is
	// disconnected (src/gateway/server/ws-connection/unauthorized-flood-guard.ts,
	// DEFAULT_CLOSE_AFTER).
	MaxUnauthorized = 10
	// MaxProgress limits a piece of a streamed result, in characters
	// (packages/gateway-protocol/src/schema/nodes.ts, NodeInvokeProgressParams).
	MaxProgress = 16384
	// MaxTranscript limits a voice transcript and the message of an agent.request, in characters
	// (src/gateway/server-node-events.ts).
	MaxTranscript = 20000
	// MaxSessionKey limits the key of a conversation, in characters
	// (packages/gateway-protocol/src/schema/primitives.ts, ChatSendSessionKeyString).
	MaxSessionKey = 512

	// HandshakeTimeout is how long a gateway waits for connect
	// (packages/gateway-client/src/timeouts.ts, DEFAULT_PREAUTH_HANDSHAKE_TIMEOUT_MS).
	HandshakeTimeout = 15 * time.Second
	// TickInterval is how often a gateway sends a tick (src/gateway/server-constants.ts,
	// TICK_INTERVAL_MS). Clients disconnect after twice that time without a frame; pings do not
	// count (packages/gateway-client/src/client.ts; docs/gateway/protocol/versioning.md, "Client
	// constants").
	TickInterval = 30 * time.Second
	// PingInterval is how often a gateway pings, and how long it waits for the pong
	// (src/gateway/websocket-keepalive.ts).
	PingInterval = 25 * time.Second
	// MaxClockSkew is the allowed difference between the time of a signature and the gateway's
	// clock (src/gateway/server/ws-connection/connect-device-proof.ts, DEVICE_SIGNATURE_SKEW_MS).
	MaxClockSkew = 2 * time.Minute
	// InvokeTimeout is the default timeout of a call of a node's command
	// (src/gateway/node-registry-private.ts); ToolTimeout is that of a tool called by a model
	// (src/agents/node-plugin-tools.ts, NODE_MCP_TOOL_CALL_TIMEOUT_MS).
	InvokeTimeout = 30 * time.Second
	ToolTimeout   = 120 * time.Second
	// RunTTL is how long the idempotency key of a message prevents a second answer
	// (src/gateway/server-constants.ts, DEDUPE_TTL_MS).
	RunTTL = 5 * time.Minute
	// MinBackoff and MaxBackoff are the first and the longest delay before a client reconnects; the
	// delay doubles each time (packages/gateway-client/src/client.ts, GATEWAY_RECONNECT_POLICY).
	MinBackoff = time.Second
	MaxBackoff = 30 * time.Second
)

// Close codes (RFC 6455 §7.4.1). Those from 4000 are OpenClaw's:
// packages/gateway-client/src/client.ts and src/gateway/server-request-context.ts.
const (
	CloseNormal   = 1000 // also: no connect in time, or invalid JSON
	CloseProtocol = 1002 // no common version
	ClosePolicy   = 1008 // refused; the reason says why
	CloseTooLarge = 1009
	CloseRestart  = 1012 // the gateway stops
	CloseStarting = 1013 // the gateway is not ready yet
	CloseNoTick   = 4000 // by a client that received nothing
	CloseRemoved  = 4001 // the device was removed, or its credentials changed
)

// The roles of clients (docs/gateway/protocol/handshake.md, "Roles and scopes").
const (
	RoleOperator = "operator"
	RoleNode     = "node"
)

// The client ids used here. There are more, see [ClientIDs].
const (
	ClientNode    = "node-host"
	ClientCLI     = "cli"
	ClientGateway = "gateway-client" // any program without an id of its own
)

// The client modes used here. There are more, see [Modes].
const (
	ModeNode    = "node"
	ModeCLI     = "cli"
	ModeBackend = "backend"
	ModeProbe   = "probe"
)

// ClientIDs are the allowed client ids; others are refused
// (packages/gateway-protocol/src/client-info.ts, GATEWAY_CLIENT_IDS).
var ClientIDs = []string{
	"webchat-ui", "openclaw-control-ui", "openclaw-browser-copilot", "openclaw-tui", "webchat", ClientCLI,
	ClientGateway, "openclaw-macos", "openclaw-linux", "openclaw-ios", "openclaw-watchos", "openclaw-android",
	ClientNode, "openclaw-worker", "test", "fingerprint", "openclaw-probe",
}

// Modes are the allowed client modes; others are refused
// (packages/gateway-protocol/src/client-info.ts).
var Modes = []string{"webchat", ModeCLI, "ui", ModeBackend, ModeNode, "worker", ModeProbe, "test"}

// The methods (src/gateway/methods/core-descriptors.ts).
const (
	MethodConnect = "connect"

	// Of operators.
	MethodHealth         = "health"
	MethodStatus         = "status"
	MethodSystemPresence = "system-presence"
	MethodNodeList       = "node.list"
	MethodNodeDescribe   = "node.describe"
	MethodNodeInvoke     = "node.invoke"
	MethodNodeRename     = "node.rename"
	MethodNodePairList   = "node.pair.list"
	MethodNodeApprove    = "node.pair.approve"
	MethodNodeReject     = "node.pair.reject"
	MethodNodeRemove     = "node.pair.remove"
	MethodDevicePairList = "device.pair.list"
	MethodDeviceApprove  = "device.pair.approve"
	MethodDeviceReject   = "device.pair.reject"
	MethodDeviceRemove   = "device.pair.remove"
	MethodDeviceRename   = "device.pair.rename"
	MethodSetupCode      = "device.pair.setupCode"
	MethodTokenRotate    = "device.token.rotate"
	MethodTokenRevoke    = "device.token.revoke"
	MethodAgent          = "agent"
	MethodAgentWait      = "agent.wait"
	MethodAgentsList     = "agents.list"
	MethodChatSend       = "chat.send"
	MethodChatAbort      = "chat.abort"
	MethodChatHistory    = "chat.history"
	MethodChatStartup    = "chat.startup"
	MethodChatMetadata   = "chat.metadata"
	MethodChatInject     = "chat.inject"
	MethodSend           = "send"
	MethodSubscribe      = "sessions.messages.subscribe"
	MethodUnsubscribe    = "sessions.messages.unsubscribe"

	MethodSessionsList      = "sessions.list"
	MethodSessionsSubscribe = "sessions.subscribe"
	MethodSessionDescribe   = "sessions.describe"
	MethodSessionResolve    = "sessions.resolve"
	MethodSessionGet        = "sessions.get"
	MethodSessionPreview    = "sessions.preview"
	MethodSessionCreate     = "sessions.create"
	MethodSessionPatch      = "sessions.patch"
	MethodSessionReset      = "sessions.reset"
	MethodSessionDelete     = "sessions.delete"
	MethodSessionSend       = "sessions.send"
	MethodSessionAbort      = "sessions.abort"
	MethodSessionCompact    = "sessions.compact"

	MethodAgentIdentity   = "agent.identity.get"
	MethodCommandsList    = "commands.list"
	MethodModelsList      = "models.list"
	MethodToolsCatalog    = "tools.catalog"
	MethodQuestionList    = "question.list"
	MethodExecList        = "exec.approval.list"
	MethodExecGet         = "exec.approval.get"
	MethodExecResolve     = "exec.approval.resolve"
	MethodPluginList      = "plugin.approval.list"
	MethodPluginResolve   = "plugin.approval.resolve"
	MethodApprovalGet     = "approval.get"
	MethodApprovalResolve = "approval.resolve"
	MethodSystemList      = "openclaw.approval.list"
	MethodTaskSuggestions = "taskSuggestions.list"

	// Of nodes.
	MethodInvokeResult    = "node.invoke.result"
	MethodInvokeProgress  = "node.invoke.progress"
	MethodNodeEvent       = "node.event"
	MethodPluginTools     = "node.pluginTools.update"
	MethodSkills          = "node.skills.update"
	MethodRunnerInventory = "node.runnerInventory.update"
)

// The events (docs/gateway/protocol/rpc-bootstrap-and-events.md, "Common event families").
const (
	EventChallenge       = "connect.challenge"
	EventTick            = "tick"
	EventHealth          = "health"
	EventPresence        = "presence"
	EventShutdown        = "shutdown"
	EventAgent           = "agent"
	EventChat            = "chat"
	EventSessionMessage  = "session.message"  // somebody or the agent said something
	EventSessionsChanged = "sessions.changed" // the list of conversations, or one of them
	EventSessionTool     = "session.tool"     // the agent uses a tool
	EventInvoke          = "node.invoke.request"
	EventInvokeCancel    = "node.invoke.cancel"
	EventHostStats       = "node.hostStats" // {nodeId, hostStats}: what a node reported by NodeStats
	EventNodeRequested   = "node.pair.requested"
	EventNodeResolved    = "node.pair.resolved"
	EventDeviceRequested = "device.pair.requested"
	EventDeviceResolved  = "device.pair.resolved"
	EventExecRequested   = "exec.approval.requested"
	EventExecResolved    = "exec.approval.resolved"
	EventPluginRequested = "plugin.approval.requested"
	EventPluginResolved  = "plugin.approval.resolved"
)

// Client capabilities in connect (packages/gateway-protocol/src/client-info.ts;
// docs/gateway/clients.md, "Advertise client capabilities").
const (
	// CapSessionScoped limits an operator's chat events to the conversations that it subscribed
	// to.
	CapSessionScoped = "session-scoped-events"
	// CapToolEvents is the capability of operators that show the tools that an agent uses.
	CapToolEvents = "tool-events"
	// CapMCP is the capability of a node with MCP servers behind it.
	CapMCP = "mcp"
)

// CommandTool is the command with which a gateway calls a tool published by a node
// (src/infra/node-commands.ts, NODE_MCP_TOOLS_CALL_COMMAND). See [ToolCall].
const CommandTool = "mcp.tools.call.v1"
