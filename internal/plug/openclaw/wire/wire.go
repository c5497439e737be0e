// Package wire is what an OpenClaw gateway, its nodes and its operators say to
// each other over a WebSocket: frames, the handshake with its signatures, refusals,
// pairing, calls of nodes' commands, and conversations. All three sides use it. It
// does no input and no output.
//
// What a gateway reads is checked as strictly, and refused in the same words, as
// OpenClaw does it, because programs were written against these words: see
// [ParseRequest] and [Shape]. What clients read is taken leniently, as gateways add
// members with every release.
package wire

import "time"

// The versions of the protocol.
const (
	// Protocol is the version of everything here.
	Protocol = 4
	// MinNode is the oldest version a node may ask for. A gateway publishes no tools
	// of such nodes.
	MinNode = 3
	// MinProbe is the oldest version a program that only looks may ask for.
	MinProbe = 3
)

// What both sides hold to.
const (
	// MaxHandshake bounds a frame before the handshake is over, in bytes: strangers
	// make a gateway remember no more than this.
	MaxHandshake = 64 << 10
	// MaxFrame bounds every other frame, in bytes. A longer one ends the connection
	// with CloseTooLarge.
	MaxFrame = 25 << 20
	// MaxBuffered bounds what waits to be sent to one client, in bytes. One that
	// reads more slowly is cut off.
	MaxBuffered = 50 << 20
	// MaxReason bounds the reason in a close frame, in bytes; WebSocket has room for
	// no more.
	MaxReason = 123
	// MaxUnauthorized is how many calls in a row that are none of its role's a client
	// may make before it is cut off.
	MaxUnauthorized = 10
	// MaxProgress bounds a piece of a streamed result, in characters.
	MaxProgress = 16384
	// MaxTranscript bounds what a node's owner said, in characters.
	MaxTranscript = 20000
	// MaxSessionKey bounds the key of a conversation, in characters.
	MaxSessionKey = 512

	// HandshakeTimeout is how long a gateway waits for connect.
	HandshakeTimeout = 15 * time.Second
	// TickInterval is how often a gateway sends a tick. Clients drop one that says
	// nothing for twice as long; pings are nothing.
	TickInterval = 30 * time.Second
	// PingInterval is how often a gateway pings, and how long it waits for the pong.
	PingInterval = 25 * time.Second
	// Skew is how far the time of a signature may be from the gateway's.
	Skew = 2 * time.Minute
	// InvokeTimeout is how long a call of a node's command may take unless the
	// caller says otherwise; ToolTimeout is the same for a tool that a model calls.
	InvokeTimeout = 30 * time.Second
	ToolTimeout   = 120 * time.Second
	// DevicePairTTL is how long a gateway remembers a device that wants in, after
	// its last attempt.
	DevicePairTTL = 5 * time.Minute
	// RunTTL is how long the key of a message keeps it from being answered twice.
	RunTTL = 5 * time.Minute
	// RetryFirst and RetryLast are the pauses before a client connects again: the
	// first one, and the longest after doubling.
	RetryFirst = time.Second
	RetryLast  = 30 * time.Second
)

// Why a connection was closed.
const (
	CloseNormal   = 1000 // also: no connect in time, or no JSON
	CloseProtocol = 1002 // no common version
	ClosePolicy   = 1008 // refused; the reason says why
	CloseTooLarge = 1009
	CloseRestart  = 1012 // the gateway stops
	CloseStarting = 1013 // the gateway is not ready yet
	CloseNoTick   = 4000 // by a client that heard nothing
	CloseRemoved  = 4001 // the device was removed, or its credentials changed
)

// The roles of a client.
const (
	RoleOperator = "operator"
	RoleNode     = "node"
)

// The ids of clients that matter here. There are more, see [ClientIDs].
const (
	ClientNode    = "node-host"
	ClientCLI     = "cli"
	ClientGateway = "gateway-client" // any program that has no id of its own
)

// The modes of clients that matter here. There are more, see [Modes].
const (
	ModeNode    = "node"
	ModeCLI     = "cli"
	ModeBackend = "backend"
	ModeProbe   = "probe"
)

// ClientIDs are the ids that a client may have. With another one it is refused.
var ClientIDs = []string{
	"webchat-ui", "openclaw-control-ui", "openclaw-browser-copilot", "openclaw-tui", "webchat", ClientCLI,
	ClientGateway, "openclaw-macos", "openclaw-linux", "openclaw-ios", "openclaw-watchos", "openclaw-android",
	ClientNode, "openclaw-worker", "test", "fingerprint", "openclaw-probe",
}

// Modes are the modes that a client may have. With another one it is refused.
var Modes = []string{"webchat", ModeCLI, "ui", ModeBackend, ModeNode, "worker", ModeProbe, "test"}

// The methods.
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
	MethodAgent          = "agent"
	MethodAgentWait      = "agent.wait"
	MethodAgentsList     = "agents.list"
	MethodChatSend       = "chat.send"
	MethodChatAbort      = "chat.abort"
	MethodChatHistory    = "chat.history"
	MethodSessionsList   = "sessions.list"
	MethodSessionReset   = "sessions.reset"
	MethodSessionDelete  = "sessions.delete"
	MethodSubscribe      = "sessions.messages.subscribe"
	MethodUnsubscribe    = "sessions.messages.unsubscribe"

	// Of nodes.
	MethodInvokeResult    = "node.invoke.result"
	MethodInvokeProgress  = "node.invoke.progress"
	MethodNodeEvent       = "node.event"
	MethodPluginTools     = "node.pluginTools.update"
	MethodSkills          = "node.skills.update"
	MethodRunnerInventory = "node.runnerInventory.update"
)

// The events.
const (
	EventChallenge       = "connect.challenge"
	EventTick            = "tick"
	EventHealth          = "health"
	EventPresence        = "presence"
	EventShutdown        = "shutdown"
	EventAgent           = "agent"
	EventChat            = "chat"
	EventInvoke          = "node.invoke.request"
	EventInvokeCancel    = "node.invoke.cancel"
	EventHostStats       = "node.hostStats" // {nodeId, hostStats}: what a node told by NodeStats
	EventNodeRequested   = "node.pair.requested"
	EventNodeResolved    = "node.pair.resolved"
	EventDeviceRequested = "device.pair.requested"
	EventDeviceResolved  = "device.pair.resolved"
)

// What a client can do, as it tells in connect.
const (
	// CapSessionScoped makes a gateway send an operator only the conversations that
	// it subscribed to, instead of everybody's.
	CapSessionScoped = "session-scoped-events"
	// CapToolEvents makes a gateway tell an operator which tools are used in the
	// runs that it began.
	CapToolEvents = "tool-events"
	// CapMCP is of a node with MCP servers behind it.
	CapMCP = "mcp"
)

// CommandTool is the command by which a gateway calls a tool that a node
// published. See [ToolCall].
const CommandTool = "mcp.tools.call.v1"
